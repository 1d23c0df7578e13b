//! Records a decision, moves the thread on, tells whoever should know, and does what follows.

use std::sync::Arc;

use windlass_core::budget::Charge;
use windlass_core::error::Result;
use windlass_core::events::{Event, EventData};
use windlass_core::session::SessionStatus;
use windlass_core::typed_id::{MessageId, TurnId};
use windlass_store::Batch;
use windlass_turn::Decision;

use super::actor::Actor;
use super::fault::FaultCause;
use super::masking::RealCalls;
use crate::allowance::AllowanceCall;
use crate::backends::SessionProgress;
use crate::errors::from_journal;
use crate::panics::{caught, tried};
use crate::subagents::{TreeSeat, stop_children};

/// What became of an input that was taken.
pub(crate) struct Accepted {
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) message_id: Option<MessageId>,
    pub(crate) events: Vec<Arc<Event>>,
}

impl Actor {
    /// Makes a decision durable, and only then lets it have any effect.
    pub(super) async fn commit(&mut self, decision: Decision) -> Result<Accepted> {
        let (turn_id, message_id) = (decision.turn_id, decision.message_id);
        if !decision.events.is_empty() {
            let batch = Batch {
                first_seq: self.thread.head() + 1,
                records: decision.events.clone(),
                ..Batch::default()
            };
            let appended = self.inner.backends.journal.append(&self.claim, batch);
            if let Err(error) = appended.await {
                self.fault(FaultCause::from(&error));
                return Err(from_journal(error));
            }
            self.debt.failures = 0;
        }
        let (status_before, messages_before) = (self.thread.status(), self.thread.history().len());
        let (events, commands) = self.thread.commit(decision);
        if !events.is_empty() {
            self.inner.figures.observe(&events);
            self.settle_runs(&events);
            stop_children(&self.inner, &self.thread, &events);
            self.clear_recorded_text(&events);
            self.slot.publish(self.thread.history());
            self.note_progress(status_before, &events).await;
            let added = (self.thread.history(), messages_before);
            let (world, session_id) = (&*self.inner.world, self.thread.session_id());
            self.inner
                .mirror
                .copy(world, session_id, added, &events)
                .await;
            self.waiters.observe(&events);
            if self.thread.turn().is_none() {
                self.is_at_work = true;
                self.context = None;
                self.real_calls = RealCalls::default();
            }
            commands
                .into_iter()
                .for_each(|command| self.perform(command));
            self.waiters.settle(&self.thread, &events);
        } else {
            // A step may be told something that is on record already.
            commands
                .into_iter()
                .for_each(|command| self.perform(command));
        }
        Ok(Accepted {
            turn_id,
            message_id,
            events,
        })
    }

    /// Tells whoever allows it what the runs of backends have used: that is known when they have ended.
    fn settle_runs(&self, events: &[Arc<Event>]) {
        let context = self.context.as_ref();
        for event in events {
            if let (EventData::BackendCompleted(data), Some(exec_id)) =
                (&event.data, event.context.exec_id)
            {
                let charge = Charge::of_run(data);
                let call = AllowanceCall {
                    exec_id,
                    owner: context.and_then(|context| context.owner.clone()),
                    at: event.ts,
                    reserve: self.inner.settings.reserve,
                };
                if let Some(allowance) = &self.inner.backends.allowance {
                    allowance.settle(&call, charge);
                }
                // The turn may be over in this very commit.
                let has_agents = !self.thread.children().is_empty();
                let seat = context
                    .zip(event.context.turn_id)
                    .and_then(|(context, turn)| {
                        TreeSeat::of_run(
                            &self.inner,
                            context,
                            has_agents,
                            (self.slot.session_id, turn),
                        )
                    });
                if let Some(seat) = seat {
                    seat.settle_run(charge);
                }
            }
        }
    }

    /// Brings the session's record up to date when its status changed.
    async fn note_progress(&mut self, before: SessionStatus, events: &[Arc<Event>]) {
        let status = self.thread.status();
        let ended = events.iter().any(|event| event.data.ends_turn());
        if status == before && !ended {
            return;
        }
        self.note_status(status).await;
    }

    /// Writes a status and the figures of the thread into the session's record.
    pub(super) async fn note_status(&mut self, status: SessionStatus) {
        let progress = SessionProgress {
            status,
            started_at: self.thread.started_at(),
            usage: self.thread.usage(),
            updated_at: self.inner.world.now(),
        };
        let session_id = self.thread.session_id();
        let sessions = &self.inner.backends.session_store;
        if let Err(error) = tried(sessions.note_progress(session_id, progress)).await {
            tracing::warn!(session = %session_id, %error, "the session's record could not be brought up to date");
        }
    }
}

/// Calls an observer of the application's; one that panics is only ours to log.
pub(super) fn observe(observer: &(dyn Fn(&Event) + Send + Sync), event: &Event) {
    if caught(|| observer(event)).is_none() {
        tracing::error!(event = event.event_type, "an observer of events panicked");
    }
}
