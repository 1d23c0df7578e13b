//! Why a pattern is refused, and what to write instead.

/// Reports a pattern of an access list that cannot be understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("network access pattern `{pattern}` {problem}")]
pub struct InvalidPattern {
    /// Repeats the pattern as it was written.
    pub pattern: String,
    pub problem: PatternProblem,
}

/// The problem of a pattern; its message completes a sentence that begins with the pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PatternProblem {
    /// The pattern is empty.
    #[error("is empty; write a host such as `example.com`, or `*` for all")]
    Empty,
    /// The scheme is never allowed in access lists.
    #[error(
        "has a scheme other than http and https; write `https://…`, `http://…` or only the host"
    )]
    Scheme,
    /// The text is neither a host name nor an address.
    #[error(
        "does not name a host; write `example.com`, `*.example.com`, `127.0.0.1`, `[::1]` or `*`"
    )]
    Host,
    /// An IPv6 address without brackets, which is ambiguous with a port.
    #[error("has several colons; put an IPv6 address in brackets, as in `[::1]` or `[::1]:8080`")]
    Colons,
    /// The port is missing, not a number or too large.
    #[error(
        "has no valid port after the colon; write a number from 0 to 65535 or leave out the colon"
    )]
    Port,
    /// A wildcard in a position where it has no meaning.
    #[error(
        "has `*` at another place than first in the host; a prefix covers all below it, so leave out the `*`"
    )]
    Wildcard,
    /// A path or an address range after a bare host.
    #[error(
        "has a path but no scheme; write `https://host/path` (ranges of addresses are not patterns)"
    )]
    PathWithoutScheme,
    /// Parts of a URL that do not affect access.
    #[error("has user info, a query or a fragment; leave out all but scheme, host, port and path")]
    Extra,
    /// A path that servers interpret in different ways.
    #[error(
        "has an ambiguous path; write it without encoded separators, encoded dots or doubly encoded letters"
    )]
    Path,
}
