//! The state of a session and its running turn that all protocols share.

use std::collections::HashSet;
use std::hash::Hash;

use windlass_core::backend::{
    BackendError, BackendErrorKind, BackendEvent, BackendExit, SessionChoice, SessionTotals,
};

use crate::calls::Calls;
use crate::json::cut_text;
use crate::limits::RateLimits;
use crate::protocol::Step;
use crate::usage::Meter;

/// Maximum bytes of standard error in an error message.
const MAX_STDERR_BYTES: usize = 512;
/// Maximum number of tracked streamed messages.
const MAX_STREAMED: usize = 16_384;

/// A session and its running turn.
pub struct SessionState {
    pub(crate) choice: SessionChoice,
    /// Set once the agent has confirmed the session.
    pub(crate) session: Option<String>,
    pub(crate) is_in_turn: bool,
    pub(crate) calls: Calls,
    pub(crate) limits: RateLimits,
    pub(crate) meter: Meter,
}

impl SessionState {
    pub(crate) fn new(choice: SessionChoice, totals: SessionTotals) -> Self {
        Self {
            choice,
            session: None,
            is_in_turn: false,
            calls: Calls::default(),
            limits: RateLimits::default(),
            meter: Meter::new(totals),
        }
    }

    pub(crate) fn begin_turn(&mut self) {
        self.is_in_turn = true;
        self.calls.begin_turn();
        self.limits.begin_turn();
        self.meter.begin_turn();
    }

    pub(crate) fn establish(&mut self, session_id: &str, model: Option<&str>) -> Step {
        self.session = Some(session_id.to_owned());
        Step::Event(BackendEvent::Started {
            session_id: session_id.to_owned(),
            model: model.map(str::to_owned),
        })
    }

    /// Returns the event with the turn's usage so far, if there is any.
    pub(crate) fn usage_event(&self) -> Option<Step> {
        self.meter.turn().map(BackendEvent::Usage).map(Step::Event)
    }

    /// Explains an unexpected exit. `refusals` are texts that report an unknown session.
    pub(crate) fn explain_exit(
        &self,
        exit: &BackendExit,
        stderr: &str,
        refusals: &[&str],
    ) -> BackendError {
        let stderr = stderr.trim();
        let line = stderr.lines().rfind(|line| !line.trim().is_empty());
        let line = cut_text(line.unwrap_or("no error output").trim(), MAX_STDERR_BYTES);
        let is_refused = refusals.iter().any(|refusal| stderr.contains(refusal));
        let is_established = self.session.is_some();
        let kind = match (exit.signal, exit.code) {
            _ if self.limits.current().is_some() => BackendErrorKind::RateLimit,
            _ if !is_established && self.choice.is_resume() && is_refused => {
                BackendErrorKind::ResumeRefused
            }
            (Some(signal), _) => BackendErrorKind::Killed(signal),
            (None, Some(code)) if code != 0 && !is_established => BackendErrorKind::BadInvocation,
            _ => BackendErrorKind::Protocol,
        };
        let how = match (exit.signal, exit.code) {
            (Some(signal), _) => format!("by signal {signal}"),
            (None, Some(code)) => format!("with code {code}"),
            (None, None) => "in an unknown way".to_owned(),
        };
        BackendError::new(kind, format!("the process ended {how}: {line}"))
    }
}

/// Messages whose text was streamed and is not reported again as a whole.
#[derive(Debug)]
pub(crate) struct Streamed<K>(HashSet<K>);

impl<K> Default for Streamed<K> {
    fn default() -> Self {
        Self(HashSet::new())
    }
}

impl<K: Eq + Hash> Streamed<K> {
    pub(crate) fn insert(&mut self, message: Option<K>) {
        if self.0.len() < MAX_STREAMED {
            self.0.extend(message);
        }
    }

    pub(crate) fn contains(&self, message: &K) -> bool {
        self.0.contains(message)
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }
}
