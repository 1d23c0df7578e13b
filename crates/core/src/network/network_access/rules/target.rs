//! The URL that a request is about to reach.

use url::Url;

use super::host::UrlHost;
use super::path::Path;
use super::reach::Scheme;

/// The parts of a URL that access depends on, without user info, query and fragment.
#[derive(Debug)]
pub(super) struct UrlTarget {
    pub(super) scheme: Scheme,
    pub(super) host: UrlHost,
    pub(super) port: u16,
    pub(super) path: Path,
}

impl UrlTarget {
    /// Parses an http or https URL; anything else has no target.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let url = Url::parse(text).ok()?;
        let scheme = Scheme::named(url.scheme())?;
        Some(Self {
            scheme,
            host: UrlHost::from_url(url.host()?)?,
            port: url.port().unwrap_or(scheme.default_port()),
            path: Path::new(&written_path(text), url.path()),
        })
    }
}

/// Extracts the unresolved path of an http or https URL by the parser's own rules.
fn written_path(url: &str) -> String {
    let is_dropped = |c: &char| matches!(c, '\t' | '\n' | '\r');
    let url: String = url
        .trim_matches(|c| c <= ' ')
        .chars()
        .filter(|c| !is_dropped(c))
        .take_while(|c| !matches!(c, '?' | '#'))
        .collect();
    let after_scheme = url.split_once(':').map_or("", |(_, rest)| rest);
    let from_host = after_scheme.trim_start_matches(['/', '\\']);
    let path = from_host
        .find(['/', '\\'])
        .map_or("", |start| &from_host[start..]);
    path.to_owned()
}
