//! Plays inputs generated from random bytes and records the events.

mod backend;

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::json;
use uuid::Uuid;
use windlass_core::events::{Event, EventData, TokenUsage, ToolOutputDeltaData, ToolStatus};
use windlass_core::message::InputMessage;
use windlass_core::tools::{SideEffectClass, ToolCall, ToolPolicy, ToolResult};
use windlass_core::typed_id::{ExecId, SessionId};
use windlass_turn::{
    Answer, Approval, Call, CallState, CompactionPlan, Decision, DecisionContext, FailureDetails,
    Input, OnBusy, Phase, Rejected, RequestedCall, RequiredWait, Thread, ToolOutcome, ToolSpec,
    TurnPlan, UnflushedText, derive,
};

const TOOLS: [&str; 5] = ["once", "pure", "serial", "ask", "client"];

struct EventPlayer<'a> {
    plan: TurnPlan,
    thread: Thread,
    events: Vec<Arc<Event>>,
    now: DateTime<Utc>,
    moments: u64,
    bytes: std::slice::Iter<'a, u8>,
}

/// Plays the inputs encoded by a seed's bytes, then ends any open turns.
pub(crate) fn play(seed: u64) -> Vec<Arc<Event>> {
    let base = derive(Uuid::nil(), seed);
    let chunks = (0..seed % 20).map(|n| derive(base, n).as_u128().to_le_bytes());
    // The first half of a derived id is its random part.
    let bytes: Vec<u8> = chunks.flat_map(|chunk| chunk.into_iter().take(7)).collect();
    let mut player = EventPlayer {
        plan: TurnPlan {
            backend: backend::plan(seed),
            compaction: seed.is_multiple_of(3).then_some(CompactionPlan {
                window_tokens: 300,
                reserve_tokens: 100,
                keep_recent_tokens: seed % 50,
                prompt_tokens: 10,
            }),
            ..plan()
        },
        thread: Thread::new(SessionId::from_seed(1)),
        events: Vec::new(),
        now: DateTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
        moments: 0,
        bytes: bytes.iter(),
    };
    while !player.bytes.as_slice().is_empty() {
        player.step();
    }
    player.settle();
    player.events
}

fn plan() -> TurnPlan {
    let spec = |name: &str| ToolSpec {
        policy: match name {
            "ask" => ToolPolicy::RequiresApproval,
            "client" => ToolPolicy::ClientSide,
            _ => ToolPolicy::Auto,
        },
        side_effects: match name {
            "pure" => SideEffectClass::Pure,
            _ => SideEffectClass::AtMostOnce,
        },
        concurrency_class: (name == "serial").then(|| "k".to_owned()),
        ..ToolSpec::default()
    };
    TurnPlan {
        model: "model".to_owned(),
        max_iterations: 5,
        tools: Arc::new(
            TOOLS
                .iter()
                .map(|name| ((*name).to_owned(), spec(name)))
                .collect(),
        ),
        max_parallel_calls: 2,
        turn_timeout: Some(Duration::from_secs(60)),
        wait_timeout: Some(Duration::from_secs(5)),
        ..TurnPlan::default()
    }
}

