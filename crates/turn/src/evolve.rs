//! How each event changes a thread. An invalid event changes nothing.

use std::sync::Arc;

use chrono::TimeDelta;
use windlass_core::budget::Spent;
use windlass_core::derived_id::{child_of_step, step_of_call};
use windlass_core::digest::Digest128;
use windlass_core::events::{
    ContextCompactedData, Decision as Verdict, Event, EventData, InputEditedData,
    LlmGenerationData, TokenUsage, ToolCompletedData, ToolStatus, TurnOutline, TurnStartedData,
};
use windlass_core::items::{ItemStep, item_step};
use windlass_core::mcp::DiscoveredTools;
use windlass_core::message::{ContentPart, Message, MessageRole, ToolResultContentPart};
use windlass_core::remembered_calls::call_digest;
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::{ExecId, MessageId, SessionId, TurnId};

use crate::run::LimitWait;
use crate::state::{
    Act, Answered, Call, CallState, Child, Compaction, CompactionAttempts, Measured, Phase, Queued,
    Reason, Text, Thread, Turn, TurnEnd,
};
use crate::validate::{InvalidEvent, Relevance};

/// The result that the model reads for a call whose result was lost.
pub(crate) const REPAIRED: &str =
    "the result of this call was lost; it may or may not have taken effect";

/// Introduces the errors of an answer that does not match the turn's schema.
const REJECTED: &str = "Your answer does not match the JSON Schema that the system prompt requires. Answer again with the whole \
corrected JSON value and no other text. These are the errors:";

/// Introduces a summary.
const SUMMARY: &str = "This is a summary of the conversation so far, which it replaces:\n\n";
/// Introduces a summary that precedes the turn's input, if work on that input had already started.
const SUMMARY_OF_WORK: &str = "This is a summary of the conversation so far, which it replaces. It covers the work on the \
message that follows it, which must not be repeated:\n\n";

impl Thread {
    /// Applies one event. An invalid event leaves the state unchanged, and the thread cannot continue.
    pub fn evolve(&mut self, event: &Event) -> Result<(), InvalidEvent> {
        let relevance = self.validate(event)?;
        self.is_cut = self.is_cut_before(event);
        self.head = event.seq();
        if relevance == Relevance::Relevant {
            self.apply(event);
        }
        Ok(())
    }

