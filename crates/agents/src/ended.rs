//! Why a process ended in the middle of something, from what it left behind.

use windlass_core::backend::{BackendError, BackendErrorKind, BackendExit};

use crate::json::cut_text;
use crate::limits::Limit;

/// How much of a complaint is put into an error.
const MAX_SAID_BYTES: usize = 512;

/// What was known when a process ended.
pub(crate) struct Known<'a> {
    pub(crate) exit: &'a BackendExit,
    pub(crate) stderr: &'a str,
    pub(crate) is_established: bool,
    pub(crate) is_resume: bool,
    pub(crate) limit: Option<Limit>,
    /// What the agent writes when it does not know a session.
    pub(crate) refusals: &'a [&'a str],
}

impl Known<'_> {
    pub(crate) fn error(&self) -> BackendError {
        let said = self.stderr.trim();
        let line = said.lines().rfind(|line| !line.trim().is_empty());
        let line = cut_text(line.unwrap_or("it said nothing").trim(), MAX_SAID_BYTES);
        let is_refused = self.refusals.iter().any(|refusal| said.contains(refusal));
        let kind = match (self.exit.signal, self.exit.code) {
            _ if self.limit.is_some() => BackendErrorKind::RateLimit,
            _ if !self.is_established && self.is_resume && is_refused => {
                BackendErrorKind::ResumeRefused
            }
            (Some(signal), _) => BackendErrorKind::Killed(signal),
            (None, Some(code)) if code != 0 && !self.is_established => {
                BackendErrorKind::BadInvocation
            }
            _ => BackendErrorKind::Protocol,
        };
        let how = match (self.exit.signal, self.exit.code) {
            (Some(signal), _) => format!("by signal {signal}"),
            (None, Some(code)) => format!("with code {code}"),
            (None, None) => "in an unknown way".to_owned(),
        };
        BackendError::new(kind, format!("the process ended {how}: {line}"))
    }
}