impl EventPlayer<'_> {
    fn below(&mut self, n: usize) -> usize {
        self.bytes.next().map_or(0, |byte| usize::from(*byte) % n)
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == n - 1
    }

    fn step(&mut self) {
        if self.has_backend() && !self.one_in(4) {
            self.play_backend();
            return self.begin();
        }
        match self.below(14) {
            0 | 1 => self.say(),
            2..=4 => self.finish_model(),
            5 => self.stream(),
            6 | 7 => self.finish_tool(),
            8 => self.answer_call(),
            9 => self.decide_approval(),
            10 => self.emit(),
            11 => {
                let seconds = [1, 6, 61][self.below(3)];
                self.now += Duration::from_secs(seconds);
                self.try_input(Input::Timer, None);
            }
            12 => {
                let id = self.thread.session_id();
                let folded = Thread::fold(id, self.events.iter().map(AsRef::as_ref));
                self.thread = folded.unwrap_or_else(|invalid| panic!("{invalid}"));
                self.try_input(Input::Recover, None);
            }
            _ => self.interrupt(),
        }
        self.begin();
    }

    fn say(&mut self) {
        const POLICIES: [OnBusy; 3] = [OnBusy::Steer, OnBusy::Queue, OnBusy::Interrupt];
        let input = Input::Submit {
            message: InputMessage::user("hello"),
            on_busy: POLICIES[self.below(3)],
            timeout: None,
            turn_id: None,
        };
        let tail = self.tail();
        self.try_input(input, Some(&tail));
    }

    fn begin(&mut self) {
        if let (None, Some(next)) = (self.thread.turn(), self.thread.queue().front()) {
            let turn_id = next.turn_id;
            let failure = self.one_in(8).then(failure);
            self.try_input(Input::Begin { turn_id, failure }, None);
        }
    }

    fn finish_model(&mut self) {
        let Some((exec_id, streamed)) = self.model() else {
            return;
        };
        let tail = self.tail();
        let input = if self.one_in(6) {
            Input::ModelFailed {
                exec_id,
                failure: failure(),
                metadata: Box::default(),
            }
        } else {
            let mut answer = Answer {
                text: streamed + &tail.text + ["", "whole"][self.below(2)],
                thinking: self.one_in(3).then(|| "hm".to_owned()),
                ..Answer::default()
            };
            for n in 0..self.below(4) {
                let call = ToolCall {
                    id: format!("c{n}"),
                    name: TOOLS[self.below(TOOLS.len())].to_owned(),
                    arguments: json!({ "n": n }),
                };
                let refusal = self.one_in(8).then(|| "no such tool".to_owned());
                answer.calls.push(RequestedCall { call, refusal });
            }
            answer.metadata.usage = self.one_in(4).then(|| TokenUsage {
                input_tokens: 250,
                ..TokenUsage::default()
            });
            answer.metadata.provider = self.one_in(2).then(|| "provider".to_owned());
            let answer = Box::new(answer);
            Input::ModelFinished { exec_id, answer }
        };
        self.try_input(input, Some(&tail));
    }

    fn stream(&mut self) {
        if let Some((exec_id, _)) = self.model() {
            let tail = self.tail();
            let chunk = self.at_a_moment(Some(&tail), |thread, ctx| thread.chunk(exec_id, ctx));
            self.take(chunk);
        }
    }

    fn finish_tool(&mut self) {
        let Some(exec_id) = self.pick(|state| matches!(state, CallState::Running { .. })) else {
            return;
        };
        let (status, result) = if self.one_in(3) {
            (ToolStatus::Error, ToolResult::failure("", "broken"))
        } else {
            (ToolStatus::Success, ToolResult::success("", "done"))
        };
        let wait = match self.below(5) {
            3 => Some(RequiredWait::Connection {
                provider: "mail".to_owned(),
            }),
            4 => Some(RequiredWait::UserInput {
                prompt: json!("sure?"),
            }),
            _ => None,
        };
        let outcome = Box::new(ToolOutcome {
            status,
            result,
            duration_ms: None,
            wait,
            refused: false,
        });
        self.try_input(Input::ToolFinished { exec_id, outcome }, None);
    }

    fn answer_call(&mut self) {
        if let Some(exec_id) = self.pick(|state| matches!(state, CallState::AwaitingResult { .. }))
        {
            let results = vec![ToolResult::success(exec_id.to_string(), 1)];
            self.try_input(Input::ToolResults { results }, None);
        } else if let Some(exec_id) =
            self.pick(|state| matches!(state, CallState::AwaitingAnswer { .. }))
        {
            let request = format!("input_{}", exec_id.uuid().as_simple());
            let answer = json!("secret");
            self.try_input(Input::UserAnswer { request, answer }, None);
        }
    }

    fn decide_approval(&mut self) {
        if let Some(exec_id) =
            self.pick(|state| matches!(state, CallState::AwaitingApproval { .. }))
        {
            let input = Input::Approval {
                call: exec_id.to_string(),
                approval: match self.below(5) {
                    0 | 1 => Approval::Deny { reason: None },
                    2 => Approval::Turn,
                    3 => Approval::Project,
                    _ => Approval::Once,
                },
            };
            self.try_input(input, None);
        }
    }

    fn emit(&mut self) {
        if let Some(exec_id) = self.pick(|state| matches!(state, CallState::Running { .. })) {
            let data = EventData::from(ToolOutputDeltaData {
                tool_call_id: "c0".to_owned(),
                tool_name: "once".to_owned(),
                delta: "out".to_owned(),
                stream: "stdout".to_owned(),
            });
            self.try_input(Input::Emit { exec_id, data }, None);
        }
    }

    /// Stops the running turn, or one that waits in the queue.
    fn interrupt(&mut self) {
        let queued = self.thread.queue().back().map(|queued| queued.turn_id);
        let turn_id = queued.filter(|_| self.one_in(2));
        let tail = self.tail();
        let reason = None;
        self.try_input(Input::Interrupt { turn_id, reason }, Some(&tail));
    }

    fn settle(&mut self) {
        while self.thread.turn().is_some() || !self.thread.queue().is_empty() {
            self.begin();
            let (turn_id, reason) = (None, None);
            self.try_input(Input::Interrupt { turn_id, reason }, None);
        }
    }

    fn tail(&mut self) -> UnflushedText {
        UnflushedText {
            text: ["", "te", "xt"][self.below(3)].to_owned(),
            thinking: ["", "", "hm"][self.below(3)].to_owned(),
        }
    }

    fn model(&self) -> Option<(ExecId, String)> {
        match &self.thread.turn()?.phase {
            Phase::Reasoning(reason) => Some((reason.exec_id, reason.text.joined())),
            Phase::Compacting(compaction) => Some((compaction.exec_id, String::new())),
            Phase::Between | Phase::Acting(_) => None,
            Phase::Backend(_) | Phase::Limited(_) => None,
        }
    }

    fn pick(&self, wanted: impl Fn(&CallState) -> bool) -> Option<ExecId> {
        let mut calls = self.thread.turn()?.calls().iter();
        let found = calls.find(|call: &&Call| wanted(&call.state));
        found.map(|call| call.exec_id)
    }

    fn try_input(&mut self, input: Input, tail: Option<&UnflushedText>) {
        let decision = self.at_a_moment(tail, |thread, ctx| thread.decide(input, ctx));
        self.take(decision);
    }

    fn at_a_moment<T>(
        &mut self,
        tail: Option<&UnflushedText>,
        f: impl FnOnce(&Thread, &DecisionContext<'_>) -> T,
    ) -> T {
        self.moments += 1;
        let ctx = DecisionContext {
            now: self.now,
            uuid: derive(Uuid::from_u128(0x0190 << 112), self.moments),
            plan: &self.plan,
            tail,
            mask: None,
        };
        f(&self.thread, &ctx)
    }

    /// A rejected input leaves no trace.
    fn take(&mut self, decision: Result<Decision, Rejected>) {
        if let Err(Rejected::InvalidEvent(invalid)) = &decision {
            panic!("{invalid}");
        }
        if let Ok(decision) = decision {
            self.events.extend(decision.events.iter().cloned());
            self.thread.commit(decision);
            self.now += Duration::from_millis(1);
        }
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
