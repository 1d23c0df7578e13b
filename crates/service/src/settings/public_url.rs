//! The address under which a proxy with TLS serves the daemon.

use std::fmt;
use std::str::FromStr;

/// The text is not the base of an HTTPS URL.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a public URL; write https://NAME or https://NAME:PORT, without a path")]
pub struct InvalidPublicUrl(String);

/// An HTTPS URL without a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PublicUrl {
    /// The host name, and the port unless it is 443, in lower case.
    authority: String,
}

impl PublicUrl {
    /// Returns whether the `Host` of a request is this one.
    #[must_use]
    pub fn is_host(&self, host: &str) -> bool {
        let host = host.strip_suffix(":443").unwrap_or(host);
        host.eq_ignore_ascii_case(&self.authority)
    }

    /// Returns the host name without the port.
    #[must_use]
    pub fn name(&self) -> &str {
        let name = self.authority.rsplit_once(':');
        name.map_or(&self.authority, |(name, _)| name)
    }
}

impl fmt::Display for PublicUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "https://{}", self.authority)
    }
}

impl FromStr for PublicUrl {
    type Err = InvalidPublicUrl;

    fn from_str(text: &str) -> Result<Self, InvalidPublicUrl> {
        let invalid = || InvalidPublicUrl(text.to_owned());
        let authority = text.strip_prefix("https://").ok_or_else(invalid)?;
        let authority = authority.strip_suffix('/').unwrap_or(authority);
        let authority = authority.strip_suffix(":443").unwrap_or(authority);
        let (name, port) = match authority.rsplit_once(':') {
            Some((name, port)) => (name, port.parse::<u16>().is_ok()),
            None => (authority, true),
        };
        let is_label = |label: &str| {
            let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
            !label.is_empty() && label.bytes().all(is_legal)
        };
        if !port || !name.split('.').all(is_label) {
            return Err(invalid());
        }
        let authority = authority.to_ascii_lowercase();
        Ok(Self { authority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_base_of_an_https_url_is_accepted() {
        for (text, authority) in [
            ("https://Agents.example.com", "agents.example.com"),
            ("https://agents.example.com:443/", "agents.example.com"),
            ("https://a:8443", "a:8443"),
        ] {
            let url: PublicUrl = text.parse().unwrap();
            assert_eq!(url.authority, authority);
        }
        for text in [
            "http://a",
            "https://",
            "a.example",
            "https://a/b",
            "https://a:b",
            "https://u@a",
            "https://a b",
            "https://a?x",
            "https://a..b",
        ] {
            assert!(text.parse::<PublicUrl>().is_err(), "{text}");
        }
    }

    #[test]
    fn host_is_compared_with_its_port() {
        let url: PublicUrl = "https://a.example:8443".parse().unwrap();
        assert!(url.is_host("A.example:8443"));
        assert!(!url.is_host("a.example"));
        assert_eq!(url.name(), "a.example");
        let url: PublicUrl = "https://a.example".parse().unwrap();
        assert!(url.is_host("a.example:443") && url.is_host("a.example"));
        assert!(!url.is_host("a.example:80") && !url.is_host("b.a.example"));
    }
}
