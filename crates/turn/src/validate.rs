//! Checks whether an event may follow the recorded ones. Each event type is handled here and in `evolve`.
//!
//! The machine writes only valid events, so an invalid one was written by another version or another program. The thread stops there: skipping
//! or accepting it would create a conversation that never happened.

use windlass_core::events::{
    Event, EventData, InputEditedData, ToolCompletedData, ToolStatus, TurnResumedData,
};
use windlass_core::message::Message;
use windlass_core::typed_id::{ExecId, TurnId};

use crate::run::Run;
use crate::state::{Answered, Call, CallState, Phase, Thread, Turn};

/// An event that does not follow from the earlier ones.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {seq} (`{event_type}`) does not fit the events before it: {why}")]
pub struct InvalidEvent {
    /// Sequence number of the event.
    pub seq: u64,
    /// Type name, such as `turn.started`.
    pub event_type: &'static str,
    /// The reason for the rejection.
    pub why: &'static str,
}

/// Whether an event changes the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relevance {
    Relevant,
    /// Retention deleted the beginning of its turn: only its `seq` is applied.
    OfPrunedTurn,
}

type Why = &'static str;

const OUT_OF_ORDER: Why = "its number is not a later one";
const NO_TURN: Why = "no such turn is running";
const TURN_RUNS: Why = "a turn is running";
const NO_MODEL_CALL: Why = "no such model call is running";
const NO_RUN: Why = "no such backend is running";
const NO_CALL: Why = "no such tool call is open";
const STEP_OPEN: Why = "a step of the turn is still open";
const ANSWERED: Why = "the call is answered already";
const NOT_WAITING: Why = "the call does not wait for this";

impl Thread {
    /// Checks an event against the earlier ones. The cost is independent of the thread's length.
    pub(crate) fn validate(&self, event: &Event) -> Result<Relevance, InvalidEvent> {
        let is_next = event.seq() > self.head;
        // Retention removes whole turns, oldest first, and never an open one. A removed turn's remaining events have no beginning.
        if is_next && self.is_cut_before(event) && self.lacks_turn_of(event) {
            return Ok(Relevance::OfPrunedTurn);
        }
        let checked = ensure(is_next, OUT_OF_ORDER).and_then(|()| self.follows(event));
        checked.map_err(|why| InvalidEvent {
            seq: event.seq(),
            event_type: event.data.event_type(),
            why,
        })?;
        Ok(Relevance::Relevant)
    }

    /// Returns whether records before an event were pruned.
    pub(crate) fn is_cut_before(&self, event: &Event) -> bool {
        self.is_cut || event.seq() > self.head + 1
    }

    /// Returns whether an event belongs to a turn that is neither open nor queued, and does not start it.
    fn lacks_turn_of(&self, event: &Event) -> bool {
        let begins = matches!(
            event.data,
            EventData::TurnStarted(_) | EventData::InputQueued(_)
        );
        let turn_id = event.context.turn_id.filter(|_| !begins);
        self.turn.is_none() && turn_id.is_some_and(|turn_id| !self.is_queued(turn_id))
    }

