//! A thread, the inputs it received, and a short description of the results.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use uuid::Uuid;
use windlass_core::backend::SessionChoice;
use windlass_core::events::{
    CustomData, Decision as Verdict, Event, EventData, SessionUpdatedData, TokenUsage, ToolStatus,
};
use windlass_core::message::{ContentPart, InputMessage, Message, MessageRole};
use windlass_core::tools::{SideEffectClass, ToolCall, ToolPolicy, ToolResult};
use windlass_core::typed_id::{ExecId, MessageId, SessionId, TurnId};
use windlass_turn::{
    Answer, Approval, Command, Decision, DecisionContext, FailureDetails, Input, OnBusy, Phase,
    QueueEdit, Rejected, RequestedCall, RequiredWait, Thread, ToolOutcome, ToolSpec, TurnPlan,
    UnflushedText, derive,
};

/// An action on a thread. Calls are named by the provider's id; `#id` names the step of that call.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ThreadAction {
    Say(&'static str),
    SayIf(&'static str, OnBusy),
    Steer(&'static str),
    /// A client requests a compaction; the model answers with the summary.
    Compact,
    Begin,
    BeginFails,
    /// The model answers with a text and calls, each an id and a tool.
    Model(&'static str, &'static [(&'static str, &'static str)]),
    /// The model asks for a call that cannot run.
    ModelRefused(&'static str, &'static str),
    /// The model answers with a text that does not match the turn's schema.
    Mismatch(&'static str),
    /// Streamed text goes into the journal.
    Streams(&'static str),
    Thinks(&'static str),
    ModelFails,
    Done(&'static str),
    /// A call turns out to need an account, or an answer.
    Connects(&'static str),
    Asks(&'static str),
    /// An external client returns the results of calls, each an ID and a value.
    Results(&'static [(&'static str, i64)]),
    Allow(&'static str),
    /// The user approves a call and all later ones of the turn.
    AllowRest(&'static str),
    /// The user approves a call for the project.
    AllowInProject(&'static str),
    Deny(&'static str),
    /// The user answers the question of a call.
    Replies(&'static str, &'static str),
    Interrupt,
    /// Stops the last input in the queue.
    CancelQueued,
    /// Changes the text of the nth queued input, from 0.
    EditQueued(usize, &'static str),
    /// Moves the nth queued input to an index.
    MoveQueued(usize, usize),
    /// Removes the nth queued input.
    RemoveQueued(usize),
    /// Text that is not in the journal yet, when the step after it comes.
    UnflushedText(&'static str),
    Emit(&'static str),
    EmitForbidden(&'static str),
    /// Time passes, and the timer fires.
    After(u64),
    /// A message whose turn has a timeout in seconds.
    SayWithin(&'static str, u64),
    /// An external client reports that a call failed.
    ResultFails(&'static str),
    /// The model answers and used so many tokens.
    ModelUsing(&'static [(&'static str, &'static str)], u32),
    /// The model answers to a request in which the provider counted so many tokens.
    ModelRead(&'static [(&'static str, &'static str)], u32),
    /// The process dies and another one resumes.
    Crash,
    /// The process dies, and another one resumes after this many seconds.
    Down(u64),
    /// The process stops in order.
    Release,
    /// The process shuts down in order and another one resumes.
    Restart,
    /// Rewinds to the end of the nth turn, from 0.
    Rewind(usize),
    ImportUser(&'static str),
    ImportAgent(&'static str, &'static [(&'static str, &'static str)]),
    ImportResult(&'static str),
}

pub(crate) struct World {
    pub(crate) plan: TurnPlan,
    pub(crate) thread: Thread,
    pub(crate) events: Vec<Arc<Event>>,
    /// How many decisions had events.
    pub(crate) commits: usize,
    now: DateTime<Utc>,
    moments: u64,
    tail: Option<UnflushedText>,
    models: Vec<ExecId>,
    calls: HashMap<String, ExecId>,
    names: HashMap<ExecId, String>,
    stale: Option<ExecId>,
}

/// A plan with one tool of each kind.
pub(crate) fn plan() -> TurnPlan {
    let tool = |policy, side_effects, class: Option<&str>| ToolSpec {
        policy,
        side_effects,
        concurrency_class: class.map(str::to_owned),
        ..ToolSpec::default()
    };
    use SideEffectClass::{AtMostOnce, Idempotent, Pure};
    use ToolPolicy::{Auto, ClientSide, RequiresApproval};
    let tools = [
        ("once", tool(Auto, AtMostOnce, None)),
        ("pure", tool(Auto, Pure, None)),
        ("same", tool(Auto, Idempotent, None)),
        ("serial", tool(Auto, AtMostOnce, Some("k"))),
        ("ask", tool(RequiresApproval, AtMostOnce, None)),
        ("client", tool(ClientSide, AtMostOnce, None)),
    ];
    TurnPlan {
        model: "model".to_owned(),
        tools: Arc::new(
            tools
                .into_iter()
                .map(|(name, spec)| (name.to_owned(), spec))
                .collect(),
        ),
        ..TurnPlan::default()
    }
}

/// Says what one step leads to: the types of its events, then `=>` and its commands; or `!` and why it is refused.
pub(crate) fn check(plan: TurnPlan, given: &[ThreadAction], when: ThreadAction, then: &[&str]) {
    let mut world = World::after(plan, given);
    assert_eq!(world.play(when), then, "given {given:?}, when {when:?}");
}

/// Checks the conversation after some steps.
pub(crate) fn transcript(plan: TurnPlan, given: &[ThreadAction], then: &[&str]) {
    let world = World::after(plan, given);
    assert_eq!(world.transcript(), then, "given {given:?}");
}

impl World {
    pub(crate) fn new(plan: TurnPlan) -> Self {
        Self {
            plan,
            thread: Thread::new(SessionId::from_seed(1)),
            events: Vec::new(),
            commits: 0,
            now: DateTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000),
            moments: 0,
            tail: None,
            models: Vec::new(),
            calls: HashMap::new(),
            names: HashMap::new(),
            stale: None,
        }
    }

    /// Plays steps that must all be taken.
    pub(crate) fn after(plan: TurnPlan, given: &[ThreadAction]) -> Self {
        let mut world = Self::new(plan);
        for step in given {
            let said = world.play(*step);
            let refused = said.first().is_some_and(|word| word.starts_with('!'));
            assert!(!refused, "{step:?} is refused: {said:?}");
        }
        world
    }

    /// Plays a step and returns the result.
    pub(crate) fn play(&mut self, step: ThreadAction) -> Vec<String> {
        if let ThreadAction::UnflushedText(text) = step {
            self.tail = Some(UnflushedText {
                text: text.to_owned(),
                thinking: String::new(),
            });
            return Vec::new();
        }
        let decision = match step {
            ThreadAction::Streams(text) => self.chunk(text, ""),
            ThreadAction::Thinks(thinking) => self.chunk("", thinking),
            ThreadAction::Restart => {
                let released = self.play(ThreadAction::Release).into_iter();
                return released.chain(self.play(ThreadAction::Crash)).collect();
            }
            ThreadAction::Down(seconds) => {
                self.now += Duration::from_secs(seconds);
                return self.play(ThreadAction::Crash);
            }
            ThreadAction::Crash => {
                let id = self.thread.session_id();
                let folded = Thread::fold(id, self.events.iter().map(AsRef::as_ref));
                self.thread = folded.unwrap_or_else(|invalid| panic!("{invalid}"));
                self.decide(Input::Recover)
            }
            step => {
                let input = self.input(step);
                self.decide(input)
            }
        };
        match decision {
            Ok(decision) => self.take(decision),
            Err(rejected) => vec![refusal(&rejected)],
        }
    }

    pub(crate) fn decide(&mut self, input: Input) -> Result<Decision, Rejected> {
        let tail = self.tail.take();
        self.at_a_moment(tail, |thread, ctx| thread.decide(input, ctx))
    }

    fn chunk(&mut self, text: &str, thinking: &str) -> Result<Decision, Rejected> {
        let (text, thinking) = (text.to_owned(), thinking.to_owned());
        let exec_id = self.model();
        self.at_a_moment(Some(UnflushedText { text, thinking }), |thread, ctx| {
            thread.chunk(exec_id, ctx)
        })
    }

    fn at_a_moment<T>(
        &mut self,
        tail: Option<UnflushedText>,
        f: impl FnOnce(&Thread, &DecisionContext<'_>) -> T,
    ) -> T {
        let uuid = self.fresh();
        let ctx = DecisionContext {
            now: self.now,
            uuid,
            plan: &self.plan,
            tail: tail.as_ref(),
            mask: None,
        };
        f(&self.thread, &ctx)
    }

    fn fresh(&mut self) -> Uuid {
        self.moments += 1;
        derive(Uuid::from_u128(0x0190 << 112), self.moments)
    }

    pub(crate) fn take(&mut self, decision: Decision) -> Vec<String> {
        let events = decision.events.clone();
        let commands = decision.commands.clone();
        self.commits += usize::from(!events.is_empty());
        self.thread.commit(decision);
        self.events.extend(events.iter().cloned());
        self.learn();
        let types = events.iter().map(|event| event.event_type.clone());
        types
            .chain(commands.iter().map(|command| self.describe(command)))
            .collect()
    }

    fn learn(&mut self) {
        let Some(turn) = self.thread.turn() else {
            return;
        };
        match &turn.phase {
            Phase::Reasoning(reason) => {
                if self.models.last() != Some(&reason.exec_id) {
                    self.models.push(reason.exec_id);
                    self.names.insert(reason.exec_id, "model".to_owned());
                }
            }
            Phase::Acting(act) => {
                for call in &act.calls {
                    self.calls.insert(call.call.id.clone(), call.exec_id);
                    self.names.insert(call.exec_id, call.call.id.clone());
                }
            }
            Phase::Compacting(compaction) => {
                if self.models.last() != Some(&compaction.exec_id) {
                    self.models.push(compaction.exec_id);
                    self.names.insert(compaction.exec_id, "summary".to_owned());
                }
            }
            Phase::Backend(run) => {
                self.names.insert(run.exec_id, "backend".to_owned());
                for call in &run.calls {
                    self.calls.insert(call.call.id.clone(), call.exec_id);
                }
            }
            Phase::Between | Phase::Limited(_) => {}
        }
    }

    fn describe(&self, command: &Command) -> String {
        let name = command
            .exec_id()
            .and_then(|id| self.names.get(&id).cloned())
            .unwrap_or_default();
        match command {
            Command::CallModel { .. } => "=> model".to_owned(),
            Command::Summarise { .. } => "=> summarise".to_owned(),
            Command::RunTool { .. } => format!("=> run {name}"),
            Command::RunBackend { session, .. } => {
                let Some(run) = self.thread.turn().and_then(|turn| turn.run()) else {
                    unreachable!("the command has a run")
                };
                let prompt = run.prompt;
                let session = match session {
                    SessionChoice::New { .. } => "new".to_owned(),
                    SessionChoice::Resume { id } => format!("resume {id}"),
                };
                format!("=> backend {session} {prompt:?}")
            }
            Command::AnswerBackend {
                request_id,
                decision,
                ..
            } => format!("=> answer {request_id} {decision:?}"),
            Command::SteerBackend { text, .. } => format!("=> steer {text}"),
            Command::Stop { .. } => format!("=> stop {name}"),
            Command::Prepare { .. } => "=> prepare".to_owned(),
        }
    }

    /// The commands that the thread wants to run now.
    pub(crate) fn pending(&self) -> Vec<String> {
        let pending = self.thread.pending_commands();
        pending
            .iter()
            .map(|command| self.describe(command))
            .collect()
    }

    /// The newest model step, or the one that was remembered as stale.
    pub(crate) fn model(&self) -> ExecId {
        let newest = self.models.last().copied();
        let Some(exec_id) = self.stale.or(newest) else {
            panic!("no model call was made")
        };
        exec_id
    }

    /// From here on, results are those of the model step that runs now.
    pub(crate) fn remember_model(&mut self) {
        self.stale = self.models.last().copied();
    }

    pub(crate) fn exec(&self, call: &str) -> ExecId {
        self.calls[call]
    }

    fn name(&self, call: &str) -> String {
        match call.strip_prefix('#') {
            Some(call) => self.exec(call).to_string(),
            None => call.to_owned(),
        }
    }

    /// The newest event of a type.
    pub(crate) fn last(&self, event_type: &str) -> &EventData {
        let mut newest_first = self.events.iter().rev();
        let found = newest_first.find(|event| event.event_type == event_type);
        let Some(event) = found else {
            panic!("there is no {event_type}")
        };
        &event.data
    }

    pub(crate) fn count(&self, event_type: &str) -> usize {
        let found = self
            .events
            .iter()
            .filter(|event| event.event_type == event_type);
        found.count()
    }

    pub(crate) fn transcript(&self) -> Vec<String> {
        self.thread.history().iter().map(|m| line(m)).collect()
    }

    /// The context that the model would read.
    pub(crate) fn context(&self) -> Vec<String> {
        self.thread.context().iter().map(|m| line(m)).collect()
    }

    fn input(&mut self, step: ThreadAction) -> Input {
        let submit = |text: &str, on_busy| Input::Submit {
            message: InputMessage::user(text),
            on_busy,
            timeout: None,
            turn_id: None,
        };
        match step {
            ThreadAction::Say(text) => submit(text, OnBusy::Queue),
            ThreadAction::SayIf(text, on_busy) => submit(text, on_busy),
            ThreadAction::SayWithin(text, seconds) => Input::Submit {
                message: InputMessage::user(text),
                on_busy: OnBusy::Queue,
                timeout: Some(Duration::from_secs(seconds)),
                turn_id: None,
            },
            ThreadAction::Compact => Input::Compact {
                message: InputMessage::user("it is long"),
                turn_id: None,
            },
            ThreadAction::Steer(text) => Input::Steer {
                turn_id: None,
                message: InputMessage::user(text),
            },
            ThreadAction::Begin | ThreadAction::BeginFails => {
                let front = self.thread.queue().front();
                Input::Begin {
                    turn_id: front.map_or(TurnId::from_seed(0), |next| next.turn_id),
                    failure: matches!(step, ThreadAction::BeginFails).then(failure),
                }
            }
            ThreadAction::Model(text, calls) => self.answer(text, calls, None),
            ThreadAction::Mismatch(text) => {
                let mut input = self.answer(text, &[], None);
                if let Input::ModelFinished { answer, .. } = &mut input {
                    answer.mismatch = vec!["/a: it is wrong".to_owned()];
                }
                input
            }
            ThreadAction::ModelRefused(id, tool) => {
                self.answer("", &[(id, tool)], Some("no such tool"))
            }
            ThreadAction::ModelUsing(calls, tokens) => {
                let mut input = self.answer("hello", calls, None);
                if let Input::ModelFinished { answer, .. } = &mut input {
                    answer.metadata.usage = Some(TokenUsage {
                        output_tokens: tokens,
                        ..TokenUsage::default()
                    });
                }
                input
            }
            ThreadAction::ModelRead(calls, tokens) => {
                let mut input = self.answer("hello", calls, None);
                if let Input::ModelFinished { answer, .. } = &mut input {
                    answer.metadata.usage = Some(TokenUsage {
                        input_tokens: tokens,
                        ..TokenUsage::default()
                    });
                }
                input
            }
            ThreadAction::ResultFails(call) => {
                let failed = ToolResult {
                    tool_call_id: self.name(call),
                    error: Some("broken".to_owned()),
                    ..ToolResult::default()
                };
                Input::ToolResults {
                    results: vec![failed],
                }
            }
            ThreadAction::ModelFails => Input::ModelFailed {
                exec_id: self.model(),
                failure: failure(),
                metadata: Box::default(),
            },
            ThreadAction::Done(call) => self.finish(call, None),
            ThreadAction::Connects(call) => {
                let provider = "mail".to_owned();
                self.finish(call, Some(RequiredWait::Connection { provider }))
            }
            ThreadAction::Asks(call) => {
                let prompt = json!("sure?");
                self.finish(call, Some(RequiredWait::UserInput { prompt }))
            }
            ThreadAction::Results(results) => {
                let results = results.iter();
                let results = results.map(|(call, n)| ToolResult::success(self.name(call), *n));
                Input::ToolResults {
                    results: results.collect(),
                }
            }
            ThreadAction::Allow(call) => self.verdict(call, Verdict::Allow),
            ThreadAction::AllowRest(call) => Input::Approval {
                call: self.name(call),
                approval: Approval::Turn,
            },
            ThreadAction::AllowInProject(call) => Input::Approval {
                call: self.name(call),
                approval: Approval::Project,
            },
            ThreadAction::Deny(call) => self.verdict(call, Verdict::Deny),
            ThreadAction::Replies(call, answer) => Input::UserAnswer {
                request: format!("input_{}", self.exec(call).uuid().as_simple()),
                answer: json!(answer),
            },
            ThreadAction::Interrupt => Input::Interrupt {
                turn_id: None,
                reason: None,
            },
            ThreadAction::CancelQueued => Input::Interrupt {
                turn_id: self.thread.queue().back().map(|queued| queued.turn_id),
                reason: None,
            },
            ThreadAction::EditQueued(n, text) => Input::EditQueued {
                turn_id: self.queued(n),
                edit: QueueEdit {
                    content: Some(vec![ContentPart::text(text)]),
                    position: None,
                },
            },
            ThreadAction::MoveQueued(n, to) => Input::EditQueued {
                turn_id: self.queued(n),
                edit: QueueEdit {
                    content: None,
                    position: Some(to),
                },
            },
            ThreadAction::RemoveQueued(n) => Input::RemoveQueued {
                turn_id: self.queued(n),
                reason: None,
            },
            ThreadAction::Emit(call) => Input::Emit {
                exec_id: self.exec(call),
                data: EventData::Custom(CustomData {
                    name: "own".to_owned(),
                    payload: Value::Null,
                }),
            },
            ThreadAction::EmitForbidden(call) => Input::Emit {
                exec_id: self.exec(call),
                data: EventData::from(SessionUpdatedData {
                    title: None,
                    record: None,
                    changed_fields: None,
                }),
            },
            ThreadAction::After(seconds) => {
                self.now += Duration::from_secs(seconds);
                Input::Timer
            }
            ThreadAction::Release => Input::Release,
            ThreadAction::Rewind(n) => Input::Rewind {
                turn_id: self.turn_id(n),
            },
            ThreadAction::ImportUser(text) => {
                self.import(MessageRole::User, vec![ContentPart::text(text)])
            }
            ThreadAction::ImportAgent(text, calls) => {
                let calls = calls.iter().map(|(id, tool)| call(id, tool)).collect();
                let message = Message::assistant_with_tools(text, calls);
                self.import(MessageRole::Agent, message.content)
            }
            ThreadAction::ImportResult(id) => {
                let message = Message::tool_result(id, Some(json!(1)), None);
                self.import(MessageRole::ToolResult, message.content)
            }
            ThreadAction::Streams(_)
            | ThreadAction::Thinks(_)
            | ThreadAction::UnflushedText(_)
            | ThreadAction::Crash
            | ThreadAction::Down(_)
            | ThreadAction::Restart => {
                unreachable!("{step:?} is no input")
            }
        }
    }

    /// The turn of the nth queued input; the running or last turn if there is no such input.
    fn queued(&self, n: usize) -> TurnId {
        let queued = self.thread.queue().get(n).map(|queued| queued.turn_id);
        queued.unwrap_or_else(|| self.turn_id(0))
    }

    /// The nth turn that was ever started, or one that never was.
    fn turn_id(&self, n: usize) -> TurnId {
        let started = self.events.iter().filter_map(|event| match &event.data {
            EventData::TurnStarted(data) => Some(data.turn_id),
            _ => None,
        });
        started.clone().nth(n).unwrap_or(TurnId::from_seed(0))
    }

    fn import(&mut self, role: MessageRole, content: Vec<ContentPart>) -> Input {
        let id = MessageId::from_uuid(self.fresh());
        Input::Import {
            message: Message::from_parts(id, role, content, self.now),
        }
    }

    fn answer(&self, text: &str, calls: &[(&str, &str)], refusal: Option<&str>) -> Input {
        let calls = calls.iter().map(|(id, tool)| RequestedCall {
            call: call(id, tool),
            refusal: refusal.map(str::to_owned),
        });
        Input::ModelFinished {
            exec_id: self.model(),
            answer: Box::new(Answer {
                text: text.to_owned(),
                calls: calls.collect(),
                ..Answer::default()
            }),
        }
    }

    fn finish(&self, call: &str, wait: Option<RequiredWait>) -> Input {
        Input::ToolFinished {
            exec_id: self.exec(call),
            outcome: Box::new(ToolOutcome {
                status: ToolStatus::Success,
                result: ToolResult::success(call, "done"),
                duration_ms: None,
                wait,
                refused: false,
            }),
        }
    }

    fn verdict(&self, call: &str, decision: Verdict) -> Input {
        Input::Approval {
            call: self.name(call),
            approval: match decision {
                Verdict::Allow => Approval::Once,
                Verdict::Deny => Approval::Deny { reason: None },
            },
        }
    }
}

fn call(id: &str, tool: &str) -> ToolCall {
    ToolCall {
        id: id.to_owned(),
        name: tool.to_owned(),
        arguments: json!({}),
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

fn refusal(rejected: &Rejected) -> String {
    match rejected {
        Rejected::Stale(_) => "! stale".to_owned(),
        Rejected::Busy(_) => "! busy".to_owned(),
        Rejected::Waiting { waiting_for, .. } => format!("! waiting for {waiting_for}"),
        Rejected::UnknownTurn(_) => "! unknown turn".to_owned(),
        Rejected::NotQueued(_) => "! not queued".to_owned(),
        Rejected::NoTurn => "! no turn".to_owned(),
        Rejected::NoPendingCall { reason, .. } => format!("! {reason}"),
        Rejected::Quota(quota) => format!("! at most {} {}", quota.limit, quota.what),
        Rejected::NotEmittable(kind) => format!("! not emittable: {kind}"),
        Rejected::NotImportable(reason) => format!("! {reason}"),
        Rejected::Unusable(reason) => format!("! {reason}"),
        Rejected::InvalidEvent(invalid) => format!("! {invalid}"),
    }
}

/// A message in one line: author, text, the calls in brackets, the marks in parentheses.
fn line(message: &Message) -> String {
    let mut line = message.role.to_string();
    if let Some(text) = message.text() {
        line += &format!(" {text}");
    }
    for call in message.tool_calls() {
        line += &format!(" [{}]", call.id);
    }
    if let Some(result) = message.tool_result_content() {
        let value = result.result.clone().unwrap_or_default();
        let value = result.error.clone().unwrap_or_else(|| value.to_string());
        line += &format!(" {}: {value}", result.tool_call_id);
    }
    if message.is_error() {
        line += " (error)";
    }
    if message.is_error_report() {
        line += " (report)";
    }
    line
}
