//! One step of the driver: an input that is chosen by looking at the thread, or in spite of it.

use std::time::Duration;

use serde_json::{Value, json};
use windlass_core::events::{
    CustomData, EventData, SessionUpdatedData, TokenUsage, ToolOutputDeltaData, ToolProgressData,
    ToolStatus,
};
use windlass_core::message::{ContentPart, InputMessage, Message, MessageRole};
use windlass_core::tools::{ToolCall, ToolResult};
use windlass_core::typed_id::{ExecId, MessageId, TurnId};
use windlass_turn::{
    Answer, Approval, CallState, FailureDetails, Input, OnBusy, QueueEdit, Rejected, RequestedCall,
    RequiredWait, ToolOutcome, UnflushedText,
};

use super::MachineDriver;
use super::plan::TOOLS;
use crate::targets::bytes::Bytes;

const TEXTS: &[&str] = &["", "ok", "Grüße", "a longer answer"];
const CALL_IDS: &[&str] = &["c0", "c1", "c2"];
const POLICIES: &[OnBusy] = &[
    OnBusy::Queue,
    OnBusy::Steer,
    OnBusy::Interrupt,
    OnBusy::Refuse,
];

impl MachineDriver {
    pub(super) fn step(&mut self, bytes: &mut Bytes<'_>) {
        if self.backend_step().is_some() && !bytes.one_in(3) {
            return self.play_backend(bytes);
        }
        match bytes.below(21) {
            0..=2 => self.say(bytes),
            3 | 4 => self.begin(bytes),
            5..=8 => self.answer_model(bytes),
            9 => self.stream(bytes),
            10..=12 => self.finish_tool(bytes),
            13 => self.answer_calls(bytes),
            14 => self.decide_approval(bytes),
            15 => self.answer_question(bytes),
            16 => self.emit(bytes),
            17 => {
                self.now += Duration::from_secs([0, 1, 5, 25][bytes.below(4)]);
                self.timer();
            }
            18 if bytes.one_in(2) => self.import(bytes),
            18 => {
                let times = if bytes.one_in(4) { 4 } else { 1 };
                for _ in 0..times {
                    if bytes.one_in(3) {
                        self.restart()
                    } else {
                        self.crash()
                    }
                }
            }
            19 => self.edit_queue(bytes),
            _ => self.interrupt(bytes),
        }
    }

    fn say(&mut self, bytes: &mut Bytes<'_>) {
        let message = InputMessage::user(text(bytes));
        let input = if bytes.one_in(12) {
            Input::Compact {
                message,
                turn_id: None,
            }
        } else if bytes.one_in(4) {
            Input::Steer {
                turn_id: None,
                message,
            }
        } else {
            Input::Submit {
                message,
                on_busy: bytes.pick(POLICIES).copied().unwrap_or_default(),
                timeout: bytes.one_in(8).then(|| Duration::from_secs(10)),
                turn_id: None,
            }
        };
        let _ = self.submit(input, None);
    }

    fn begin(&mut self, bytes: &mut Bytes<'_>) {
        let front = self.thread.queue().front().map(|next| next.turn_id);
        let stray = TurnId::from_uuid(self.fresh());
        let is_stray = front.is_none() || bytes.one_in(6);
        let begin = Input::Begin {
            turn_id: front.filter(|_| !is_stray).unwrap_or(stray),
            failure: bytes.one_in(4).then(failure),
        };
        let may = self.thread.turn().is_none() && !is_stray;
        assert_eq!(self.submit(begin, None).is_ok(), may, "begin");
    }

    /// Changes or removes a queued input; a turn that is not in the queue is refused.
    fn edit_queue(&mut self, bytes: &mut Bytes<'_>) {
        let queued: Vec<_> = self.thread.queue().iter().map(|it| it.turn_id).collect();
        let others = self.thread.turn().map(|turn| turn.id);
        let stray = others.unwrap_or_else(|| TurnId::from_uuid(self.fresh()));
        let chosen = bytes.pick(&queued).copied().filter(|_| !bytes.one_in(6));
        let turn_id = chosen.unwrap_or(stray);
        let input = if bytes.one_in(4) {
            let reason = None;
            Input::RemoveQueued { turn_id, reason }
        } else {
            let content = bytes
                .one_in(2)
                .then(|| vec![ContentPart::text(text(bytes))]);
            let position = bytes.one_in(2).then(|| bytes.below(4));
            let edit = QueueEdit { content, position };
            Input::EditQueued { turn_id, edit }
        };
        assert_eq!(self.submit(input, None).is_ok(), chosen.is_some(), "edit");
    }

