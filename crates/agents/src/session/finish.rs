//! How a turn and a process ended, in the words of `core`.

use std::os::unix::process::ExitStatusExt;

use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendExit, BackendOutcome, SessionChoice,
};
use windlass_process::{End, Output, ProcessError};

use crate::protocol::Protocol;

/// How much is told of the last complaints.
const MAX_STDERR_BYTES: usize = 4 * 1024;
/// Signals that end a process, by number. Wrappers tell them as 128 and the number; other codes in that range are no signals
/// (Gemini ends with 145 where its key is refused).
const DEADLY: &[i32] = &[1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 14, 15, 24, 25, 31];

/// Reads how a process ended.
pub(super) fn exit(ended: Result<End, ProcessError>) -> BackendExit {
    let Ok(end) = ended else {
        return BackendExit::default();
    };
    let code = end.status.and_then(|status| status.code());
    let told = code.map(|code| code - 128);
    let told = told.filter(|signal| DEADLY.contains(signal));
    let signal = end.status.and_then(|status| status.signal());
    BackendExit {
        code,
        signal: signal.or(told),
        is_whole: end.is_whole,
    }
}

/// Returns the last of what an agent complained about.
pub(super) fn last_complaints(complaints: &Output) -> String {
    let (text, _) = complaints.text();
    let mut start = text.len().saturating_sub(MAX_STDERR_BYTES);
    while !text.is_char_boundary(start) {
        start += 1;
    }
    text[start..].to_owned()
}

/// What is known at the end of a turn.
pub(super) struct Ending<'a> {
    pub(super) choice: &'a SessionChoice,
    pub(super) protocol: &'a dyn Protocol,
    pub(super) complaints: &'a Output,
    /// Whether the process ended without our doing.
    pub(super) ended_by_itself: bool,
}

impl Ending<'_> {
    pub(super) fn outcome(
        &self,
        result: Result<BackendEnd, BackendError>,
        exit: Option<BackendExit>,
    ) -> BackendOutcome {
        let session_id = self.protocol.session().map(str::to_owned);
        let kind = result.as_ref().err().map(|error| error.kind);
        let rate_limit_exit = kind == Some(BackendErrorKind::RateLimit);
        let limit = self.protocol.limit().filter(|_| rate_limit_exit);
        let died = exit.as_ref().is_some_and(|exit| exit.signal.is_some());
        BackendOutcome {
            aborted_signal: self.ended_by_itself && died && session_id.is_none(),
            result,
            session_id,
            is_fresh: !self.choice.is_resume(),
            usage: self.protocol.usage(),
            totals: self.protocol.totals(),
            rate_limit_exit,
            rate_limit_reset_at: limit.and_then(|limit| limit.reset_at),
            exit,
            stderr: last_complaints(self.complaints),
        }
    }
}
