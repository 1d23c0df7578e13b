//! Validation of providers' base URLs.

use reqwest::Url;
use windlass_core::bounds;
use windlass_core::error::AgentLoopError;

/// Maximum characters of a value in an error.
const MAX_SHOWN: usize = 60;
/// Maximum length of a repeated word that does not look like a URL; a longer one may be a key.
const MAX_WORD: usize = 16;

/// An unusable base URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the base URL `{shown}` of {place} {fault}; write one such as http://127.0.0.1:11434/v1")]
pub struct BaseUrlError {
    /// Source of the value: a provider, a variable or a configuration key.
    pub place: String,
    /// The value without possible secrets.
    pub shown: String,
    /// The problem with the value.
    pub fault: BaseUrlFault,
}

/// The problem with a base URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum BaseUrlFault {
    /// Empty or blank.
    #[error("is empty")]
    Empty,
    /// Does not parse as a URL.
    #[error("is not a URL")]
    NotAUrl,
    /// Neither HTTP nor HTTPS.
    #[error("starts with neither http:// nor https://")]
    Scheme,
    /// Refused because URLs are shown and logged.
    #[error("contains a user or a password; use a key or a header instead")]
    Login,
    /// Refused because paths are appended to the URL.
    #[error(
        "has parameters or a fragment, to which no path can be appended; set parameters in ProviderSettings::query"
    )]
    Parameters,
}

impl From<BaseUrlError> for AgentLoopError {
    fn from(error: BaseUrlError) -> Self {
        Self::config(error.to_string())
    }
}

/// Refuses a base URL that no driver can use. `place` names its source.
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

/// Returns a value without login and parameters, truncated if it looks like a misplaced key.
fn shown(url: &str) -> String {
    let url = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = match url.split_once("://") {
        Some((scheme, rest)) => (format!("{scheme}://"), rest),
        None => (String::new(), url),
    };
    // Everything before the last `@` may be part of a password.
    let rest = rest.rsplit_once('@').map_or(rest, |(_, host)| host);
    let is_word = scheme.is_empty() && !rest.contains(['.', ':', '/', ' ']);
    let max_shown = if is_word && rest.chars().count() > MAX_WORD {
        4
    } else {
        MAX_SHOWN
    };
    bounds::shortened(&format!("{scheme}{rest}"), max_shown)
}

/// Returns the host and port of a URL if they differ from those of the default URL.
pub(crate) fn unusual_host(url: &str, own: &str) -> Option<String> {
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
    fn invalid_url_is_reported_with_its_source() {
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
            let message = AgentLoopError::from(error).to_string();
            assert!(message.contains(shown), "{message}");
            assert!(message.contains("of OPENAI_BASE_URL"), "{message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
        for url in ["http://[::1]:1/v1/", "https://api.openai.com/v1"] {
            assert_eq!(check_base_url("x", url), Ok(()));
        }
    }

    #[test]
    fn unusual_host_is_reported() {
        let own = "https://api.openai.com/v1";
        let of = |url| unusual_host(url, own);
        assert_eq!(of(own), None);
        assert_eq!(of("https://api.openai.com/v2"), None);
        assert_eq!(
            of("http://u:p@127.0.0.1:9/v1?k=v").as_deref(),
            Some("127.0.0.1:9")
        );
        assert_eq!(
            unusual_host("https://x.example", "").as_deref(),
            Some("x.example")
        );
    }
}