    fn interrupt(&mut self, bytes: &mut Bytes<'_>) {
        let queued = self.thread.queue().iter().map(|queued| queued.turn_id);
        let mut turns: Vec<_> = queued.collect();
        turns.extend(self.thread.turn().map(|turn| turn.id));
        let known = bytes.pick(&turns).copied();
        let turn_id = match bytes.below(3) {
            0 => None,
            1 => Some(TurnId::from_uuid(self.fresh())),
            _ => known,
        };
        let may = match turn_id {
            None => self.thread.turn().is_some(),
            Some(turn_id) => turns.contains(&turn_id),
        };
        let tail = tail(bytes);
        let reason = Some("enough".to_owned());
        let stop = self.submit(Input::Interrupt { turn_id, reason }, Some(&tail));
        assert_eq!(stop.is_ok(), may, "interrupt");
    }

    fn answer_model(&mut self, bytes: &mut Bytes<'_>) {
        let exec_id = self.step_or_stray(self.model_step(), bytes);
        let tail = tail(bytes);
        let input = if bytes.one_in(6) {
            Input::ModelFailed {
                exec_id,
                failure: failure(),
                metadata: Box::default(),
            }
        } else {
            let streamed = self.streamed();
            let answer = Box::new(answer(streamed + &tail.text, bytes));
            Input::ModelFinished { exec_id, answer }
        };
        self.finish(exec_id, input, Some(&tail));
    }

    /// The text of the running model call so far.
    fn streamed(&self) -> String {
        match self.thread.turn().map(|turn| &turn.phase) {
            Some(windlass_turn::Phase::Reasoning(reason)) => reason.text.joined(),
            _ => String::new(),
        }
    }

    fn stream(&mut self, bytes: &mut Bytes<'_>) {
        let exec_id = self.step_or_stray(self.model_step(), bytes);
        let tail = tail(bytes);
        // A summary is not streamed.
        let phase = self.thread.turn().map(|turn| &turn.phase);
        let runs = matches!(phase, Some(windlass_turn::Phase::Reasoning(reason)) if reason.exec_id == exec_id)
            || self.backend_step() == Some(exec_id);
        let decision = self.with_context(Some(&tail), |thread, ctx| thread.chunk(exec_id, ctx));
        match decision {
            Ok(decision) => {
                assert!(runs, "a stopped model call streams");
                self.record(decision);
            }
            Err(rejected) => assert_eq!((rejected, runs), (Rejected::Stale(exec_id), false)),
        }
    }

    fn finish_tool(&mut self, bytes: &mut Bytes<'_>) {
        let running: Vec<_> = self.running.iter().copied().collect();
        let tools = running
            .into_iter()
            .filter(|exec_id| Some(*exec_id) != self.model_step())
            .filter(|exec_id| Some(*exec_id) != self.backend_step());
        let tools: Vec<_> = tools.collect();
        let exec_id = self.step_or_stray(bytes.pick(&tools).copied(), bytes);
        let outcome = Box::new(outcome(bytes));
        self.finish(exec_id, Input::ToolFinished { exec_id, outcome }, None);
    }

    /// The result of a running step is taken, any other is stale.
    fn finish(&mut self, exec_id: ExecId, input: Input, tail: Option<&UnflushedText>) {
        let is_model = matches!(
            input,
            Input::ModelFinished { .. } | Input::ModelFailed { .. }
        );
        let is_of_kind = is_model == (self.model_step() == Some(exec_id))
            && self.backend_step() != Some(exec_id);
        let runs = is_of_kind && self.running.remove(&exec_id);
        match self.submit(input, tail) {
            Ok(_) => assert!(runs, "the result of a stopped step is taken"),
            Err(rejected) => assert_eq!((rejected, runs), (Rejected::Stale(exec_id), false)),
        }
    }

