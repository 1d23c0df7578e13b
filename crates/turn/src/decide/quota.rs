//! How much a session may hold.

use windlass_core::error::QuotaExceeded;

use crate::decision::Rejected;
use crate::draft::Draft;
use crate::input::Failure;

impl Draft<'_> {
    /// Refuses a new message once a session holds what it may. Messages that wait for their place count: they were
    /// promised one.
    pub(super) fn check_room(&self) -> Result<(), Rejected> {
        let steered = self.turn().map_or(0, |turn| turn.steered.len());
        let waiting = self.thread.queue.len() + steered;
        self.exceeded(waiting)
            .map_or(Ok(()), |quota| Err(Rejected::Quota(quota)))
    }

    /// Refuses an input that would have to wait behind too many others.
    pub(super) fn check_waiting(&self) -> Result<(), Rejected> {
        let steered = self.turn().map_or(0, |turn| turn.steered.len());
        let waiting = self.thread.queue.len() + steered;
        let limit = self.plan().max_waiting_inputs;
        match limit.filter(|limit| waiting >= *limit) {
            None => Ok(()),
            Some(limit) => Err(Rejected::Quota(QuotaExceeded {
                what: "waiting inputs",
                limit: limit as u64,
                subject: format!("session {}", self.thread.session_id),
            })),
        }
    }

    /// Says why a turn cannot make another model call.
    pub(super) fn quota_failure(&self) -> Option<Failure> {
        let quota = self.exceeded(0)?;
        Some(Failure {
            code: "quota_exceeded".to_owned(),
            message: format!("Quota exceeded: {quota}"),
            user_message: "The session has reached its limit.".to_owned(),
            fields: None,
        })
    }

    fn exceeded(&self, waiting: usize) -> Option<QuotaExceeded> {
        let limits = self.plan().limits;
        let messages = (self.thread.history.len() + waiting) as u64;
        let held = [
            ("messages", limits.max_messages, messages),
            ("events", limits.max_events, self.thread.head),
        ];
        held.into_iter().find_map(|(what, limit, held)| {
            let limit = limit.filter(|limit| held >= *limit)?;
            let subject = format!("session {}", self.thread.session_id);
            Some(QuotaExceeded {
                what,
                limit,
                subject,
            })
        })
    }
}
