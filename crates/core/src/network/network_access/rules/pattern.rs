//! One pattern of an access list: its hosts, and its scope on them.

use std::fmt;

use url::Url;

use super::super::PatternProblem;
use super::host::HostPattern;
use super::path::Path;
use super::reach::{Ports, Prefix, Reach, Scheme};
use super::target::UrlTarget;

/// A set of URLs. The overlap of two patterns is one pattern, and equal sets are equal values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    host: HostPattern,
    reach: Reach,
}

impl Pattern {
    pub(super) fn parse(text: &str) -> Result<Self, PatternProblem> {
        if text.is_empty() {
            return Err(PatternProblem::Empty);
        }
        match text.split_once("://") {
            Some((scheme, rest)) => {
                let scheme = Scheme::named(scheme).ok_or(PatternProblem::Scheme)?;
                Self::parse_prefix(scheme, rest)
            }
            None if text.contains('/') => Err(PatternProblem::PathWithoutScheme),
            None => {
                let (host, ports) = Ports::split(text)?;
                Ok(Self {
                    host: HostPattern::parse(host)?,
                    reach: Reach::Ports(ports),
                })
            }
        }
    }

    fn parse_prefix(scheme: Scheme, rest: &str) -> Result<Self, PatternProblem> {
        let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
        if authority.contains('@') || rest.contains(['?', '#']) {
            return Err(PatternProblem::Extra);
        }
        let (host, ports) = Ports::split(authority)?;
        let port = match ports {
            Ports::Any => scheme.default_port(),
            Ports::One(port) => port,
        };
        Ok(Self {
            host: HostPattern::parse(host)?,
            reach: Reach::Prefix(Prefix {
                scheme,
                port,
                path: parse_path(path)?,
            }),
        })
    }

    /// Returns whether every interpretation of the target is in the set.
    pub(super) fn allows(&self, target: &UrlTarget) -> bool {
        self.host.matches(&target.host) && self.reach.allows(target)
    }

    /// Returns whether any interpretation of the target may be in the set.
    pub(super) fn blocks(&self, target: &UrlTarget) -> bool {
        self.host.matches(&target.host) && self.reach.blocks(target)
    }

    /// Returns whether the set contains anything on the host and port of the target.
    pub(super) fn touches(&self, target: &UrlTarget) -> bool {
        self.host.matches(&target.host) && self.reach.touches(target.port)
    }

    pub(super) fn intersect(&self, other: &Self) -> Option<Self> {
        Some(Self {
            host: self.host.intersect(&other.host)?,
            reach: self.reach.intersect(&other.reach)?,
        })
    }

    pub(super) fn covers(&self, other: &Self) -> bool {
        self.intersect(other).as_ref() == Some(other)
    }
}

/// Resolves a path like the URL parser; an ambiguous prefix is refused.
fn parse_path(path: &str) -> Result<Path, PatternProblem> {
    // `/admin/*` usually means what `/admin` already covers; as a literal character, `*` would block nothing.
    if path.contains('*') {
        return Err(PatternProblem::Wildcard);
    }
    let url = Url::parse(&format!("http://host{path}")).map_err(|_| PatternProblem::Path)?;
    let parsed = Path::new(path, url.path());
    parsed
        .is_plain()
        .then_some(parsed)
        .ok_or(PatternProblem::Path)
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.reach {
            Reach::Ports(Ports::Any) => self.host.fmt(f),
            Reach::Ports(Ports::One(port)) => write!(f, "{}:{port}", self.host),
            Reach::Prefix(prefix) => {
                write!(f, "{}://{}", prefix.scheme.name(), self.host)?;
                if prefix.port != prefix.scheme.default_port() {
                    write!(f, ":{}", prefix.port)?;
                }
                write!(f, "/{}", prefix.path.segments().join("/"))
            }
        }
    }
}
