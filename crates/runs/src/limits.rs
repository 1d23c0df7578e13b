//! Limits of reported data.

use windlass_macros::Defaults;

/// Limits of reported data. Input over a limit is refused with an error that names the limit, and nothing is recorded.
#[derive(Debug, Clone, PartialEq, Eq, Defaults)]
pub struct RunLimits {
    /// Bytes of an intent or an outcome description.
    #[default(64 * 1024)]
    pub intent_bytes: usize,
    /// Bytes of an agent's ID or name.
    #[default(256)]
    pub agent_bytes: usize,
    /// Open runs of one connection.
    #[default(4096)]
    pub open_runs: usize,
    /// Turns in one call.
    #[default(256)]
    pub turns_per_call: usize,
    /// Turns of one run.
    #[default(2000)]
    pub turns_per_run: u64,
    /// Bytes of one text in a turn; longer texts are truncated.
    #[default(16 * 1024)]
    pub text_bytes: usize,
    /// Bytes of a turn; large fields are omitted if that makes it fit.
    #[default(256 * 1024)]
    pub turn_bytes: usize,
    /// Bytes of an outcome.
    #[default(256 * 1024)]
    pub outcome_bytes: usize,
    /// Runs in one page of a list.
    #[default(200)]
    pub list_page: usize,
    /// Records in one page of a trace.
    #[default(500)]
    pub trace_page: usize,
    /// Bytes of records in one response; at least one record is always returned.
    #[default(4 * 1024 * 1024)]
    pub page_bytes: usize,
}