    fn answer_calls(&mut self, bytes: &mut Bytes<'_>) {
        let results = (0..bytes.below(3) + 1).map(|_| {
            let name = self.call_name(bytes);
            match bytes.below(4) {
                0 => ToolResult::failure(name, "no"),
                n => ToolResult::success(name, n % 2),
            }
        });
        let results: Vec<_> = results.collect();
        let before = self.thread.clone();
        let taken = self.submit(
            Input::ToolResults {
                results: results.clone(),
            },
            None,
        );
        if taken.is_ok() && self.thread.turn().map(|turn| turn.id) == before.turn().map(|t| t.id) {
            let again = self.repeat_is_ambiguous(&results);
            let repeat = self.submit(Input::ToolResults { results }, None);
            assert!(again || repeat == Ok(0), "an equal repeat gives {repeat:?}");
        }
    }

    /// A provider may give several calls one id; then only the step's id says which is meant.
    fn repeat_is_ambiguous(&self, results: &[ToolResult]) -> bool {
        let act = self.thread.turn().and_then(|turn| turn.act());
        let open = act
            .into_iter()
            .flat_map(|act| &act.calls)
            .filter(|call| !call.state.is_done());
        open.into_iter().any(|call| {
            results
                .iter()
                .any(|result| result.tool_call_id == call.call.id)
        })
    }

    fn decide_approval(&mut self, bytes: &mut Bytes<'_>) {
        let call = self.call_name(bytes);
        let is_denied = bytes.below(2) == 1;
        let scope = bytes.below(4);
        let approval = match scope {
            _ if is_denied => Approval::Deny { reason: None },
            2 => Approval::Turn,
            3 => Approval::Project,
            _ => Approval::Once,
        };
        let input = Input::Approval { call, approval };
        let _ = self.submit(input, None);
    }

    fn answer_question(&mut self, bytes: &mut Bytes<'_>) {
        let act = self.thread.turn().and_then(|turn| turn.act());
        let asked = act.into_iter().flat_map(|act| &act.calls);
        let open = asked.filter_map(|call| match &call.state {
            CallState::AwaitingAnswer { request_id, .. } => Some(request_id.clone()),
            _ => None,
        });
        let open: Vec<_> = open.collect();
        let known = bytes.pick(&open).cloned();
        let input = |request: String, answer: Value| Input::UserAnswer { request, answer };
        match known {
            Some(request) => {
                let taken = self.submit(input(request.clone(), json!("yes")), None);
                assert!(taken.is_ok(), "an answer is refused");
                let repeat = self.submit(input(request.clone(), json!("yes")), None);
                assert_eq!(repeat, Ok(0), "an equal repeat");
                let other = self.submit(input(request, json!("no")), None);
                assert!(other.is_err(), "another answer is taken");
            }
            None => {
                let stray = self.submit(input("input_0".to_owned(), Value::Null), None);
                assert!(stray.is_err(), "a stray answer is taken");
            }
        }
    }

    fn emit(&mut self, bytes: &mut Bytes<'_>) {
        let running: Vec<_> = self.running.iter().copied().collect();
        let exec_id = self.step_or_stray(bytes.pick(&running).copied(), bytes);
        let (tool_call_id, tool_name) = ("c0".to_owned(), "tool".to_owned());
        let (data, is_allowed) = match bytes.below(4) {
            0 => {
                let message = "half".to_owned();
                let data = ToolProgressData {
                    tool_call_id,
                    tool_name,
                    message,
                };
                (EventData::from(data), true)
            }
            1 => {
                let (delta, stream) = ("out".to_owned(), "stdout".to_owned());
                let data = ToolOutputDeltaData {
                    tool_call_id,
                    tool_name,
                    delta,
                    stream,
                };
                (data.into(), true)
            }
            2 => {
                let (name, payload) = ("own".to_owned(), json!({ "n": 1 }));
                (CustomData { name, payload }.into(), true)
            }
            _ => (
                SessionUpdatedData {
                    title: None,
                    record: None,
                    changed_fields: None,
                }
                .into(),
                false,
            ),
        };
        let is_tool = self.running.contains(&exec_id)
            && Some(exec_id) != self.model_step()
            && Some(exec_id) != self.backend_step();
        let taken = self.submit(Input::Emit { exec_id, data }, None);
        assert_eq!(taken.is_ok(), is_allowed && is_tool, "emit: {taken:?}");
    }

