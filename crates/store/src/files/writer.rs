//! The party for which a file is written.

/// The origin of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WriteOrigin {
    /// A tool: read-only files are refused, and a written file is never read-only.
    Caller,
    /// The host during the set-up of a session: it may replace its own read-only files.
    Host { is_readonly: bool },
}

impl WriteOrigin {
    /// Returns whether the written file is read-only from then on.
    pub(crate) fn marks_read_only(self) -> bool {
        self == Self::Host { is_readonly: true }
    }
}
