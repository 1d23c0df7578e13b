//! Invariants, checked after every commit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use uuid::Uuid;
use windlass_core::events::{Decision, Event, EventData, ToolStatus};
use windlass_core::history::History;
use windlass_core::message::MessageRole;
use windlass_core::tools::SideEffectClass;
use windlass_core::typed_id::{ExecId, MessageId, TurnId};
use windlass_turn::Command;

/// Size limit of an event without the text of its model call, in bytes.
const OWN_BYTES: usize = 2_048;

/// Size of an item ID in an event, in bytes.
const ITEM_ID_BYTES: usize = 40;

/// The progress of a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Queued,
    Started,
    Interrupted,
    Ended,
}

/// Number of consecutive crashes that fail a turn.
const MAX_CRASHES: u32 = 3;
/// Total number of crashes that fail a turn.
const MAX_TOTAL_CRASHES: u32 = 10;

#[derive(Debug, Default)]
pub(super) struct InvariantChecker {
    head: u64,
    ids: BTreeSet<Uuid>,
    turns: BTreeMap<TurnId, Stage>,
    /// Calls with an intent, and how many results they have.
    calls: BTreeMap<ExecId, (TurnId, usize)>,
    side_effects: BTreeMap<ExecId, SideEffectClass>,
    started: BTreeSet<ExecId>,
    /// Steps that an earlier process started and this one did not.
    lost: BTreeSet<ExecId>,
    /// How often the process went down at work on the open turn, since a call of it came to its end.
    crashes: u32,
    /// Crashes of the open turn in all.
    total_crashes: u32,
    /// Whether the process released the open turn.
    released: bool,
    imported: BTreeSet<MessageId>,
    /// How much text each model call has streamed.
    streamed: BTreeMap<ExecId, usize>,
}

impl InvariantChecker {
    pub(super) fn started(&self) -> impl Iterator<Item = &ExecId> {
        self.started.iter()
    }

    pub(super) fn imports(&mut self, id: MessageId) {
        self.imported.insert(id);
    }

    /// A step starts once; after a crash once more, if it is a call that is safe to repeat.
    pub(super) fn start(&mut self, exec_id: ExecId) {
        if self.started.insert(exec_id) {
            return;
        }
        assert!(
            self.lost.remove(&exec_id),
            "{exec_id} is started twice in one process"
        );
        let promised = self.side_effects.get(&exec_id);
        assert!(
            matches!(
                promised,
                Some(SideEffectClass::Pure | SideEffectClass::Idempotent)
            ),
            "{exec_id} must not be repeated: {promised:?}"
        );
    }

    /// The process is gone; the turn that it was at work on is named.
    pub(super) fn crash(&mut self, at_work: Option<TurnId>) {
        self.lost = self.started.clone();
        if at_work.is_some() && !self.released {
            self.crashes += 1;
            self.total_crashes += 1;
        }
    }

    /// The next process has resumed all open turns.
    pub(super) fn after_restart(&self) {
        let mut open = self.turns.values();
        let is_open = open.any(|stage| matches!(stage, Stage::Started | Stage::Interrupted));
        assert!(
            !is_open || (self.crashes < MAX_CRASHES && self.total_crashes < MAX_TOTAL_CRASHES),
            "a turn continues after {} consecutive crashes, {} in all",
            self.crashes,
            self.total_crashes
        );
    }

    pub(super) fn look(&mut self, events: &[Arc<Event>], commands: &[Command]) {
        for (n, event) in events.iter().enumerate() {
            self.head += 1;
            assert_eq!(event.sequence, Some(self.head), "the numbers have a gap");
            assert!(self.ids.insert(event.id.uuid()), "an id is used twice");
            assert_eq!(event.event_type, event.data.event_type());
            self.follow(event, events.get(n + 1).map(AsRef::as_ref));
        }
        let interrupts = events
            .iter()
            .any(|event| matches!(event.data, EventData::TurnInterruptRequested(_)));
        let starts = |command: &Command| {
            matches!(
                command,
                Command::CallModel { .. }
                    | Command::Summarise { .. }
                    | Command::RunTool { .. }
                    | Command::RunBackend { .. }
            )
        };
        assert!(
            !(interrupts && commands.iter().any(starts)),
            "an interrupt starts something"
        );
    }

