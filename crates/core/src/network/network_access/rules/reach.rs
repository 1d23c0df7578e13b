//! The scope of a pattern on its hosts.

use super::super::PatternProblem;
use super::path::Path;
use super::target::UrlTarget;

/// A scheme that access lists can allow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scheme {
    Http,
    Https,
}

impl Scheme {
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Http, Self::Https]
            .into_iter()
            .find(|scheme| name.eq_ignore_ascii_case(scheme.name()))
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }

    pub(super) fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }
}

/// A whole host, or one prefix on it. A path requires a scheme, so that every overlap can be written as a pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Reach {
    Ports(Ports),
    Prefix(Prefix),
}

/// All ports of a host, or one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ports {
    Any,
    One(u16),
}

/// The paths below one path, for one scheme and port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Prefix {
    pub(super) scheme: Scheme,
    pub(super) port: u16,
    pub(super) path: Path,
}

impl Reach {
    pub(super) fn allows(&self, target: &UrlTarget) -> bool {
        match self {
            Self::Ports(ports) => ports.contain(target.port),
            Self::Prefix(prefix) => {
                prefix.has_origin_of(target) && prefix.path.allows(&target.path)
            }
        }
    }

    pub(super) fn blocks(&self, target: &UrlTarget) -> bool {
        match self {
            Self::Ports(ports) => ports.contain(target.port),
            Self::Prefix(prefix) => {
                prefix.has_origin_of(target) && prefix.path.blocks(&target.path)
            }
        }
    }

    pub(super) fn touches(&self, port: u16) -> bool {
        match self {
            Self::Ports(ports) => ports.contain(port),
            Self::Prefix(prefix) => prefix.port == port,
        }
    }

    pub(super) fn intersect(&self, other: &Self) -> Option<Self> {
        match (self, other) {
            (Self::Ports(one), Self::Ports(two)) => one.intersect(*two).map(Self::Ports),
            (Self::Ports(ports), Self::Prefix(prefix))
            | (Self::Prefix(prefix), Self::Ports(ports)) => ports
                .contain(prefix.port)
                .then(|| Self::Prefix(prefix.clone())),
            (Self::Prefix(one), Self::Prefix(two)) => one.intersect(two).map(Self::Prefix),
        }
    }
}

impl Ports {
    /// Splits `host:port`; the host may be an IPv6 address in brackets.
    pub(super) fn split(authority: &str) -> Result<(&str, Self), PatternProblem> {
        let end_of_host = match authority.find(']') {
            Some(bracket) if authority.starts_with('[') => bracket + 1,
            _ => authority.find(':').unwrap_or(authority.len()),
        };
        let (host, rest) = authority.split_at(end_of_host);
        if rest.is_empty() {
            return Ok((host, Self::Any));
        }
        let digits = rest.strip_prefix(':').ok_or(PatternProblem::Host)?;
        if digits.contains(':') {
            return Err(PatternProblem::Colons);
        }
        if !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(PatternProblem::Port);
        }
        let port = digits.parse().map_err(|_| PatternProblem::Port)?;
        Ok((host, Self::One(port)))
    }

    fn contain(self, port: u16) -> bool {
        self == Self::Any || self == Self::One(port)
    }

    fn intersect(self, other: Self) -> Option<Self> {
        match (self, other) {
            (Self::Any, ports) | (ports, Self::Any) => Some(ports),
            (one, two) => (one == two).then_some(one),
        }
    }
}

impl Prefix {
    fn has_origin_of(&self, target: &UrlTarget) -> bool {
        (self.scheme, self.port) == (target.scheme, target.port)
    }

    fn intersect(&self, other: &Self) -> Option<Self> {
        if (self.scheme, self.port) != (other.scheme, other.port) {
            return None;
        }
        if self.path.is_prefix_of(&other.path) {
            Some(other.clone())
        } else {
            other.path.is_prefix_of(&self.path).then(|| self.clone())
        }
    }
}