    fn apply(&mut self, event: &Event) {
        self.update_outline(event);
        if let Some(turn) = &mut self.turn
            && event.context.turn_id == Some(turn.id)
        {
            turn.recorded_at = event.ts;
        }
        match &event.data {
            EventData::TurnStarted(data) => {
                self.queue.retain(|queued| queued.turn_id != data.turn_id);
                let answered = std::mem::take(&mut self.answered).into_iter();
                answered.for_each(|answered| self.answered_before.push(answered));
                self.started_at.get_or_insert(event.ts);
                self.turn = Some(Turn {
                    id: data.turn_id,
                    input_message_id: data.input_message_id,
                    started_at: event.ts,
                    recorded_at: event.ts,
                    deadline: data.deadline,
                    iterations: 0,
                    llm_calls: 0,
                    tool_calls: 0,
                    usage: None,
                    spent: Spent::default(),
                    first_token_at: None,
                    last_message_id: None,
                    resumes: 0,
                    crashes: 0,
                    total_crashes: 0,
                    is_released: false,
                    auto_approves: false,
                    allowed: Vec::new(),
                    discovered: data.discovered.clone(),
                    outline: Arc::new(outline_of(event, data)),
                    steered: Vec::new(),
                    phase: Phase::Between,
                    open_reason: None,
                    last_run: None,
                    limit_waits: 0,
                    offline_decisions: Vec::new(),
                    is_repairing: false,
                    compaction_attempts: CompactionAttempts::default(),
                });
            }
            EventData::InputQueued(data) => {
                let queued = Queued {
                    turn_id: data.turn_id,
                    message: Arc::new(data.message.clone()),
                    timeout_ms: data.deadline_ms,
                };
                match data.ahead {
                    Some(true) => self.queue.push_front(queued),
                    _ => self.queue.push_back(queued),
                }
            }
            EventData::InputEdited(data) => self.edit_queued(data),
            EventData::InputMessage(data) => self.receive_message(Arc::new(data.message.clone())),
            EventData::ReasonStarted(data) => self.begin_reason(event, data.iteration),
            EventData::ReasonThinkingStarted(_) => self.with_reason(event, |reason| {
                reason.thinking_started.get_or_insert(event.ts);
            }),
            EventData::ReasonThinkingDelta(data) => {
                self.with_reason(event, |reason| reason.thinking.push(&data.delta))
            }
            EventData::OutputMessageStarted(_) => {
                self.with_reason(event, |reason| {
                    reason.text_started.get_or_insert(event.ts);
                });
                if let Some(turn) = &mut self.turn {
                    turn.first_token_at.get_or_insert(event.ts);
                }
            }
            EventData::OutputMessageDelta(data) => {
                self.with_reason(event, |reason| reason.text.push(&data.delta))
            }
            EventData::OutputMessageCompleted(data) => {
                self.answer(event, Arc::new(data.message.clone()));
            }
            EventData::ReasonCompleted(data) => {
                if let Some(turn) = &mut self.turn {
                    turn.open_reason = None;
                    turn.llm_calls += 1;
                    if matches!(turn.phase, Phase::Reasoning(_)) {
                        turn.phase = Phase::Between;
                    }
                    self.add_usage(data.usage.as_ref());
                }
            }
            EventData::ToolStarted(data) => {
                if let Some(turn) = &mut self.turn {
                    turn.tool_calls += 1;
                }
                self.spend(|spent| spent.tool_calls += 1);
                self.with_call(event, |call| {
                    call.started_at = Some(event.ts);
                    call.state = CallState::Running {
                        side_effects: data.side_effects,
                    };
                });
            }
            EventData::ApprovalRequired(data) => {
                self.with_call(event, |call| {
                    if let CallState::Running { side_effects } = call.state {
                        call.state = CallState::AwaitingApproval {
                            side_effects,
                            expires_at: data.expires_at,
                        };
                    }
                });
                self.note_request(event, data);
            }
            EventData::ApprovalDecided(data) => {
                let allow = data.decision == Verdict::Allow;
                let withdrawn = data.withdrawn == Some(true);
                let for_project = allow && data.project == Some(true);
                let mut allowed = None;
                self.note_decision(event, data);
                self.with_call(event, |call| {
                    allowed = for_project.then(|| call_digest(&call.call));
                    if let (CallState::AwaitingApproval { side_effects, .. }, true) =
                        (&call.state, allow || withdrawn)
                    {
                        call.state = CallState::Running {
                            side_effects: *side_effects,
                        };
                    }
                });
                if withdrawn {
                    return;
                }
                self.note_answer(event, &data.tool_call_id, verdict_digest(allow));
                if let Some(turn) = self.turn.as_mut().filter(|_| data.remember == Some(true)) {
                    turn.auto_approves = true;
                }
                if let (Some(turn), Some(allowed)) = (self.turn.as_mut(), allowed) {
                    turn.allowed.push(allowed);
                }
            }
            EventData::ToolCallRequested(data) => self.with_call(event, |call| {
                call.state = CallState::AwaitingResult {
                    expires_at: data.expires_at,
                };
            }),
            EventData::ToolCallResolved(data) => {
                self.note_answer(event, &data.tool_call_id, data.digest.clone());
            }
            EventData::UserInputRequired(data) => self.with_call(event, |call| {
                let (request_id, expires_at) = (data.request_id.clone(), data.expires_at);
                call.state = CallState::AwaitingAnswer {
                    request_id,
                    prompt: data.prompt.clone(),
                    expires_at,
                };
            }),
            EventData::UserInputAnswered(data) => {
                let digest = Digest128::of_json(&data.answer).to_string();
                self.note_answer(event, &data.request_id, digest);
            }
            EventData::ToolCompleted(data) => self.complete_call(event, data),
            EventData::TurnResumed(data) => {
                if let Some(turn) = &mut self.turn {
                    turn.resumes = data.attempt;
                    if let Some(by) = data.extended_ms.and_then(|ms| i64::try_from(ms).ok()) {
                        let by = TimeDelta::try_milliseconds(by).unwrap_or_default();
                        let calls = turn.calls_mut().iter_mut();
                        calls.for_each(|call| call.state.extend(by));
                    }
                    let crashed = u32::from(turn.is_at_work());
                    turn.total_crashes = turn.total_crashes.saturating_add(crashed);
                    turn.crashes = turn.crashes_without_its_process();
                    turn.is_released = false;
                    if let Phase::Backend(run) = &mut turn.phase {
                        run.is_lost = true;
                    }
                }
            }
            EventData::TurnReleased(data) => {
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.id == data.turn_id) {
                    turn.is_released = true;
                }
            }
            EventData::TurnCompleted(data) => self.end_turn(event, data.turn_id),
            EventData::TurnFailed(data) => self.end_turn(event, data.turn_id),
            EventData::TurnCancelled(data) => self.end_turn(event, data.turn_id),
            EventData::SessionRewound(data) => self.rewind(data.to_turn),
            EventData::ContextCompacting(data) => {
                if let (Some(turn), Some(exec_id)) = (&mut self.turn, event.context.exec_id) {
                    let recent_messages = data.kept_messages;
                    turn.compaction_attempts.since_call += u32::from(recent_messages.is_some());
                    turn.phase = Phase::Compacting(Compaction {
                        exec_id,
                        started_at: event.ts,
                        recent_messages,
                    });
                }
            }
            EventData::OutputRejected(data) => self.ask_for_repair(event, &data.errors),
            EventData::ContextCompacted(data) => self.compacted(event, data),
            EventData::TranscriptRepaired(data) => {
                self.settle_dangling(&data.tool_call_id);
                let part = ToolResultContentPart {
                    tool_call_id: data.tool_call_id.clone(),
                    result: None,
                    error: Some(REPAIRED.to_owned()),
                };
                self.history.push(Arc::new(Message::from_parts(
                    data.message_id,
                    MessageRole::ToolResult,
                    vec![ContentPart::ToolResult(part)],
                    event.ts,
                )));
            }
            EventData::ToolsDiscovered(data) => {
                self.discovered = Arc::new(DiscoveredTools::clone(data));
            }
            EventData::BackendStarted(data) => self.begin_run(event, data),
            EventData::BackendSessionChosen(data) => {
                if let Some(run) = self.run_mut() {
                    run.session_id = Some(data.session_id.clone());
                }
            }
            EventData::BackendEstablished(data) => {
                if let Some(run) = self.run_mut() {
                    run.session_id = Some(data.session_id.clone());
                    run.is_established = true;
                }
            }
            EventData::BackendSteered(data) => self.place_steer(data.message_id),
            EventData::BackendUsage(data) => {
                if let Some(run) = self.run_mut() {
                    run.usage = Some(data.usage);
                }
            }
            EventData::BackendCompleted(data) => {
                self.spend(|spent| spent.settle(&event.data));
                self.end_run(data);
            }
            EventData::BackendWaiting(data) => {
                if let Some(turn) = &mut self.turn {
                    turn.limit_waits = data.waits;
                    turn.phase = Phase::Limited(LimitWait {
                        until: data.until,
                        attempts: data.attempts,
                        waits: data.waits,
                    });
                }
            }
            // Later thinking is a new block; text under the same step belongs to this one.
            EventData::ReasonThinkingCompleted(_) => {
                let ts = event.ts;
                if let Some(run) = self.run_mut().filter(|run| run.part.text_started.is_none()) {
                    run.next_part(ts);
                }
            }
            // The session is the parent's.
            EventData::SessionForked(_) => self.session = None,
            EventData::LlmGeneration(data) => {
                self.measure(data);
                self.spend(|spent| spent.settle(&event.data));
            }
            EventData::SubagentStarted(data) => self.begin_child(event, data.child_session_id),
            EventData::SubagentCompleted(data) => self.end_child(data.child_session_id),
            // `update_outline` updates the user-visible state.
            EventData::TurnSteered(_) => {}
            // Accompanying events determine the state of the turn and its calls.
            EventData::SessionActivated(_)
            | EventData::SessionIdled(_)
            | EventData::TurnInterruptRequested(_)
            | EventData::ActStarted(_)
            | EventData::ActCompleted(_)
            | EventData::ToolCallTimeout(_)
            | EventData::ToolCallCanceled(_)
            | EventData::ApprovalTimeout(_)
            | EventData::UserInputCanceled(_) => {}
            // These are for clients and for the read model.
            EventData::SessionStarted(_)
            | EventData::SessionUpdated(_)
            | EventData::BackendNotice(_)
            | EventData::OutputMessageReplaced(_)
            | EventData::ToolProgress(_)
            | EventData::ToolOutputDelta(_)
            | EventData::CapabilityUsage(_)
            | EventData::TaskCreated(_)
            | EventData::TaskUpdated(_)
            | EventData::FileWritten(_)
            | EventData::ScheduleTriggered(_)
            | EventData::JournalPruned(_)
            | EventData::Custom(_) => {}
        }
    }

    fn edit_queued(&mut self, data: &InputEditedData) {
        let mut queue = self.queue.iter();
        let Some(at) = queue.position(|queued| queued.turn_id == data.turn_id) else {
            return;
        };
        let Some(mut queued) = self.queue.remove(at) else {
            return;
        };
        if let Some(content) = &data.content {
            let message = Arc::make_mut(&mut queued.message);
            message.content.clone_from(content);
            // The client's summary described the old content.
            if let Some(turn) = message.controls.as_mut().and_then(|it| it.turn.as_mut()) {
                turn.input_summary = None;
            }
        }
        let at = data.position.unwrap_or(at).min(self.queue.len());
        self.queue.insert(at, queued);
    }

    /// Remembers the session that a call created. Records of other programs may name any session; only the child of the step counts.
    fn begin_child(&mut self, event: &Event, session_id: SessionId) {
        let (Some(turn_id), Some(exec_id)) = (event.context.turn_id, event.context.exec_id) else {
            return;
        };
        let mut children = self.children.iter();
        let is_known = children.any(|child| child.session_id == session_id);
        if !is_known && session_id == child_of_step(exec_id) {
            Arc::make_mut(&mut self.children).push(Child {
                turn_id,
                exec_id,
                session_id,
                is_done: false,
            });
        }
    }

    fn end_child(&mut self, session_id: SessionId) {
        let is_child = |child: &Child| child.session_id == session_id;
        if let Some(at) = self.children.iter().position(is_child) {
            Arc::make_mut(&mut self.children)[at].is_done = true;
        }
    }

    /// Updates the user-visible outline of the turn, for the record of its end.
    fn update_outline(&mut self, event: &Event) {
        let Some(turn) = &mut self.turn else { return };
        let outline = &mut turn.outline;
        match (&event.data, item_step(event)) {
            (_, Some(ItemStep::Started(item) | ItemStep::Ended(item))) => {
                let is_new = !outline.item_ids.iter().rev().any(|id| *id == item.id);
                if is_new && item.turn_id == turn.id {
                    Arc::make_mut(outline).item_ids.push(item.id);
                }
            }
            (EventData::TurnSteered(_), _) => {
                let outline = Arc::make_mut(outline);
                outline.steer_count = outline.steer_count.saturating_add(1);
            }
            (EventData::ApprovalDecided(data), _) => {
                Arc::make_mut(outline).unapproved.count(data);
            }
            (EventData::TurnResumed(data), _) => {
                Arc::make_mut(outline).resumed_count = data.attempt;
            }
            (EventData::LlmGeneration(data), _) => {
                let provider = &data.metadata.provider;
                if provider.is_some() && *provider != outline.provider {
                    Arc::make_mut(outline).provider.clone_from(provider);
                }
            }
            (EventData::BackendEstablished(data), _)
                if data.model.is_some() && data.model != outline.model =>
            {
                Arc::make_mut(outline).model.clone_from(&data.model);
            }
            _ => {}
        }
    }

    /// Adds budget use of the turn to the turn and its thread.
    fn spend(&mut self, add: impl Fn(&mut Spent)) {
        if let Some(turn) = &mut self.turn {
            add(&mut turn.spent);
        }
        add(&mut self.spent);
    }

    /// Adds token usage of the turn to the turn and its thread.
    pub(crate) fn add_usage(&mut self, usage: Option<&TokenUsage>) {
        let (Some(turn), Some(usage)) = (&mut self.turn, usage) else {
            return;
        };
        turn.usage.get_or_insert_default().add(usage);
        self.usage.get_or_insert_default().add(usage);
    }

    /// A turn's input, and messages outside of turns, take effect immediately; a steer at the next model call.
    fn receive_message(&mut self, message: Arc<Message>) {
        match &mut self.turn {
            Some(turn) if turn.input_message_id != message.id => turn.steered.push(message),
            Some(_) => self.history.push(message),
            None => {
                if let (MessageRole::ToolResult, Some(id)) = (message.role, message.tool_call_id())
                {
                    self.settle_dangling(id);
                }
                self.history.push(message);
            }
        }
    }

    /// A result answers one call, also where a provider gave several the same id.
    fn settle_dangling(&mut self, call_id: &str) {
        if let Some(at) = self.dangling.iter().position(|call| call.id == call_id) {
            self.dangling.remove(at);
        }
    }

    fn begin_reason(&mut self, event: &Event, iteration: usize) {
        let (Some(turn), Some(exec_id)) = (&mut self.turn, event.context.exec_id) else {
            return;
        };
        for message in turn.steered.drain(..) {
            self.history.push(message);
        }
        turn.compaction_attempts.since_call = 0;
        turn.iterations = iteration;
        turn.open_reason = Some(exec_id);
        turn.phase = Phase::Reasoning(Reason {
            exec_id,
            started_at: event.ts,
            text_started: None,
            thinking_started: None,
            text: Text::default(),
            thinking: Text::default(),
        });
    }

    fn answer(&mut self, event: &Event, message: Arc<Message>) {
        let calls = requested_calls(&message);
        match &mut self.turn {
            Some(Turn {
                phase: Phase::Backend(run),
                last_message_id,
                ..
            }) => {
                if message.text().is_some() {
                    *last_message_id = Some(message.id);
                }
                run.next_part(event.ts);
                run.add_message(message, calls);
                return self.settle_run();
            }
            Some(turn) => {
                turn.last_message_id = Some(message.id);
                turn.phase = if calls.is_empty() {
                    Phase::Between
                } else {
                    Phase::Acting(Act { calls, placed: 0 })
                };
            }
            None => self.dangling = calls.into_iter().map(|call| call.call).collect(),
        }
        self.history.push(message);
    }

    /// Stores results in the order of their calls, not of their arrival.
    fn complete_call(&mut self, event: &Event, data: &ToolCompletedData) {
        let message = Arc::new(Message::from_parts(
            MessageId::from_uuid(event.id.uuid()),
            MessageRole::ToolResult,
            data.result.clone().unwrap_or_default(),
            event.ts,
        ));
        let success = data.success;
        let mut is_known = false;
        self.with_call(event, |call| {
            call.state = CallState::Done { message, success };
            is_known = true;
        });
        // Only a call that ran shows progress. An answer does not: its calls may be the cause of the crash, and the model requests them again.
        if let Some(turn) = self.turn.as_mut().filter(|_| is_known && has_run(data)) {
            turn.crashes = 0;
        }
        self.settle_run();
        if let Some(Turn {
            phase: Phase::Acting(act),
            ..
        }) = &mut self.turn
        {
            while let Some(Call {
                state: CallState::Done { message, .. },
                ..
            }) = act.calls.get(act.placed)
            {
                self.history.push(Arc::clone(message));
                act.placed += 1;
            }
        }
    }

    /// Messages to the turn that were never read remain in the conversation.
    fn end_turn(&mut self, event: &Event, turn_id: TurnId) {
        self.queue.retain(|queued| queued.turn_id != turn_id);
        if self.turn.as_ref().is_some_and(|turn| turn.id == turn_id)
            && let Some(turn) = self.turn.take()
        {
            let took = (event.ts - turn.started_at).num_milliseconds();
            self.spent.millis += u64::try_from(took).unwrap_or_default();
            // The external agent does not know messages that it did not read or that were added without it.
            if let (Some(session), Some(_)) = (&mut self.session, &turn.last_run) {
                session.messages = self.history.len();
                session.unread = turn.steered.iter().map(|message| message.id).collect();
            }
            turn.steered
                .into_iter()
                .for_each(|message| self.history.push(message));
            self.ends.push(TurnEnd {
                turn_id,
                // The session's idling follows, always in the same commit.
                seq: self.head + 1,
                messages: self.history.len(),
            });
        }
    }

    /// Stores the size of a request. A summary's own request does not predict later ones.
    fn measure(&mut self, data: &LlmGenerationData) {
        let phase = self.turn.as_ref().map(|turn| &turn.phase);
        let usage = data.metadata.usage.filter(|usage| usage.input_tokens > 0);
        if let (Some(Phase::Reasoning(_)), Some(usage)) = (phase, usage) {
            self.measured = Some(Measured {
                tokens: usage.input_tokens.into(),
                messages: self.history.context().len(),
            });
        }
    }

    /// The model reads the errors of its answer. The text is derived, so the record contains only the errors.
    fn ask_for_repair(&mut self, event: &Event, errors: &[String]) {
        let Some(turn) = &mut self.turn else { return };
        turn.is_repairing = true;
        let errors: String = errors.iter().map(|error| format!("\n- {error}")).collect();
        let message = user_message(event, format!("{REJECTED}{errors}"));
        self.history.push(Arc::new(message));
    }

    /// From now on the model reads the summary and the verbatim messages; users still see all messages.
    fn compacted(&mut self, event: &Event, data: &ContextCompactedData) {
        let mut input = None;
        if let Some(turn) = &mut self.turn {
            turn.phase = Phase::Between;
            turn.compaction_attempts.failed = match &data.error {
                Some(_) => turn.compaction_attempts.failed + 1,
                None => 0,
            };
            input = Some(turn.input_message_id);
            turn.llm_calls += usize::from(data.usage.is_some());
            self.add_usage(data.usage.as_ref());
        }
        if let Some(summary) = &data.summary {
            let verbatim = data.kept_messages.unwrap_or(0);
            let input = input.and_then(|input| self.history.outside(verbatim, input));
            let introduction = match input {
                Some(_) => SUMMARY_OF_WORK,
                None => SUMMARY,
            };
            let message = user_message(event, format!("{introduction}{summary}"));
            self.history
                .summarise(event.seq(), message, input, verbatim);
            self.session = None;
            self.measured = None;
        }
    }

    /// Truncates the conversation to the end of a turn. If that turn is unknown, its records and all earlier ones were pruned: then every message is
    /// later. Usage is not reset.
    fn rewind(&mut self, to_turn: TurnId) {
        let later = self.ends.iter().rev();
        let later = later.take_while(|end| end.turn_id != to_turn).count();
        self.ends = self.ends.truncated(self.ends.len() - later);
        let (messages, seq) = self
            .ends
            .last()
            .map_or((0, 0), |end| (end.messages, end.seq));
        self.history = self.history.truncated(messages, seq);
        self.dangling.clear();
        self.answered.clear();
        self.session = None;
        self.measured = None;
    }

    /// Returns the decision about a call of the running turn.
    pub(crate) fn verdict_on(&self, exec_id: ExecId) -> Option<Verdict> {
        let answers = self.answered.iter().rev();
        let mut answers = answers.filter(|answered| answered.exec_id == exec_id);
        answers.find_map(|answered| match answered.digest.as_str() {
            ALLOWED => Some(Verdict::Allow),
            DENIED => Some(Verdict::Deny),
            _ => None,
        })
    }

    fn note_answer(&mut self, event: &Event, call_id: &str, digest: String) {
        if let Some(exec_id) = event.context.exec_id {
            self.answered.push(Answered {
                exec_id,
                call_id: call_id.to_owned(),
                digest,
            });
        }
    }

    fn with_reason(&mut self, event: &Event, change: impl FnOnce(&mut Reason)) {
        let reason = match self.turn.as_mut().map(|turn| &mut turn.phase) {
            Some(Phase::Reasoning(reason)) => Some(reason),
            Some(Phase::Backend(run)) => Some(&mut run.part),
            _ => None,
        };
        if let Some(reason) = reason.filter(|it| event.context.exec_id == Some(it.exec_id)) {
            change(reason);
        }
    }

    fn with_call(&mut self, event: &Event, change: impl FnOnce(&mut Call)) {
        let Some(turn) = &mut self.turn else { return };
        if let Some(call) = turn
            .calls_mut()
            .iter_mut()
            .find(|call| event.context.exec_id == Some(call.exec_id))
            && !call.state.is_done()
        {
            change(call);
        }
    }
}

