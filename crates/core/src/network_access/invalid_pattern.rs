//! Why a pattern is refused, and what to write instead.

/// Reports a pattern of an access list that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("network access pattern `{pattern}` {problem}")]
pub struct InvalidPattern {
    /// Repeats the pattern as it was written.
    pub pattern: String,
    /// Says what is wrong with it.
    pub problem: PatternProblem,
}

/// Names what is wrong with a pattern; its message completes the sentence that begins with the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternProblem {
    /// Stands for a pattern without any text.
    #[error("is empty; write a host such as `example.com`, or `*` for all")]
    Empty,
    /// Stands for a scheme that access lists never allow.
    #[error(
        "has a scheme other than http and https; write `https://…`, `http://…` or only the host"
    )]
    Scheme,
    /// Stands for text that is neither a host name nor an address.
    #[error(
        "does not name a host; write `example.com`, `*.example.com`, `127.0.0.1`, `[::1]` or `*`"
    )]
    Host,
    /// Stands for an IPv6 address whose end cannot be told from a port.
    #[error("has several colons; put an IPv6 address in brackets, as in `[::1]` or `[::1]:8080`")]
    Colons,
    /// Stands for a port that is missing, not a number or too large.
    #[error(
        "has no valid port after the colon; write a number from 0 to 65535 or leave out the colon"
    )]
    Port,
    /// Stands for a wildcard at a place where it has no meaning.
    #[error(
        "has `*` at another place than first in the host; a prefix covers all below it, so leave out the `*`"
    )]
    Wildcard,
    /// Stands for a path, or a range of addresses, after a bare host.
    #[error(
        "has a path but no scheme; write `https://host/path` (ranges of addresses are not patterns)"
    )]
    PathWithoutScheme,
    /// Stands for parts of a URL on which access does not depend.
    #[error("has user info, a query or a fragment; leave out all but scheme, host, port and path")]
    Extra,
    /// Stands for a path that servers read in different ways.
    #[error(
        "has an ambiguous path; write it without encoded separators, encoded dots or doubly encoded letters"
    )]
    Path,
}
