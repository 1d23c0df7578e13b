//! A decision in progress: a copy of the thread to which each new event is applied.
//!
//! A decision reads only from the draft, which [`Thread::evolve`] has brought up to date. So a decision cannot disagree with the fold of its own
//! events.

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;
use windlass_core::derived_id::derive;
use windlass_core::events::{Event, EventContext, EventData};
use windlass_core::typed_id::{EventId, ExecId, MessageId, TurnId};

use crate::decision::{Command, Decision};
use crate::input::DecisionContext;
use crate::plan::TurnPlan;
use crate::state::{Thread, Turn};
use crate::validate::InvalidEvent;

pub(crate) struct Draft<'a> {
    before: &'a Thread,
    pub(crate) thread: Thread,
    pub(crate) ctx: DecisionContext<'a>,
    events: Vec<Arc<Event>>,
    /// Commands for a running external agent.
    pub(crate) backend_commands: Vec<Command>,
    ids: u64,
    /// The step whose end is being decided; it needs no stop.
    pub(crate) finished: Option<ExecId>,
    /// The turn that the decision ends.
    ended: Option<TurnId>,
    pub(crate) turn_id: Option<TurnId>,
    pub(crate) message_id: Option<MessageId>,
    /// The first invalid event, which is a bug of the machine.
    invalid: Option<InvalidEvent>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(before: &'a Thread, ctx: &DecisionContext<'a>) -> Self {
        Self {
            before,
            thread: before.clone(),
            ctx: *ctx,
            events: Vec::with_capacity(8),
            backend_commands: Vec::new(),
            ids: 0,
            finished: None,
            ended: None,
            turn_id: None,
            message_id: None,
            invalid: None,
        }
    }

    pub(crate) fn plan(&self) -> &'a TurnPlan {
        self.ctx.plan
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.ctx.now
    }

    pub(crate) fn turn(&self) -> Option<&Turn> {
        self.thread.turn.as_ref()
    }

    pub(crate) fn new_uuid(&mut self) -> Uuid {
        self.ids += 1;
        derive(self.ctx.uuid, self.ids)
    }

    /// Returns the time after a span; `None` without a span or beyond the range of times.
    pub(crate) fn after(&self, span: Option<std::time::Duration>) -> Option<DateTime<Utc>> {
        self.now()
            .checked_add_signed(Duration::from_std(span?).ok()?)
    }

    /// Records an event of the turn.
    pub(crate) fn record(&mut self, data: impl Into<EventData>) {
        let id = self.new_uuid();
        self.record_as(id, None, data);
    }

    /// Records an event of a step.
    pub(crate) fn record_step(&mut self, exec_id: ExecId, data: impl Into<EventData>) {
        let id = self.new_uuid();
        self.record_as(id, Some(exec_id), data);
    }

    /// Records an event with a given ID: that of its message.
    pub(crate) fn record_as(
        &mut self,
        id: Uuid,
        exec_id: Option<ExecId>,
        data: impl Into<EventData>,
    ) {
        let mut data = data.into();
        if let Some(mask) = self.ctx.mask {
            mask.mask(&mut data);
        }
        let turn_id = match &data {
            EventData::TurnStarted(started) => Some(started.turn_id),
            EventData::InputQueued(queued) => Some(queued.turn_id),
            EventData::InputEdited(edited) => Some(edited.turn_id),
            EventData::SessionIdled(_) => self.ended,
            data if data.is_about_session() => None,
            // A queued turn is cancelled while another one runs.
            EventData::TurnCancelled(cancelled) => Some(cancelled.turn_id),
            _ => self.turn().map(|turn| turn.id),
        };
        // Distinguishes later messages of a turn from the input that started it.
        let input_message_id = match (&data, self.turn()) {
            (EventData::InputMessage(data), Some(turn)) => {
                Some(turn.input_message_id).filter(|input| *input != data.message.id)
            }
            _ => None,
        };
        let event = Event {
            id: EventId::from_uuid(id),
            event_type: data.event_type().to_owned(),
            ts: self.now(),
            session_id: self.thread.session_id,
            context: EventContext {
                turn_id,
                input_message_id,
                exec_id,
                ..EventContext::default()
            },
            data,
            metadata: None,
            tags: None,
            sequence: Some(self.thread.head + 1),
        };
        if event.data.ends_turn() {
            self.ended = event.context.turn_id;
        }
        if let Err(invalid) = self.thread.evolve(&event) {
            self.invalid.get_or_insert(invalid);
        }
        self.events.push(Arc::new(event));
    }

    /// Starts the steps that run only after the events, and stops those that ran only before.
    pub(crate) fn finish(self) -> Result<Decision, InvalidEvent> {
        if let Some(invalid) = self.invalid {
            return Err(invalid);
        }
        let before = self.before.pending_commands();
        let after = self.thread.pending_commands();
        let gone = before.iter().filter(|command| !after.contains(command));
        let stopped = gone
            .filter_map(Command::exec_id)
            .filter(|exec_id| Some(*exec_id) != self.finished);
        let mut commands: Vec<_> = stopped.map(|exec_id| Command::Stop { exec_id }).collect();
        let is_new = |command: &Command| !before.contains(command);
        commands.extend(after.into_iter().filter(is_new));
        commands.extend(self.backend_commands);
        Ok(Decision {
            events: self.events,
            commands,
            turn_id: self.turn_id,
            message_id: self.message_id,
            after: Box::new(self.thread),
        })
    }
}