/// Makes the message for the model that an event implies.
fn user_message(event: &Event, text: String) -> Message {
    let id = MessageId::from_uuid(event.id.uuid());
    Message::from_parts(
        id,
        MessageRole::User,
        vec![ContentPart::text(text)],
        event.ts,
    )
}

fn outline_of(event: &Event, data: &TurnStartedData) -> TurnOutline {
    let outline = data.outline.clone().unwrap_or_default();
    TurnOutline {
        started_at: outline.started_at.or(Some(event.ts)),
        ..outline
    }
}

/// The steps of an answer's calls. Their ids follow from the message, so that every fold gives the same.
fn requested_calls(message: &Message) -> Vec<Call> {
    let calls = message.tool_calls().into_iter();
    calls
        .enumerate()
        .map(|(n, part)| Call {
            exec_id: step_of_call(message.id, n),
            call: Arc::new(ToolCall {
                id: part.id.clone(),
                name: part.name.clone(),
                arguments: part.arguments.clone(),
            }),
            started_at: None,
            state: CallState::Queued,
        })
        .collect()
}

const ALLOWED: &str = "allow";
const DENIED: &str = "deny";

impl Answered {
    /// Returns whether the call was approved or denied.
    pub(crate) fn is_verdict(&self) -> bool {
        [ALLOWED, DENIED].contains(&self.digest.as_str())
    }
}

/// Returns the digest of a decision about a call, by which a repeat is recognized.
pub(crate) fn verdict_digest(allow: bool) -> String {
    if allow { ALLOWED } else { DENIED }.to_owned()
}

fn has_run(data: &ToolCompletedData) -> bool {
    let ended = !matches!(data.status, ToolStatus::Unknown | ToolStatus::Cancelled);
    let refused = data.refused == Some(true) || data.approval == Some(Verdict::Deny);
    ended && !refused
}
