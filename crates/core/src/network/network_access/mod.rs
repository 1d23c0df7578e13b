//! The URLs that an agent may access: allow and block lists, their patterns and how layers merge.
//!
//! | pattern | matches |
//! | --- | --- |
//! | `example.com` | that host, http and https, every port |
//! | `*.example.com` | the host and all its subdomains |
//! | `127.0.0.1`, `[::1]` | that address, however the URL spells it |
//! | `*` | every http and https URL |
//! | `host:8443` | any of the above on one port: `*.example.com:8443`, `[::1]:8080`, `*:443` |
//! | `https://host/path` | a prefix that ends at a path segment, for one scheme and port (443 or 80 if none is written) |
//!
//! A prefix may have a wildcard host as well, `https://*.example.com/v1`, so that any two patterns overlap in nothing or in
//! exactly one pattern. A path needs a scheme: `10.0.0.0/8` looks like a range of addresses and is refused, not misread.
//!
//! Everything doubtful is denied. An allowed pattern that does not parse matches nothing; a blocked one makes its list
//! deny every URL. Without the feature `url-rules` a list that is not empty denies every URL.

mod invalid_pattern;
mod merge;
mod private_address;
#[cfg(feature = "url-rules")]
mod rules;
#[cfg(not(feature = "url-rules"))]
#[path = "without_rules.rs"]
mod rules;
#[cfg(test)]
mod tests;

use std::net::IpAddr;

use serde::{Deserialize, Serialize};

pub use invalid_pattern::{InvalidPattern, PatternProblem};
pub use merge::merge_network_access;
pub use private_address::is_private_address;

/// Limits the URLs that a layer may access. Blocked patterns win, and an empty `allowed` allows every URL that is not blocked.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct NetworkAccessList {
    /// The patterns of which a URL must match one; empty allows all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed: Vec<String>,
    /// The patterns of which a URL must match none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
}

impl NetworkAccessList {
    /// Creates a list that allows what matches one of the patterns; without any pattern it limits nothing.
    pub fn allow_only(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            allowed: patterns.into_iter().map(Into::into).collect(),
            blocked: Vec::new(),
        }
    }

    /// Creates a list that allows every http and https URL that matches none of the patterns.
    pub fn block(patterns: impl IntoIterator<Item = impl Into<String>>) -> Self {
        Self {
            allowed: Vec::new(),
            blocked: patterns.into_iter().map(Into::into).collect(),
        }
    }

    /// Creates the list that allows no URL, written as a block of `*`. An empty intersection merges to it.
    pub fn deny_all() -> Self {
        Self::block(["*"])
    }

    /// Tells whether the list has no pattern and so limits nothing.
    pub fn is_empty(&self) -> bool {
        self.allowed.is_empty() && self.blocked.is_empty()
    }

    /// Decides about one URL; a list with patterns denies any text that is not a well-formed http or https URL.
    pub fn is_url_allowed(&self, url: &str) -> bool {
        self.is_empty() || rules::allows(self, url)
    }

    /// Decides about the address to which the host of a URL was resolved. Call it after [`Self::is_url_allowed`].
    ///
    /// A pattern that blocks an address blocks every name of it. A name that leads to a [private
    /// address](is_private_address) is denied by every list with patterns, unless one of them allows the address.
    pub fn is_address_allowed(&self, url: &str, address: IpAddr) -> bool {
        self.is_empty() || rules::allows_address(self, url, address)
    }

    /// Returns whether any rule blocks a part of the URL's host and port, for any scheme and path. Tunnel traffic cannot be inspected, so a tunnel
    /// must not lead to a partly blocked host. With an address, also checks the address that the host resolves to.
    pub fn blocks_part_of(&self, url: &str, address: Option<IpAddr>) -> bool {
        !self.blocked.is_empty() && rules::blocks_part_of(self, url, address)
    }

    /// Refuses the first pattern that cannot be understood, for use when a list is set.
    ///
    /// Without the feature `url-rules` it accepts every list, because each one with patterns denies all.
    pub fn validate(&self) -> Result<(), InvalidPattern> {
        rules::check(self)
    }
}
