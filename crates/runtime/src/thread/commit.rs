//! Records a decision, moves the thread on, tells whoever should know, and does what follows.

use std::sync::{Arc, Weak};
use std::time::Duration;

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::session::SessionStatus;
use windlass_core::typed_id::{MessageId, TurnId};
use windlass_store::Batch;
use windlass_turn::Decision;

use super::actor::Actor;
use super::mail::Mail;
use super::masking::RealCalls;
use super::slot::Slot;
use crate::backends::SessionProgress;
use crate::errors::from_journal;
use crate::inner::Inner;
use crate::panics::{caught, tried};
use crate::subagents::stop_children;

/// How long a thread whose turn the journal has failed waits before it is woken.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// How long at most, after it was woken in vain.
const MAX_TRY_AGAIN: Duration = Duration::from_secs(30);

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
                settlements: self.settlements(&decision.events),
                ..Batch::default()
            };
            let appended = self.inner.backends.journal.append(&self.claim, batch);
            if let Err(error) = appended.await {
                self.slot
                    .fault_of_journal(self.life, &error, self.is_at_work);
                if self.thread.turn().is_some() && self.slot.begin_trying() {
                    let (inner, slot) = (Arc::downgrade(&self.inner), Arc::clone(&self.slot));
                    tokio::spawn(try_again(inner, slot));
                }
                return Err(from_journal(error));
            }
        }
        let (status_before, messages_before) = (self.thread.status(), self.thread.history().len());
        let (events, commands) = self.thread.commit(decision);
        if !events.is_empty() {
            self.inner.figures.observe(&events);
            self.settle_runs(&events);
            stop_children(&self.inner, &self.thread, &events);
            self.tail_recorded_in(&events);
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

    fn tail_recorded_in(&mut self, events: &[Arc<Event>]) {
        let records_text = |event: &Arc<Event>| {
            matches!(
                event.data,
                EventData::OutputMessageDelta(_)
                    | EventData::ReasonThinkingDelta(_)
                    | EventData::ReasonCompleted(_)
                    | EventData::BackendCompleted(_)
            )
        };
        if events.iter().any(records_text) {
            self.tail_recorded();
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

/// Wakes a thread whose turn was let go, until the journal takes its records again: nobody may call, and a turn must not stay as it
/// is because a disk was full for a minute.
async fn try_again(inner: Weak<Inner>, slot: Arc<Slot>) {
    let session_id = slot.session_id;
    let mut pause = TRY_AGAIN;
    loop {
        let Some(sleep) = inner.upgrade().map(|inner| inner.world.sleep(pause)) else {
            break;
        };
        sleep.await;
        pause = (pause * 2).min(MAX_TRY_AGAIN);
        let Some(inner) = inner.upgrade().filter(|inner| !inner.is_stopping()) else {
            break;
        };
        let woken = slot.ask(&inner, |reply| Mail::Resume { reply }).await;
        match woken {
            Err(AgentLoopError::StoreUnavailable(_)) => {}
            Err(error) => {
                tracing::error!(session = %session_id, %error, "a turn that the journal had failed cannot go on");
                break;
            }
            Ok(_) => break,
        }
    }
    slot.end_trying();
}

/// Calls an observer of the application's; one that panics is only ours to log.
pub(super) fn observe(observer: &(dyn Fn(&Event) + Send + Sync), event: &Event) {
    if caught(|| observer(event)).is_none() {
        tracing::error!(event = event.event_type, "an observer of events panicked");
    }
}