    fn follows(&self, event: &Event) -> Result<(), Why> {
        match &event.data {
            EventData::SessionStarted(_)
            | EventData::SessionUpdated(_)
            | EventData::SessionForked(_)
            | EventData::JournalPruned(_) => Ok(()),
            EventData::SessionRewound(_) => {
                ensure(self.turn.is_none() && self.queue.is_empty(), TURN_RUNS)
            }
            EventData::SessionIdled(_) | EventData::TurnStarted(_) => self.no_turn(),
            EventData::InputQueued(data) => {
                let is_known = self.is_queued(data.turn_id) || self.is_running(data.turn_id);
                ensure(!is_known, "its turn is known already")
            }
            EventData::InputEdited(data) => self.edits(data),
            // Outside of turns messages are imported.
            EventData::InputMessage(data) => {
                self.is_new(&data.message)?;
                match event.context.turn_id {
                    None => self.no_turn(),
                    Some(_) => self.own_turn(event).map(drop),
                }
            }
            EventData::OutputMessageCompleted(_) => match event.context.turn_id {
                None => self.no_turn(),
                Some(_) => self.in_model_call(event),
            },
            EventData::ToolsDiscovered(_) | EventData::SessionActivated(_) => {
                self.own_turn(event).map(drop)
            }
            EventData::TurnSteered(data) => self.running(data.turn_id).map(drop),
            EventData::TurnInterruptRequested(data) => self.running(data.turn_id).map(drop),
            EventData::TurnReleased(data) => self.running(data.turn_id).map(drop),
            EventData::TurnResumed(data) => self.resumes(data),
            EventData::TurnCompleted(data) => self.can_end(data.turn_id),
            EventData::TurnFailed(data) => self.can_end(data.turn_id),
            EventData::TurnCancelled(data) if self.is_queued(data.turn_id) => Ok(()),
            // The turn was queued, and its record was pruned.
            EventData::TurnCancelled(data) if self.is_cut && !self.is_running(data.turn_id) => {
                Ok(())
            }
            EventData::TurnCancelled(data) => self.can_end(data.turn_id),
            EventData::ReasonStarted(data) => {
                self.starts_iteration(event, data.iteration, "it is not the next model call")
            }
            EventData::ReasonThinkingStarted(_)
            | EventData::ReasonThinkingDelta(_)
            | EventData::ReasonThinkingCompleted(_)
            | EventData::OutputMessageStarted(_)
            | EventData::OutputMessageDelta(_) => self.in_model_call(event),
            EventData::LlmGeneration(_) => match &self.own_turn(event)?.phase {
                Phase::Compacting(compaction) if is_step(event, compaction.exec_id) => Ok(()),
                Phase::Reasoning(reason) if is_step(event, reason.exec_id) => Ok(()),
                _ => Err(NO_MODEL_CALL),
            },
            EventData::ReasonCompleted(_) => match self.own_turn(event)?.open_reason {
                Some(exec_id) if is_step(event, exec_id) => Ok(()),
                _ => Err(NO_MODEL_CALL),
            },
            EventData::ActStarted(_) | EventData::ActCompleted(_) => {
                self.own_turn(event)?.act().map(drop).ok_or(NO_CALL)
            }
            EventData::ToolStarted(_) => {
                self.call_in_state(event, |state| matches!(state, CallState::Queued))
            }
            EventData::ToolProgress(_) | EventData::ToolOutputDelta(_) => {
                self.open_call(event).map(drop)
            }
            EventData::ApprovalRequired(_)
            | EventData::ToolCallRequested(_)
            | EventData::UserInputRequired(_) => {
                self.call_in_state(event, |state| matches!(state, CallState::Running { .. }))
            }
            EventData::ApprovalTimeout(_) => self.awaits_approval(event),
            EventData::ApprovalDecided(_) => {
                self.awaits_approval(event)?;
                let verdict = event.context.exec_id.and_then(|step| self.verdict_on(step));
                ensure(verdict.is_none(), ANSWERED)
            }
            EventData::ToolCallTimeout(_) | EventData::ToolCallCanceled(_) => {
                self.awaits_result(event)
            }
            EventData::ToolCallResolved(_) => {
                self.awaits_result(event)?;
                self.is_unanswered(event)
            }
            EventData::UserInputCanceled(data) => self.question(event, &data.request_id),
            EventData::UserInputAnswered(data) => {
                self.question(event, &data.request_id)?;
                self.is_unanswered(event)
            }
            EventData::ToolCompleted(data) => self.completes(event, data),
            EventData::OutputRejected(data) => {
                let turn = self.own_turn(event)?;
                match turn.phase {
                    _ if turn.is_repairing => Err("an answer was rejected already"),
                    Phase::Between if turn.last_message_id == Some(data.message_id) => Ok(()),
                    _ => Err("it is not about the newest answer"),
                }
            }
            EventData::ContextCompacting(_) => self.without_open_step(event).map(drop),
            EventData::ContextCompacted(_) => match &self.own_turn(event)?.phase {
                Phase::Compacting(compaction) if is_step(event, compaction.exec_id) => Ok(()),
                _ => Err("the history is not being made shorter"),
            },
            EventData::TranscriptRepaired(data) => {
                let mut dangling = self.dangling.iter();
                ensure(
                    self.is_cut || dangling.any(|call| call.id == data.tool_call_id),
                    "the call has its result, or never was",
                )
            }
            EventData::BackendStarted(data) => {
                self.starts_iteration(event, data.iteration, "it is not the next run")
            }
            EventData::BackendSessionChosen(_) => {
                let is_unknown = self.run(event)?.session_id.is_none();
                ensure(is_unknown, "the session has an id already")
            }
            EventData::BackendEstablished(_) => ensure(
                !self.run(event)?.is_established,
                "the session is established already",
            ),
            EventData::BackendSteered(data) => {
                self.run(event)?;
                let mut steered = self.turn.iter().flat_map(|turn| &turn.steered);
                ensure(
                    steered.any(|message| message.id == data.message_id),
                    "the message does not wait",
                )
            }
            EventData::BackendUsage(_) => self.run(event).map(drop),
            EventData::BackendNotice(_) => self.own_turn(event).map(drop),
            EventData::BackendCompleted(_) => ensure(
                self.run(event)?.is_closed(),
                "something of the run is still open",
            ),
            EventData::BackendWaiting(_) => {
                let turn = self.own_turn(event)?;
                ensure(
                    turn.phase == Phase::Between && turn.last_run.is_some(),
                    "no run has just ended",
                )
            }
            // The model would continue from the answer that was to be replaced.
            EventData::OutputMessageReplaced(_) => Err("this version replaces no answers"),
            // These events do not affect the conversation.
            EventData::CapabilityUsage(_)
            | EventData::SubagentStarted(_)
            | EventData::SubagentCompleted(_)
            | EventData::TaskCreated(_)
            | EventData::TaskUpdated(_)
            | EventData::FileWritten(_)
            | EventData::ScheduleTriggered(_)
            | EventData::Custom(_) => Ok(()),
        }
    }

