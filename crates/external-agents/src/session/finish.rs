//! Results of turns and processes, converted to the types of `core`.

use std::os::unix::process::ExitStatusExt;

use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendExit, BackendOutcome, SessionChoice,
};
use windlass_core::bounds::suffix;
use windlass_process::{End, Output, ProcessError};

use crate::protocol::Protocol;

/// Maximum bytes reported of the agent's standard error.
const MAX_STDERR_BYTES: usize = 4 * 1024;
/// Numbers of signals that end a process. Wrappers report them as 128 plus the number; other codes in that range are not signals (Gemini exits with
/// 145 if its key is rejected).
const DEADLY: &[i32] = &[1, 2, 3, 4, 6, 7, 8, 9, 11, 13, 14, 15, 24, 25, 31];

/// Converts the way a process ended.
pub(super) fn exit(ended: Result<End, ProcessError>) -> BackendExit {
    let Ok(end) = ended else {
        return BackendExit::default();
    };
    let code = end.status.and_then(|status| status.code());
    let wrapped = code.map(|code| code - 128);
    let wrapped = wrapped.filter(|signal| DEADLY.contains(signal));
    let signal = end.status.and_then(|status| status.signal());
    BackendExit {
        code,
        signal: signal.or(wrapped),
        is_whole: end.all_ended,
    }
}

/// Returns the tail of the agent's standard error.
pub(super) fn stderr_tail(stderr: &Output) -> String {
    suffix(&stderr.text().0, MAX_STDERR_BYTES).to_owned()
}

/// Everything that determines the outcome of a turn.
pub(super) struct EndContext<'a> {
    pub(super) choice: &'a SessionChoice,
    pub(super) protocol: &'a dyn Protocol,
    pub(super) stderr: &'a Output,
    /// Whether the process exited without a request from Windlass.
    pub(super) exited_unprompted: bool,
}

impl EndContext<'_> {
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
            aborted_signal: self.exited_unprompted && died && session_id.is_none(),
            result,
            session_id,
            is_fresh: !self.choice.is_resume(),
            usage: self.protocol.usage(),
            totals: self.protocol.totals(),
            rate_limit_exit,
            rate_limit_reset_at: limit.and_then(|limit| limit.reset_at),
            exit,
            stderr: stderr_tail(self.stderr),
        }
    }
}
