//! Hosts of URLs and of patterns.

use std::fmt;
use std::net::IpAddr;

use super::super::PatternProblem;

/// A host in its canonical spelling: lower-case ASCII without the final dot, or an address as a number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum UrlHost {
    Name(String),
    Address(IpAddr),
}

impl UrlHost {
    /// Converts the URL parser's host, unless the name has empty labels or a wildcard.
    pub(super) fn from_url<S: AsRef<str>>(host: url::Host<S>) -> Option<Self> {
        match host {
            url::Host::Domain(name) => Self::name(name.as_ref()),
            url::Host::Ipv4(address) => Some(Self::Address(address.into())),
            // A mapped address reaches the same machine as the IPv4 address inside it.
            url::Host::Ipv6(address) => Some(Self::Address(IpAddr::V6(address).to_canonical())),
        }
    }

    fn name(name: &str) -> Option<Self> {
        let name = name.strip_suffix('.').unwrap_or(name);
        let well_formed = !name.contains('*') && name.split('.').all(|label| !label.is_empty());
        well_formed.then(|| Self::Name(name.to_owned()))
    }

    fn parse(text: &str) -> Result<Self, PatternProblem> {
        if text.contains('*') {
            return Err(PatternProblem::Wildcard);
        }
        let host = url::Host::parse(text).map_err(|_| PatternProblem::Host)?;
        Self::from_url(host).ok_or(PatternProblem::Host)
    }
}

/// A set of hosts. Two such sets are disjoint, or one contains the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum HostPattern {
    Any,
    Under(String),
    Only(UrlHost),
}

impl HostPattern {
    pub(super) fn parse(text: &str) -> Result<Self, PatternProblem> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let Some(parent) = text.strip_prefix("*.") else {
            return UrlHost::parse(text).map(Self::Only);
        };
        match UrlHost::parse(parent)? {
            UrlHost::Name(name) => Ok(Self::Under(name)),
            UrlHost::Address(_) => Err(PatternProblem::Wildcard),
        }
    }

    pub(super) fn matches(&self, host: &UrlHost) -> bool {
        match (self, host) {
            (Self::Any, _) => true,
            (Self::Under(parent), UrlHost::Name(name)) => is_under(name, parent),
            (Self::Under(_), UrlHost::Address(_)) => false,
            (Self::Only(only), host) => only == host,
        }
    }

    pub(super) fn intersect(&self, other: &Self) -> Option<Self> {
        let narrower = if self.covers(other) {
            other
        } else if other.covers(self) {
            self
        } else {
            return None;
        };
        Some(narrower.clone())
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Any, _) => true,
            (_, Self::Only(host)) => self.matches(host),
            (Self::Under(parent), Self::Under(name)) => is_under(name, parent),
            (Self::Under(_) | Self::Only(_), _) => false,
        }
    }
}

fn is_under(name: &str, parent: &str) -> bool {
    name.strip_suffix(parent)
        .is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

impl fmt::Display for HostPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Under(parent) => write!(f, "*.{parent}"),
            Self::Only(UrlHost::Name(name)) => f.write_str(name),
            Self::Only(UrlHost::Address(IpAddr::V4(address))) => write!(f, "{address}"),
            Self::Only(UrlHost::Address(IpAddr::V6(address))) => write!(f, "[{address}]"),
        }
    }
}
