//! On whose behalf a file is written.

/// Who writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Writer {
    /// A tool: read-only files are refused, and a written file is never read-only.
    Caller,
    /// The host that sets a session up: it may replace what it made read-only itself.
    Host { is_readonly: bool },
}

impl Writer {
    /// Tells whether what is written is read-only from then on.
    pub(crate) fn marks_read_only(self) -> bool {
        self == Self::Host { is_readonly: true }
    }
}
