//! The operator's rules about hosts and networks, for all sessions.

use std::net::IpAddr;
use std::str::FromStr;

use url::Url;
use windlass_core::network_access::NetworkAccessList;

/// One of the operator's rules is invalid.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{pattern}` is neither a host nor a network: {problem}")]
pub struct InvalidWebRule {
    /// The rule as written.
    pub pattern: String,
    pub problem: String,
}

/// Private hosts and networks that the operator opens, and hosts and networks that are denied. A denial takes precedence.
///
/// A host is written as in a [`NetworkAccessList`] (`internal.example`, `*.example.com`, `127.0.0.1:8080`), a network as `10.0.0.0/8`. Opening a name
/// trusts its DNS records; opening a network opens it for every name.
#[derive(Debug, Clone, Default)]
pub struct WebRules {
    allow: Vec<WebRule>,
    deny: Vec<WebRule>,
}

#[derive(Debug, Clone)]
enum WebRule {
    /// Two forms of the pattern: an ambiguous address is not matched when opening, and matched when denying.
    Host {
        opens: NetworkAccessList,
        closes: NetworkAccessList,
    },
    Network {
        base: IpAddr,
        bits: u8,
    },
}

impl WebRules {
    /// Parses the rules.
    ///
    /// # Errors
    /// If an entry is neither a host nor a network, or would open all hosts.
    pub fn parse<S: AsRef<str>>(allow: &[S], deny: &[S]) -> Result<Self, InvalidWebRule> {
        for pattern in allow.iter().map(AsRef::as_ref) {
            let host = pattern.rsplit("://").next().unwrap_or_default();
            if host == "*" || host.starts_with("*:") || host.starts_with("*/") {
                return Err(InvalidWebRule {
                    pattern: pattern.to_owned(),
                    problem: "it would open the private network; name hosts".to_owned(),
                });
            }
        }
        let read = |patterns: &[S]| -> Result<Vec<WebRule>, InvalidWebRule> {
            patterns.iter().map(|text| text.as_ref().parse()).collect()
        };
        Ok(Self {
            allow: read(allow)?,
            deny: read(deny)?,
        })
    }

    /// Returns whether the operator opens the host of a page by its name.
    pub(super) fn opens_host(&self, url: &Url) -> bool {
        self.allow.iter().any(|rule| rule.matches_host(url))
    }

    /// Returns whether the operator opens an address of a page's host.
    pub(super) fn opens(&self, url: &Url, address: IpAddr) -> bool {
        self.opens_host(url) || self.allow.iter().any(|rule| rule.contains(address))
    }

    /// Returns whether a page is denied.
    pub(super) fn denies(&self, url: &Url) -> bool {
        self.deny.iter().any(|rule| rule.closes(url))
    }

    /// Returns whether an address is denied, under any name.
    pub(super) fn denies_address(&self, url: &Url, address: IpAddr) -> bool {
        let by_address = with_host(url, address);
        self.deny.iter().any(|rule| {
            rule.contains(address) || by_address.as_ref().is_some_and(|url| rule.closes(url))
        })
    }

    /// Returns whether any part of a URL's host and port, or of its address, is denied: then no tunnel may lead there.
    pub(super) fn denies_part_of(&self, url: &Url, address: Option<IpAddr>) -> bool {
        self.deny.iter().any(|rule| match rule {
            WebRule::Host { closes, .. } => closes.blocks_part_of(url.as_str(), address),
            WebRule::Network { .. } => false,
        })
    }
}

fn with_host(url: &Url, address: IpAddr) -> Option<Url> {
    let mut url = url.clone();
    url.set_ip_host(address.to_canonical()).ok()?;
    Some(url)
}

impl WebRule {
    fn matches_host(&self, url: &Url) -> bool {
        match self {
            Self::Host { opens, .. } => opens.is_url_allowed(url.as_str()),
            Self::Network { .. } => false,
        }
    }

    fn closes(&self, url: &Url) -> bool {
        match self {
            Self::Host { closes, .. } => !closes.is_url_allowed(url.as_str()),
            Self::Network { .. } => false,
        }
    }

    fn contains(&self, address: IpAddr) -> bool {
        let Self::Network { base, bits } = self else {
            return false;
        };
        let shared = |a: u128, b: u128, width: u32| (a ^ b).leading_zeros() + width - 128;
        match (base, address.to_canonical()) {
            (IpAddr::V4(base), IpAddr::V4(address)) => {
                let (base, address) = (u32::from(*base).into(), u32::from(address).into());
                shared(base, address, 32) >= u32::from(*bits)
            }
            (IpAddr::V6(base), IpAddr::V6(address)) => {
                shared((*base).into(), address.into(), 128) >= u32::from(*bits)
            }
            _ => false,
        }
    }
}