    fn no_turn(&self) -> Result<(), Why> {
        ensure(self.turn.is_none(), TURN_RUNS)
    }

    /// Rejects a duplicate of the newest message or of a steering message. Checking further back would cost more in a long thread.
    fn is_new(&self, message: &Message) -> Result<(), Why> {
        let steered = self.turn.iter().flat_map(|turn| &turn.steered);
        let mut newest = steered.chain(self.history.last());
        let is_known = newest.any(|known| known.id == message.id);
        ensure(!is_known, "the message is there already")
    }

    pub(crate) fn is_queued(&self, turn_id: TurnId) -> bool {
        self.queue.iter().any(|queued| queued.turn_id == turn_id)
    }

    fn edits(&self, data: &InputEditedData) -> Result<(), Why> {
        ensure(self.is_queued(data.turn_id), "no such input is queued")?;
        let is_in_range = data.position.is_none_or(|at| at < self.queue.len());
        ensure(is_in_range, "the queue has no such position")
    }

    fn is_running(&self, turn_id: TurnId) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.id == turn_id)
    }

    fn running(&self, turn_id: TurnId) -> Result<&Turn, Why> {
        let turn = self.turn.as_ref().filter(|turn| turn.id == turn_id);
        turn.ok_or(NO_TURN)
    }

    /// Returns the turn that an event belongs to, which must be the running one.
    fn own_turn(&self, event: &Event) -> Result<&Turn, Why> {
        self.running(event.context.turn_id.ok_or(NO_TURN)?)
    }

    /// Returns the turn of an event that starts a step: none of its other steps may be open.
    fn without_open_step(&self, event: &Event) -> Result<&Turn, Why> {
        let turn = self.own_turn(event)?;
        ensure(event.context.exec_id.is_some(), "it names no step")?;
        ensure(has_no_open_step(turn), STEP_OPEN).map(|()| turn)
    }

    fn starts_iteration(&self, event: &Event, iteration: usize, why: Why) -> Result<(), Why> {
        let done = self.without_open_step(event)?.iterations;
        ensure((done..=done.saturating_add(1)).contains(&iteration), why)
    }

    fn can_end(&self, turn_id: TurnId) -> Result<(), Why> {
        ensure(has_no_open_step(self.running(turn_id)?), STEP_OPEN)
    }

    fn resumes(&self, data: &TurnResumedData) -> Result<(), Why> {
        let turn = self.running(data.turn_id)?;
        ensure(
            data.attempt == turn.resumes.saturating_add(1),
            "it is not the next attempt",
        )
    }

    fn in_model_call(&self, event: &Event) -> Result<(), Why> {
        match &self.own_turn(event)?.phase {
            Phase::Reasoning(reason) if is_step(event, reason.exec_id) => Ok(()),
            Phase::Backend(run) if is_step(event, run.part.exec_id) => Ok(()),
            _ => Err(NO_MODEL_CALL),
        }
    }

    /// Returns the run that an event belongs to.
    fn run(&self, event: &Event) -> Result<&Run, Why> {
        let run = self.own_turn(event)?.run();
        run.filter(|run| is_step(event, run.exec_id)).ok_or(NO_RUN)
    }

    /// Returns the call that an event is about, which has no result yet.
    fn open_call(&self, event: &Event) -> Result<&Call, Why> {
        let mut calls = self.own_turn(event)?.calls().iter();
        let call = calls.find(|call| is_step(event, call.exec_id));
        call.filter(|call| !call.state.is_done()).ok_or(NO_CALL)
    }

    fn call_in_state(
        &self,
        event: &Event,
        is_expected: impl FnOnce(&CallState) -> bool,
    ) -> Result<(), Why> {
        ensure(is_expected(&self.open_call(event)?.state), NOT_WAITING)
    }

    fn awaits_approval(&self, event: &Event) -> Result<(), Why> {
        self.call_in_state(event, |state| {
            matches!(state, CallState::AwaitingApproval { .. })
        })
    }

    fn awaits_result(&self, event: &Event) -> Result<(), Why> {
        self.call_in_state(event, |state| {
            matches!(state, CallState::AwaitingResult { .. })
        })
    }

    /// Rejects a second answer to a call or its question. An approval is not an answer.
    fn is_unanswered(&self, event: &Event) -> Result<(), Why> {
        let mut answers = self.answered.iter().rev();
        let is_answer = |it: &Answered| is_step(event, it.exec_id) && !it.is_verdict();
        ensure(!answers.any(is_answer), ANSWERED)
    }

    fn question(&self, event: &Event, id: &str) -> Result<(), Why> {
        self.call_in_state(event, |state| {
            matches!(state, CallState::AwaitingAnswer { request_id, .. } if request_id == id)
        })
    }

    /// A call that never started, or was not approved, has no result of its own.
    fn completes(&self, event: &Event, data: &ToolCompletedData) -> Result<(), Why> {
        let call = self.open_call(event)?;
        match &call.state {
            _ if call.call.id != data.tool_call_id => Err(NO_CALL),
            CallState::Queued if data.status != ToolStatus::Cancelled => {
                Err("the call never began")
            }
            CallState::AwaitingApproval { .. } if data.success => Err("the call was not approved"),
            CallState::Queued
            | CallState::Running { .. }
            | CallState::AwaitingApproval { .. }
            | CallState::AwaitingResult { .. }
            | CallState::AwaitingAnswer { .. }
            | CallState::Done { .. } => Ok(()),
        }
    }
}

fn ensure(is_valid: bool, why: Why) -> Result<(), Why> {
    if is_valid { Ok(()) } else { Err(why) }
}

fn is_step(event: &Event, exec_id: ExecId) -> bool {
    event.context.exec_id == Some(exec_id)
}

/// Returns whether a turn has no open step: no model call, tool call, compaction or run.
fn has_no_open_step(turn: &Turn) -> bool {
    turn.open_reason.is_none()
        && match &turn.phase {
            Phase::Between | Phase::Limited(_) => true,
            Phase::Acting(act) => act.is_done(),
            Phase::Reasoning(_) | Phase::Compacting(_) | Phase::Backend(_) => false,
        }
}