    fn import(&mut self, bytes: &mut Bytes<'_>) {
        let id = MessageId::from_uuid(self.fresh());
        let call_id = bytes.pick(CALL_IDS).copied().unwrap_or("c0");
        let message = match bytes.below(5) {
            0 => Message::from_parts(id, MessageRole::User, parts("user"), self.now),
            1 => Message::from_parts(id, MessageRole::System, parts("system"), self.now),
            2 => Message {
                id,
                created_at: self.now,
                ..Message::tool_result(call_id, Some(json!(1)), None)
            },
            _ => {
                let calls = calls(bytes).into_iter().map(|requested| requested.call);
                Message {
                    id,
                    created_at: self.now,
                    ..Message::assistant_with_tools("did", calls.collect())
                }
            }
        };
        self.checker.imports(id);
        let taken = self.submit(Input::Import { message }, None);
        assert!(
            taken.is_err() || self.thread.turn().is_none(),
            "a message is imported into a turn"
        );
    }

    /// Names a call by the provider's id or the step's, of this turn or of none.
    fn call_name(&mut self, bytes: &mut Bytes<'_>) -> String {
        let calls = self.thread.turn().map_or(&[][..], |turn| turn.calls());
        match (bytes.pick(calls), bytes.below(4)) {
            (Some(call), 0 | 1) => call.exec_id.to_string(),
            (Some(call), 2) => call.call.id.clone(),
            _ => bytes.pick(CALL_IDS).copied().unwrap_or("c0").to_owned(),
        }
    }

    pub(super) fn step_or_stray(&mut self, step: Option<ExecId>, bytes: &mut Bytes<'_>) -> ExecId {
        let old: Vec<_> = self.checker.started().copied().collect();
        let stray = ExecId::from_uuid(self.fresh());
        match step {
            Some(step) if !bytes.one_in(8) => step,
            _ => bytes.pick(&old).copied().unwrap_or(stray),
        }
    }
}

pub(super) fn text(bytes: &mut Bytes<'_>) -> String {
    bytes.pick(TEXTS).copied().unwrap_or_default().to_owned()
}

fn parts(text: &str) -> Vec<ContentPart> {
    vec![ContentPart::text(text)]
}

pub(super) fn tail(bytes: &mut Bytes<'_>) -> UnflushedText {
    let thinking = if bytes.one_in(4) {
        "hm".to_owned()
    } else {
        String::new()
    };
    UnflushedText {
        text: text(bytes),
        thinking,
    }
}

fn failure() -> FailureDetails {
    FailureDetails {
        code: "server".to_owned(),
        message: "the provider failed".to_owned(),
        user_message: "Something went wrong.".to_owned(),
        fields: None,
    }
}

fn calls(bytes: &mut Bytes<'_>) -> Vec<RequestedCall> {
    let count = bytes.below(5);
    let calls = (0..count).map(|_| RequestedCall {
        call: ToolCall {
            id: bytes.pick(CALL_IDS).copied().unwrap_or("c0").to_owned(),
            name: bytes.pick(TOOLS).copied().unwrap_or("once").to_owned(),
            arguments: json!({}),
        },
        refusal: bytes.one_in(8).then(|| "no such tool".to_owned()),
    });
    calls.collect()
}

fn answer(text: String, bytes: &mut Bytes<'_>) -> Answer {
    let mut answer = Answer {
        text,
        thinking: bytes.one_in(4).then(|| "hm".to_owned()),
        calls: calls(bytes),
        mismatch: bytes
            .one_in(6)
            .then(|| "/a: it is wrong".to_owned())
            .into_iter()
            .collect(),
        ..Answer::default()
    };
    answer.metadata.usage = bytes.one_in(2).then(|| TokenUsage {
        input_tokens: u32::MAX / 2,
        output_tokens: 3,
        cache_read_tokens: Some(u32::MAX / 2),
        ..TokenUsage::default()
    });
    answer
}

fn outcome(bytes: &mut Bytes<'_>) -> ToolOutcome {
    let (status, result) = match bytes.below(4) {
        0 => (ToolStatus::Error, ToolResult::failure("", "broken")),
        1 => (ToolStatus::Success, ToolResult::success("", Value::Null)),
        _ => (ToolStatus::Success, ToolResult::success("", "done")),
    };
    let wait = match bytes.below(6) {
        4 => Some(RequiredWait::Connection {
            provider: "mail".to_owned(),
        }),
        5 => Some(RequiredWait::UserInput {
            prompt: json!("sure?"),
        }),
        _ => None,
    };
    ToolOutcome {
        status,
        result,
        duration_ms: None,
        wait,
        refused: false,
    }
}
