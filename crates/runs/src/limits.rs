//! Limits of reported data.

use std::io;

use serde::Serialize;

/// Limits of reported data. Input over a limit is refused with an error that names the limit, and nothing is recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunLimits {
    /// Bytes of an intent or an outcome description.
    pub intent_bytes: usize,
    /// Bytes of an agent's ID or name.
    pub agent_bytes: usize,
    /// Open runs of one connection.
    pub open_runs: usize,
    /// Turns in one call.
    pub turns_per_call: usize,
    /// Turns of one run.
    pub turns_per_run: u64,
    /// Bytes of one text in a turn; longer texts are truncated.
    pub text_bytes: usize,
    /// Bytes of a turn; large fields are omitted if that makes it fit.
    pub turn_bytes: usize,
    /// Bytes of an outcome.
    pub outcome_bytes: usize,
    /// Runs in one page of a list.
    pub list_page: usize,
    /// Records in one page of a trace.
    pub trace_page: usize,
    /// Bytes of records in one response; at least one record is always returned.
    pub page_bytes: usize,
}

impl Default for RunLimits {
    fn default() -> Self {
        Self {
            intent_bytes: 64 * 1024,
            agent_bytes: 256,
            open_runs: 4096,
            turns_per_call: 256,
            turns_per_run: 2000,
            text_bytes: 16 * 1024,
            turn_bytes: 256 * 1024,
            outcome_bytes: 256 * 1024,
            list_page: 200,
            trace_page: 500,
            page_bytes: 4 * 1024 * 1024,
        }
    }
}

/// Returns the size of a value's JSON in bytes, without allocating it.
pub(crate) fn size(value: &impl Serialize) -> usize {
    let mut count = ByteCounter(0);
    match serde_json::to_writer(&mut count, value) {
        Ok(()) => count.0,
        Err(_) => usize::MAX,
    }
}

struct ByteCounter(usize);

impl io::Write for ByteCounter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
