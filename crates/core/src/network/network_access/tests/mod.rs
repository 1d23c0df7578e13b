//! The rules as a specification, one test or more for each.

mod addresses;
mod list;
#[cfg(feature = "url-rules")]
mod matching;
#[cfg(feature = "url-rules")]
mod merging;
#[cfg(feature = "url-rules")]
mod paths;
#[cfg(feature = "url-rules")]
mod patterns;
#[cfg(feature = "url-rules")]
mod properties;
#[cfg(not(feature = "url-rules"))]
mod without_rules;

use super::*;

/// Returns the list that allows only one pattern.
#[cfg(feature = "url-rules")]
fn only(pattern: &str) -> NetworkAccessList {
    NetworkAccessList::allow_only([pattern])
}

/// Returns the list that blocks only one pattern.
#[cfg(feature = "url-rules")]
fn without(pattern: &str) -> NetworkAccessList {
    NetworkAccessList::block([pattern])
}

/// Checks a list's decisions about URLs, and prints the URL that failed.
#[cfg(feature = "url-rules")]
#[track_caller]
fn check(list: &NetworkAccessList, allowed: &[&str], denied: &[&str]) {
    for url in allowed {
        assert!(list.is_url_allowed(url), "{list:?} must allow {url}");
    }
    for url in denied {
        assert!(!list.is_url_allowed(url), "{list:?} must deny {url}");
    }
}
