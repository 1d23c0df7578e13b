//! Records a decision, advances the thread, notifies waiters and performs the commands that follow.

use std::sync::Arc;

use windlass_core::error::Result;
use windlass_core::events::Event;
use windlass_core::session::SessionStatus;
use windlass_core::typed_id::{MessageId, TurnId};
use windlass_store::Batch;
use windlass_turn::Decision;

use super::actor::Actor;
use super::fault::FaultCause;
use super::masking::UnmaskedCalls;
use crate::backends::SessionProgress;
use crate::errors::from_journal;
use crate::panics::{call_store, catch_panic};
use crate::subagents::stop_children;

/// The result of an accepted input.
pub(crate) struct AcceptedInput {
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) events: Vec<Arc<Event>>,
}

impl Actor {
    /// Makes a decision durable before it has any effect.
    pub(super) async fn commit(&mut self, decision: Decision) -> Result<AcceptedInput> {
        let (turn_id, message_id) = (decision.turn_id, decision.message_id);
        if !decision.events.is_empty() {
            let batch = Batch {
                first_seq: self.thread.head() + 1,
                records: decision.events.clone(),
                settlements: self.settlements(&decision.events),
                ..Batch::default()
            };
            let appended = self.inner.backends.journal.append(&self.claim, batch);
            if let Err(error) = appended.await {
                self.fault(FaultCause::from(&error));
                return Err(from_journal(error));
            }
            self.leftover.failures = 0;
        }
        let (status_before, messages_before) = (self.thread.status(), self.thread.history().len());
        let (events, commands) = self.thread.commit(decision);
        if !events.is_empty() {
            self.inner.turn_counters.observe(&events);
            self.settle_runs(&events);
            stop_children(&self.inner, &self.thread, &events);
            self.clear_recorded_text(&events);
            self.slot.publish(self.thread.history());
            self.note_progress(status_before, &events).await;
            let added = (self.thread.history(), messages_before);
            let (clock, session_id) = (&*self.inner.clock, self.thread.session_id());
            self.inner
                .mirror
                .copy(clock, session_id, added, &events)
                .await;
            self.waiters.observe(&events);
            if self.thread.turn().is_none() {
                self.executes_turn = true;
                self.context = None;
                self.unmasked_calls = UnmaskedCalls::default();
            }
        }
        // A decision without events may still have a command for a step.
        for command in commands {
            self.perform(command);
        }
        if !events.is_empty() {
            self.waiters.settle(&self.thread, &events);
        }
        Ok(AcceptedInput {
            turn_id,
            message_id,
            events,
        })
    }

    /// Updates the session's record if its status changed.
    async fn note_progress(&mut self, before: SessionStatus, events: &[Arc<Event>]) {
        let status = self.thread.status();
        if status != before || events.iter().any(|event| event.data.ends_turn()) {
            self.note_status(status).await;
        }
    }

    /// Writes a status and the thread's usage to the session's record.
    pub(super) async fn note_status(&mut self, status: SessionStatus) {
        let progress = SessionProgress {
            status,
            started_at: self.thread.started_at(),
            usage: self.thread.usage(),
            updated_at: self.inner.clock.now(),
        };
        let session_id = self.thread.session_id();
        let sessions = &self.inner.backends.session_store;
        if let Err(error) = call_store(sessions.note_progress(session_id, progress)).await {
            tracing::warn!(session = %session_id, %error, "the session's record could not be brought up to date");
        }
    }
}

/// Calls an observer of the application; a panic is only logged.
pub(super) fn observe(observer: &(dyn Fn(&Event) + Send + Sync), event: &Event) {
    if catch_panic(|| observer(event)).is_none() {
        tracing::error!(event = event.event_type, "an observer of events panicked");
    }
}