    fn follow(&mut self, event: &Event, next: Option<&Event>) {
        match &event.data {
            EventData::InputQueued(data) => self.enter(data.turn_id, None, Stage::Queued),
            EventData::InputEdited(data) => {
                let stage = self.turns.get(&data.turn_id);
                assert_eq!(stage, Some(&Stage::Queued), "an edit outside of the queue");
            }
            EventData::TurnStarted(data) => {
                let before = self.turns.get(&data.turn_id).copied();
                assert!(matches!(before, None | Some(Stage::Queued)), "{before:?}");
                let open = self.turns.values();
                let open = open.filter(|stage| !matches!(stage, Stage::Queued | Stage::Ended));
                assert_eq!(open.count(), 0, "two turns at once");
                self.turns.insert(data.turn_id, Stage::Started);
                (self.crashes, self.total_crashes, self.released) = (0, 0, false);
            }
            EventData::TurnReleased(_) => self.released = true,
            EventData::TurnResumed(_) => self.released = false,
            EventData::TurnInterruptRequested(data) => {
                self.enter(data.turn_id, Some(Stage::Started), Stage::Interrupted);
            }
            EventData::TurnCompleted(data) => self.end(data.turn_id, event, next),
            EventData::TurnFailed(data) => {
                let is_given_up = data.error_code.as_deref() == Some("crashed");
                assert!(
                    !is_given_up
                        || self.crashes == MAX_CRASHES
                        || self.total_crashes == MAX_TOTAL_CRASHES,
                    "a turn is given up after {} crashes in a row, {} in all",
                    self.crashes,
                    self.total_crashes
                );
                self.end(data.turn_id, event, next);
            }
            EventData::TurnCancelled(data) => self.end(data.turn_id, event, next),
            EventData::ToolStarted(data) => {
                let (exec_id, turn_id) = self.step_of(event);
                assert!(
                    self.calls.insert(exec_id, (turn_id, 0)).is_none(),
                    "a call has two intents"
                );
                self.side_effects.insert(exec_id, data.side_effects);
            }
            // Nothing of a summary is shown before it is whole, so it may be made again.
            EventData::ContextCompacting(_) => {
                let (exec_id, _) = self.step_of(event);
                self.side_effects.insert(exec_id, SideEffectClass::Pure);
            }
            EventData::ToolCompleted(data) => {
                let (exec_id, turn_id) = self.step_of(event);
                // A call that never started has a result all the same, and no intent.
                let is_free = data.status == ToolStatus::Cancelled;
                assert!(
                    is_free || self.calls.contains_key(&exec_id),
                    "a call ends without intent"
                );
                let (_, results) = self.calls.entry(exec_id).or_insert((turn_id, 0));
                *results += 1;
                assert_eq!(*results, 1, "a call has two results");
                let ended = !matches!(data.status, ToolStatus::Unknown | ToolStatus::Cancelled);
                let refused = data.refused == Some(true) || data.approval == Some(Decision::Deny);
                if ended && !refused {
                    self.crashes = 0;
                }
            }
            EventData::OutputMessageDelta(data) => {
                let (exec_id, _) = self.step_of(event);
                *self.streamed.entry(exec_id).or_default() += data.delta.len();
            }
            EventData::ReasonThinkingDelta(data) => {
                let (exec_id, _) = self.step_of(event);
                *self.streamed.entry(exec_id).or_default() += data.delta.len();
            }
            _ => {}
        }
        self.check_stage(event);
    }