impl FromStr for WebRule {
    type Err = InvalidWebRule;

    fn from_str(pattern: &str) -> Result<Self, InvalidWebRule> {
        let refused = |problem: String| InvalidWebRule {
            pattern: pattern.to_owned(),
            problem,
        };
        match pattern.split_once('/') {
            Some((base, bits)) if !pattern.contains("://") => {
                let network = || Some((base.parse::<IpAddr>().ok()?, bits.parse::<u8>().ok()?));
                let (base, bits) = network()
                    .filter(|(base, bits)| *bits <= if base.is_ipv4() { 32 } else { 128 })
                    .ok_or_else(|| refused("write a network as `10.0.0.0/8`".to_owned()))?;
                Ok(Self::Network { base, bits })
            }
            _ => {
                let opens = NetworkAccessList::allow_only([pattern]);
                opens
                    .validate()
                    .map_err(|error| refused(error.to_string()))?;
                let closes = NetworkAccessList::block([pattern]);
                Ok(Self::Host { opens, closes })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> Url {
        Url::parse(text).unwrap()
    }

    #[test]
    fn only_listed_hosts_ports_and_networks_are_opened() {
        let rules = WebRules::parse(
            &[
                "127.0.0.1:8080",
                "internal.example",
                "10.1.0.0/16",
                "fd00::/8",
            ],
            &[],
        )
        .unwrap();
        for (page, address, is_open) in [
            ("http://127.0.0.1:8080/", "127.0.0.1", true),
            ("http://2130706433:8080/", "127.0.0.1", true),
            ("http://127.0.0.1/", "127.0.0.1", false),
            ("http://a.example:8080/", "127.0.0.1", false),
            ("https://internal.example/", "192.168.0.1", true),
            ("https://x.internal.example/", "192.168.0.1", false),
            ("https://a.example/", "10.1.2.3", true),
            ("https://a.example/", "::ffff:10.1.2.3", true),
            ("https://a.example/", "10.2.0.0", false),
            ("https://a.example/", "fd00::1", true),
            ("https://a.example/", "fe80::1", false),
        ] {
            let opened = rules.opens(&url(page), address.parse().unwrap());
            assert_eq!(opened, is_open, "{page} {address}");
        }
    }

    #[test]
    fn denied_host_is_denied_under_every_name() {
        let rules =
            WebRules::parse(&[], &["evil.example", "93.184.216.34", "198.51.0.0/16"]).unwrap();
        assert!(rules.denies(&url("https://evil.example/a")));
        assert!(rules.denies(&url("https://EVIL.example./a")));
        assert!(!rules.denies(&url("https://good.example/")));
        let page = url("https://good.example/");
        for (address, is_denied) in [
            ("93.184.216.34", true),
            ("::ffff:93.184.216.34", true),
            ("93.184.216.35", false),
            ("198.51.7.7", true),
        ] {
            let denied = rules.denies_address(&page, address.parse().unwrap());
            assert_eq!(denied, is_denied, "{address}");
        }
    }

    #[test]
    fn denied_path_is_denied_in_every_encoding() {
        let rules = WebRules::parse(&[], &["https://a.example/private"]).unwrap();
        for (page, is_denied) in [
            ("https://a.example/private/x", true),
            ("https://a.example/%70rivate", true),
            ("https://a.example/x%2F..%2Fprivate", true),
            ("https://a.example/public", false),
            ("http://a.example/private", false),
        ] {
            assert_eq!(rules.denies(&url(page)), is_denied, "{page}");
        }
    }

    #[test]
    fn invalid_rule_is_refused() {
        for pattern in [
            "",
            "10.0.0.0/33",
            "::/129",
            "a/8",
            "10.0.0.0/x",
            "a b",
            "*.*.x",
        ] {
            assert!(WebRules::parse(&[pattern], &[]).is_err(), "{pattern}");
            assert!(WebRules::parse(&[], &[pattern]).is_err(), "{pattern}");
        }
        for all in ["*", "*:80", "https://*", "https://*/a"] {
            let refused = WebRules::parse(&[all], &[]).unwrap_err();
            assert!(refused.to_string().contains("name hosts"), "{refused}");
        }
        assert!(WebRules::parse(&[], &["*"]).is_ok());
    }
}
