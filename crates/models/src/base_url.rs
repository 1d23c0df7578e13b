//! Addresses of providers: which can be called.

use reqwest::Url;
use windlass_core::error::AgentLoopError;

/// How much of a value is repeated.
const MAX_SHOWN: usize = 60;
/// How long a word may be that is repeated although it looks like no address.
const MAX_WORD: usize = 16;

/// An address that cannot be called.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the base URL `{shown}` of {place} {fault}; write one such as http://127.0.0.1:11434/v1")]
pub struct BaseUrlError {
    /// Where it was given: a provider, a variable, a place of a configuration.
    pub place: String,
    /// The value, without what may be a secret in it.
    pub shown: String,
    /// What is wrong with it.
    pub fault: BaseUrlFault,
}

/// What is wrong with an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlFault {
    /// There is none.
    #[error("is empty")]
    Empty,
    /// It cannot be read.
    #[error("is no URL")]
    NotAUrl,
    /// It is called in another way.
    #[error("begins with neither http:// nor https://")]
    Scheme,
    /// Addresses are shown and logged.
    #[error("holds a user or a password, which belong into a key or a header")]
    Login,
    /// Paths are put behind it.
    #[error(
        "has parameters or a fragment, behind which no path can stand; parameters belong into ProviderSettings::query"
    )]
    Parameters,
}

impl From<BaseUrlError> for AgentLoopError {
    fn from(error: BaseUrlError) -> Self {
        Self::config(error.to_string())
    }
}

/// Refuses an address that no driver can call. `place` says where it was given.
///
/// ```
/// use windlass_models::{BaseUrlFault, check_base_url};
/// assert!(check_base_url("OPENAI_BASE_URL", "http://127.0.0.1:11434/v1").is_ok());
/// let error = check_base_url("OPENAI_BASE_URL", "localhost:11434/v1").unwrap_err();
/// assert_eq!(error.fault, BaseUrlFault::Scheme);
/// ```
pub fn check_base_url(place: &str, url: &str) -> Result<(), BaseUrlError> {
    match fault(url) {
        None => Ok(()),
        Some(fault) => Err(BaseUrlError {
            place: place.to_owned(),
            shown: shown(url),
            fault,
        }),
    }
}

fn fault(url: &str) -> Option<BaseUrlFault> {
    if url.trim().is_empty() {
        return Some(BaseUrlFault::Empty);
    }
    let Ok(url) = Url::parse(url) else {
        return Some(BaseUrlFault::NotAUrl);
    };
    if !matches!(url.scheme(), "http" | "https") {
        return Some(BaseUrlFault::Scheme);
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Some(BaseUrlFault::Login);
    }
    (url.query().is_some() || url.fragment().is_some()).then_some(BaseUrlFault::Parameters)
}

/// Shows a value without login and parameters. What looks like a key in the wrong place is not repeated.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    // Everything before the last `@` may be part of a password.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let is_word = scheme.is_empty() && !rest.contains(['.', ':', '/', ' ']);
    let keep = if is_word && rest.chars().count() > MAX_WORD {
        4
    } else {
        MAX_SHOWN
    };
    let text = format!("{scheme}{rest}");
    match text.char_indices().nth(keep) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text,
    }
}

/// Returns host and port of an address, where they are others than those of another.
pub(crate) fn host_beside(url: &str, own: &str) -> Option<String> {
    let host = |url: &str| {
        let url = Url::parse(url).ok()?;
        let host = url.host_str()?.to_owned();
        Some(match url.port() {
            Some(port) => format!("{host}:{port}"),
            None => host,
        })
    };
    host(url).filter(|called| host(own).as_ref() != Some(called))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_called_is_named_with_its_place() {
        for (url, expected, shown) in [
            ("", BaseUrlFault::Empty, "``"),
            (" ", BaseUrlFault::Empty, "` `"),
            ("not a url", BaseUrlFault::NotAUrl, "`not a url`"),
            (
                "api.openai.com/v1",
                BaseUrlFault::NotAUrl,
                "`api.openai.com/v1`",
            ),
            ("http://", BaseUrlFault::NotAUrl, "`http://`"),
            (
                "localhost:11434/v1",
                BaseUrlFault::Scheme,
                "`localhost:11434/v1`",
            ),
            ("ftp://host/v1", BaseUrlFault::Scheme, "`ftp://host/v1`"),
            (
                "https://me:hunter2@host/v1",
                BaseUrlFault::Login,
                "`https://host/v1`",
            ),
            (
                "https://host/v1?key=hunter2",
                BaseUrlFault::Parameters,
                "`https://host/v1`",
            ),
            ("hunter2-hunter2-hunter2", BaseUrlFault::NotAUrl, "`hunt…`"),
            ("hunter2@host", BaseUrlFault::NotAUrl, "`host`"),
        ] {
            let error = check_base_url("OPENAI_BASE_URL", url).unwrap_err();
            assert_eq!(error.fault, expected, "{url}");
            let told = AgentLoopError::from(error).to_string();
            assert!(told.contains(shown), "{told}");
            assert!(told.contains("of OPENAI_BASE_URL"), "{told}");
            assert!(!told.contains("hunter2"), "{told}");
        }
        for url in ["http://[::1]:1/v1/", "https://api.openai.com/v1"] {
            assert_eq!(check_base_url("x", url), Ok(()));
        }
    }

    #[test]
    fn a_host_is_told_where_it_is_not_the_usual_one() {
        let own = "https://api.openai.com/v1";
        let of = |url| host_beside(url, own);
        assert_eq!(of(own), None);
        assert_eq!(of("https://api.openai.com/v2"), None);
        assert_eq!(
            of("http://u:p@127.0.0.1:9/v1?k=v").as_deref(),
            Some("127.0.0.1:9")
        );
        assert_eq!(
            host_beside("https://x.example", "").as_deref(),
            Some("x.example")
        );
    }
}
