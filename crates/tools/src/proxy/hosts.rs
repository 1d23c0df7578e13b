//! The hosts that commands may reach.

use url::Url;
use windlass_core::network_access::NetworkAccessList;

use crate::web::InvalidWebRule;

/// The ports of a host that is listed without one.
const USUAL_PORTS: [u16; 2] = [80, 443];

/// Hosts that the operator opens for commands: `crates.io`, `*.example.com`, `git.example:9418`. A host without a port is opened on ports 80 and 443.
#[derive(Debug, Clone, Default)]
pub struct OpenHosts(Vec<OpenHost>);

#[derive(Debug, Clone)]
struct OpenHost {
    list: NetworkAccessList,
    has_port: bool,
}

impl OpenHosts {
    /// Parses the hosts.
    ///
    /// # Errors
    /// If an entry is not a host, or would open all hosts.
    pub fn parse<S: AsRef<str>>(hosts: &[S]) -> Result<Self, InvalidWebRule> {
        let hosts = hosts.iter().map(|host| OpenHost::parse(host.as_ref()));
        Ok(Self(hosts.collect::<Result<_, _>>()?))
    }

    /// Returns whether commands may reach the host and port of a URL.
    pub(super) fn open(&self, url: &Url) -> bool {
        let is_usual = url
            .port_or_known_default()
            .is_some_and(|port| USUAL_PORTS.contains(&port));
        let mut hosts = self.0.iter();
        hosts.any(|host| (host.has_port || is_usual) && host.list.is_url_allowed(url.as_str()))
    }
}

impl OpenHost {
    fn parse(pattern: &str) -> Result<Self, InvalidWebRule> {
        let refusal = |problem: &str| InvalidWebRule {
            pattern: pattern.to_owned(),
            problem: problem.to_owned(),
        };
        if pattern.contains('/') {
            return Err(refusal(
                "rules for commands contain only hosts; write `example.com`, `*.example.com` or `example.com:8443`",
            ));
        }
        if pattern == "*" || pattern.starts_with("*:") {
            return Err(refusal("it would open all hosts; name hosts"));
        }
        let list = NetworkAccessList::allow_only([pattern]);
        list.validate()
            .map_err(|error| refusal(&error.to_string()))?;
        let after_host = pattern.rsplit(']').next().unwrap_or_default();
        Ok(Self {
            list,
            has_port: after_host.contains(':'),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_open_only_on_their_ports() {
        let hosts = [
            "a.example",
            "*.b.example",
            "c.example:9418",
            "[2001:db8::1]",
        ];
        let hosts = OpenHosts::parse(&hosts).unwrap();
        for (url, is_open) in [
            ("https://a.example/", true),
            ("http://a.example/", true),
            ("https://A.EXAMPLE./", true),
            ("https://a.example:80/", true),
            ("https://a.example:22/", false),
            ("https://a.example:8443/", false),
            ("https://x.a.example/", false),
            ("https://a.example.evil.example/", false),
            ("https://x.b.example/", true),
            ("https://xb.example/", false),
            ("https://c.example:9418/", true),
            ("https://c.example/", false),
            ("https://[2001:db8::1]/", true),
            ("https://[2001:db8::1]:25/", false),
        ] {
            assert_eq!(hosts.open(&Url::parse(url).unwrap()), is_open, "{url}");
        }
        assert!(!OpenHosts::default().open(&Url::parse("https://a.example/").unwrap()));
    }

    #[test]
    fn invalid_and_match_all_patterns_are_refused() {
        for pattern in [
            "",
            "*",
            "*:443",
            "https://a.example/",
            "10.0.0.0/8",
            "a b",
            "a:x",
        ] {
            assert!(OpenHosts::parse(&[pattern]).is_err(), "{pattern}");
        }
    }
}