    /// What belongs to a turn happens between its beginning and its end, and starts nothing after an interrupt.
    fn check_stage(&self, event: &Event) {
        let is_beside = matches!(
            event.data,
            EventData::InputQueued(_) | EventData::SessionIdled(_)
        );
        let Some(turn_id) = event.context.turn_id.filter(|_| !is_beside) else {
            return;
        };
        let stage = self.turns.get(&turn_id);
        assert!(stage.is_some(), "{} of an unknown turn", event.event_type);
        let ends = event.data.ends_turn();
        assert_eq!(
            stage == Some(&Stage::Ended),
            ends,
            "{} of an ended turn",
            event.event_type
        );
        let starts = event.event_type.ends_with(".started")
            || matches!(
                event.data,
                EventData::ApprovalRequired(_)
                    | EventData::ToolCallRequested(_)
                    | EventData::UserInputRequired(_)
            );
        assert!(
            !(starts && stage == Some(&Stage::Interrupted)),
            "{} after the interrupt",
            event.event_type
        );
    }

    fn enter(&mut self, turn_id: TurnId, from: Option<Stage>, to: Stage) {
        assert_eq!(self.turns.insert(turn_id, to), from, "{turn_id}");
    }

    fn end(&mut self, turn_id: TurnId, event: &Event, next: Option<&Event>) {
        assert_eq!(
            event.context.turn_id,
            Some(turn_id),
            "the end of another turn"
        );
        let before = self.turns.insert(turn_id, Stage::Ended);
        assert!(
            before.is_some_and(|stage| stage != Stage::Ended),
            "{turn_id} ends from {before:?}"
        );
        if before == Some(Stage::Queued) {
            assert!(matches!(event.data, EventData::TurnCancelled(_)));
            return;
        }
        let idles = |next: &Event| {
            matches!(next.data, EventData::SessionIdled(_)) && next.context.turn_id == Some(turn_id)
        };
        assert!(next.is_some_and(idles), "no session.idled after the end");
        let open = self
            .calls
            .values()
            .filter(|(of, results)| *of == turn_id && *results == 0);
        assert_eq!(open.count(), 0, "the turn ends with open calls");
    }

    fn step_of(&self, event: &Event) -> (ExecId, TurnId) {
        match (event.context.exec_id, event.context.turn_id) {
            (Some(exec_id), Some(turn_id)) => (exec_id, turn_id),
            context => panic!("{} names no step: {context:?}", event.event_type),
        }
    }

    /// An event holds its own payload and nothing of the conversation before it.
    pub(super) fn bound(&self, event: &Event, bytes: usize) {
        let streamed = event
            .context
            .exec_id
            .and_then(|exec_id| self.streamed.get(&exec_id));
        // The end of a turn names what was shown of it.
        let outline = match &event.data {
            EventData::TurnCompleted(data) => data.outline.as_ref(),
            EventData::TurnFailed(data) => data.outline.as_ref(),
            EventData::TurnCancelled(data) => data.outline.as_ref(),
            _ => None,
        };
        let items = outline.map_or(0, |outline| outline.item_ids.len());
        let limit = OWN_BYTES + ITEM_ID_BYTES * items + 2 * streamed.copied().unwrap_or_default();
        assert!(bytes <= limit, "{} has {bytes} bytes", event.event_type);
    }

    /// Every call has exactly one result, directly after its message.
    pub(super) fn check_transcript(&self, history: &History) {
        let mut expected: Vec<&str> = Vec::new();
        let mut any_order = false;
        for message in history.iter() {
            match message.role {
                MessageRole::ToolResult => {
                    let id = message.tool_call_id().unwrap_or_default();
                    let place = expected.iter().position(|wanted| *wanted == id);
                    assert!(
                        place.is_some_and(|place| place == 0 || any_order),
                        "a result of `{id}` where {expected:?} are due"
                    );
                    place.map(|place| expected.remove(place));
                }
                MessageRole::Agent | MessageRole::User | MessageRole::System => {
                    assert!(expected.is_empty(), "{expected:?} have no results");
                }
            }
            if message.role == MessageRole::Agent {
                expected = message
                    .tool_calls()
                    .iter()
                    .map(|call| call.id.as_str())
                    .collect();
                any_order = self.imported.contains(&message.id);
            }
        }
        assert!(
            expected.is_empty(),
            "{expected:?} have no results at the end of the turn"
        );
    }

    /// Nothing is left to do: every turn has come to its end.
    pub(super) fn at_rest(&self) {
        for (turn_id, stage) in &self.turns {
            assert_eq!(*stage, Stage::Ended, "{turn_id}");
        }
    }
}
