//! Interactive threads at the terminal, and the turns that the user watches.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use windlass_protocol::operations::{ApprovalPath, InputPath, TurnPath};
use windlass_protocol::{
    ApprovalDecision, Call, CallError, CreateThread, DecideApproval, ErrorCode, EventPayload, Mode,
    RememberFor, RuntimeApi, RuntimeEventEnvelope, StartTurn, Status, Thread, ThreadDetail, Turn,
    TurnEnvironmentParams, UserAnswer, UserInputAnswers,
};

use crate::calls;
use crate::cli::is_read_out;
use crate::connect::{DaemonConnection, explained};
use crate::follow::{self, Follower, Next};
use crate::ids::{LOOKED_THROUGH, by_end};
use crate::terminal::{
    Answer, Asked, Colour, FRAME, Hush, InputQuestion, Questions, Screen, ToolCall, TypedAhead,
    asked, decision,
};

/// The tool that asks the user questions. It is disabled if there is no user to answer.
pub(crate) const ASKING_TOOL: &str = "request_user_input";
/// The answer to such a question if there is no user.
const NOBODY: &str =
    "Nobody is here to answer. Decide by yourself, or end and say what is to be decided.";

/// The notice for a thread whose calls need no approval.
const EVERYTHING_IS_ALLOWED: &str =
    "everything is allowed in this thread without asking, commands too";

/// An interactive thread.
pub(crate) struct ThreadSession {
    daemon: Arc<DaemonConnection>,
    pub(crate) thread: Thread,
    /// The tools' working directory, for showing the changes that they propose.
    cwd: PathBuf,
    pub(crate) approvals: Approvals,
    /// The options of each turn, such as its own model; the prompt is empty.
    pub(crate) of_turns: StartTurn,
    /// The thread with its last turn before it was resumed, if an earlier process left that turn open.
    before: Option<Box<ThreadDetail>>,
}

/// How calls that change something are approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approvals {
    /// All calls are allowed.
    All,
    /// The user at the terminal decides.
    Ask,
    /// There is no user, so all calls are denied.
    Refuse,
}

impl Approvals {
    /// Asks the user, if there is one.
    pub(crate) fn here(is_all: bool) -> Self {
        match is_all {
            true => Self::All,
            false if is_somebody_here() => Self::Ask,
            false => Self::Refuse,
        }
    }

    /// Returns whether there is a user who can answer the questions of a tool.
    fn has_person(self) -> bool {
        match self {
            Self::All => is_somebody_here(),
            Self::Ask => true,
            Self::Refuse => false,
        }
    }
}

fn is_somebody_here() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

fn open_turn(detail: &ThreadDetail) -> Option<&Turn> {
    let last = detail.turns.last();
    last.filter(|turn| matches!(turn.status, Status::InProgress | Status::Queued))
}

/// How watching a turn ended.
pub(crate) enum Ended {
    Turn(Box<Turn>),
    /// The user left. The turn continues when its thread is resumed, unless it was interrupted.
    Left {
        is_interrupted: bool,
    },
}

impl ThreadSession {
    /// Creates a thread that works in `cwd`.
    pub(crate) async fn begin(
        daemon: &Arc<DaemonConnection>,
        cwd: &Path,
        mut request: CreateThread,
        approvals: Approvals,
    ) -> Result<Self> {
        let environment = daemon.environment(cwd).await?;
        let cwd = cwd.canonicalize()?;
        request.environments = Some(vec![in_environment(environment, &cwd)]);
        let thread = daemon.api().create_thread(Call::new((), request)).await;
        Ok(Self {
            daemon: Arc::clone(daemon),
            thread: thread.map_err(explained)?,
            cwd,
            approvals,
            of_turns: StartTurn::default(),
            before: None,
        })
    }

    /// Resumes a thread.
    pub(crate) async fn resume(
        daemon: &Arc<DaemonConnection>,
        id: &str,
        approvals: Approvals,
    ) -> Result<Self> {
        // Read before the resume: a resumed turn may end immediately, and the caller must see that.
        let api = daemon.api();
        let before = calls::newest_turns(&*api, id, 1).await.map_err(explained)?;
        let thread = calls::resume(&*api, id).await.map_err(explained)?;
        Ok(Self {
            daemon: Arc::clone(daemon),
            cwd: PathBuf::from(&thread.workspace),
            thread,
            approvals,
            of_turns: StartTurn::default(),
            before: open_turn(&before).is_some().then(|| Box::new(before)),
        })
    }

    /// Shows a notice if the thread allows all calls, from its creation or since the user answered "always".
    pub(crate) fn tell_allowed(&self, screen: &mut Screen) -> io::Result<()> {
        let is_all = self.thread.auto_approve || self.thread.mode == Mode::Yolo;
        if is_all {
            screen.tell(Colour::Asked, EVERYTHING_IS_ALLOWED)
        } else {
            Ok(())
        }
    }

    /// Returns the turn that an earlier process left open, if there is one.
    pub(crate) async fn left_open(&self) -> Result<Option<TurnView<'_>>> {
        let Some(detail) = self.before.as_deref() else {
            return Ok(None);
        };
        let Some(turn) = open_turn(detail) else {
            return Ok(None);
        };
        let mut questions = Questions::new();
        let mut calls = HashMap::new();
        let mut left_open = Vec::new();
        for item in &detail.items {
            let Some(tool) = ToolCall::of_item(item) else {
                continue;
            };
            if matches!(item.status, Status::InProgress | Status::Queued) {
                left_open.push((item.id.clone(), tool.clone()));
            }
            calls.insert(item.id.clone(), tool);
        }
        for approval in &detail.pending_approvals {
            let known = approval.item_id.as_ref().and_then(|id| calls.get(id));
            let tool = asked(&approval.tool_name, &approval.description, known);
            let id = approval.id.clone();
            questions.push(Asked::Approval { id, tool });
        }
        for input in &detail.pending_user_inputs {
            let (id, request) = (input.id.clone(), input.request.clone());
            questions.push(Asked::Input { id, request });
        }
        let events = Follower::after(&self.daemon, &self.thread.id, detail.latest_seq).await?;
        Ok(Some(TurnView {
            session: self,
            events,
            turn_id: turn.id.clone(),
            questions,
            calls,
            left_open,
        }))
    }

    /// Sends a prompt and returns the turn that it starts.
    pub(crate) async fn say(&self, prompt: &str) -> Result<TurnView<'_>> {
        let newest = calls::newest_turns(&*self.daemon.api(), &self.thread.id, 0).await;
        let latest_seq = newest.map_err(explained)?.latest_seq;
        let events = Follower::after(&self.daemon, &self.thread.id, latest_seq).await?;
        let mut turn = StartTurn {
            prompt: prompt.to_owned(),
            ..self.of_turns.clone()
        };
        if self.approvals == Approvals::All {
            turn.auto_approve = Some(true);
        }
        if !self.approvals.has_person() {
            turn.disallowed_tools = Some(vec![ASKING_TOOL.to_owned()]);
        }
        let started = follow::start_turn(&self.daemon, &self.thread.id, turn).await?;
        let started = started.map_err(explained)?;
        Ok(TurnView {
            session: self,
            events,
            turn_id: started.turn.id,
            questions: Questions::new(),
            calls: HashMap::new(),
            left_open: Vec::new(),
        })
    }

    /// Returns the JSON value of a turn's answer; `None` unless the turn completed with an output schema.
    pub(crate) async fn output(&self, turn_id: &str) -> Result<Option<Value>> {
        let path = TurnPath {
            id: self.thread.id.clone(),
            turn_id: turn_id.to_owned(),
        };
        let detail = self.daemon.api().get_turn(Call::new(path, ())).await;
        Ok(detail.map_err(explained)?.output)
    }
}

/// The outcome of sending an answer.
enum Passed {
    On,
    Lost,
    Refused(CallError),
}

/// A turn that the user watches.
pub(crate) struct TurnView<'a> {
    session: &'a ThreadSession,
    events: Follower,
    turn_id: String,
    questions: Questions,
    /// The tool calls by item ID.
    calls: HashMap<String, ToolCall>,
    /// Calls that an earlier process started and whose end is unknown, with their items.
    left_open: Vec<(String, ToolCall)>,
}

impl TurnView<'_> {
    /// Watches the turn until it ends. If the reader of the output disappears, as `| head` does, the turn is interrupted.
    pub(crate) async fn watched(mut self, screen: &mut Screen, ahead: TypedAhead) -> Result<Ended> {
        match self.watch(screen, ahead).await {
            Err(error) if is_read_out(&error) && self.interrupt().await => Ok(Ended::Left {
                is_interrupted: true,
            }),
            ended => ended,
        }
    }

    async fn watch(&mut self, screen: &mut Screen, ahead: TypedAhead) -> Result<Ended> {
        let mut tick = tokio::time::interval(FRAME);
        let mut interrupts = signal(SignalKind::interrupt())?;
        let _hush = Hush::begin(ahead);
        let (mut is_stopping, mut is_interrupted) = (false, false);
        for (item, tool) in std::mem::take(&mut self.left_open) {
            screen.take_up(&item, &tool);
        }
        loop {
            self.settle(screen).await?;
            tokio::select! {
                // The end of the turn must be shown last, so events have priority.
                biased;
                next = self.events.next() => {
                    let event = match next? {
                        Next::Event(event) => event,
                        Next::Lost => {
                            tokio::select! {
                                reached = self.events.reach_again() => reached?,
                                _ = interrupts.recv() => {
                                    screen.rest()?;
                                    return Ok(Ended::Left { is_interrupted });
                                }
                            }
                            continue;
                        }
                    };
                    if event.turn_id.as_deref().is_some_and(|turn| turn != self.turn_id) {
                        continue;
                    }
                    screen.show(&event)?;
                    if let Some(turn) = self.apply(*event, screen)? {
                        return Ok(Ended::Turn(Box::new(turn)));
                    }
                }
                line = self.questions.line(), if self.questions.is_asking() => {
                    let Some(answer) = self.questions.answer(line, screen)? else {
                        continue;
                    };
                    match self.pass_on(answer).await {
                        Passed::On => {}
                        Passed::Lost => {
                            screen.tell(Colour::Dim, "the daemon is gone, and with it the answer")?;
                        }
                        Passed::Refused(error) => {
                            screen.tell(Colour::Bad, &format!("the answer is not taken: {error}"))?;
                        }
                    }
                }
                _ = interrupts.recv() => {
                    if std::mem::replace(&mut is_stopping, true) {
                        screen.rest()?;
                        return Ok(Ended::Left { is_interrupted });
                    }
                    screen.tell(Colour::Dim, "stopping; once more leaves at once")?;
                    is_interrupted = self.interrupt().await;
                }
                _ = tick.tick(), if !self.questions.is_asking() => {
                    screen.check_reader()?;
                    screen.tick()?;
                }
            }
        }
    }

    /// Updates calls and questions with an event; returns the turn once it has ended.
    fn apply(
        &mut self,
        event: RuntimeEventEnvelope,
        screen: &mut Screen,
    ) -> io::Result<Option<Turn>> {
        match event.payload {
            EventPayload::ItemStarted(started) => {
                if let Some(tool) = started.tool {
                    self.calls.insert(started.item.id, tool.into());
                }
            }
            EventPayload::ApprovalRequired(approval) => {
                let known = self.calls.get(&approval.item_id);
                let tool = asked(&approval.tool_name, &approval.description, known);
                let id = approval.id;
                self.questions.push(Asked::Approval { id, tool });
            }
            EventPayload::UserInputRequired(input) => {
                let (id, request) = (input.id, input.request);
                self.questions.push(Asked::Input { id, request });
            }
            EventPayload::ApprovalDecided(decided) => {
                self.questions.forget(&decided.approval_id, screen)?;
            }
            EventPayload::UserInputAnswered(answered) => {
                self.questions.forget(&answered.id, screen)?;
            }
            EventPayload::UserInputCanceled(canceled) => {
                self.questions.forget(&canceled.id, screen)?;
            }
            EventPayload::TurnCompleted(ended) => {
                screen.clear()?;
                return Ok(Some(ended.turn));
            }
            _ => {}
        }
        Ok(None)
    }

    /// Shows pending questions, and answers those that the user does not have to decide.
    async fn settle(&mut self, screen: &mut Screen) -> Result<()> {
        let approvals = self.session.approvals;
        if approvals != Approvals::Ask {
            let mut for_person = Vec::new();
            while let Some(asked) = self.questions.take() {
                let (answer, told) = match asked {
                    Asked::Approval { id, tool } if approvals == Approvals::All => {
                        let request = decision(ApprovalDecision::Allow);
                        (Answer::Approval { id, tool, request }, None)
                    }
                    Asked::Approval { id, tool } => {
                        let name = &tool.name;
                        let told = format!(
                            "{name} is not allowed: nobody is here to ask; --yes allows everything"
                        );
                        let request = decision(ApprovalDecision::Deny);
                        (Answer::Approval { id, tool, request }, Some(told))
                    }
                    asked @ Asked::Input { .. } if approvals.has_person() => {
                        for_person.push(asked);
                        continue;
                    }
                    Asked::Input { id, request } => {
                        let told = "a question was not answered: nobody is here to ask";
                        let answers = unanswered(&request);
                        let answer = Answer::Input {
                            id,
                            request,
                            answers,
                        };
                        (answer, Some(told.to_owned()))
                    }
                };
                // The loop reconnects while it waits for events.
                match self.pass_on(answer).await {
                    Passed::On => {}
                    Passed::Lost => break,
                    Passed::Refused(error) => return Err(explained(error)),
                }
                if let Some(told) = told {
                    screen.tell(Colour::Asked, &told)?;
                }
            }
            for asked in for_person {
                self.questions.push(asked);
            }
        }
        if approvals.has_person() {
            self.questions.ask(screen, &self.session.cwd)?;
        }
        Ok(())
    }

    /// Sends an answer to the daemon. If the daemon is gone or accepts only other answers, the question is queued again.
    async fn pass_on(&mut self, answer: Answer) -> Passed {
        let api = self.session.daemon.api();
        let passed = match &answer {
            Answer::Approval { id, request, .. } => decide(&*api, id, request).await,
            Answer::Input { id, answers, .. } => {
                answer_input(&*api, &self.session.thread.id, id, answers.clone()).await
            }
        };
        match passed {
            Err(error) if error.is_lost() => {
                self.questions.put_back(answer.into());
                Passed::Lost
            }
            Err(error) if !is_settled(&error) => {
                self.questions.put_back(answer.into());
                Passed::Refused(error)
            }
            _ => Passed::On,
        }
    }

    /// Interrupts the turn; returns whether the daemon accepted it.
    async fn interrupt(&self) -> bool {
        let (api, thread) = (self.session.daemon.api(), &self.session.thread.id);
        // The turn may have ended in the meantime; then there is nothing to interrupt.
        calls::interrupt(&*api, thread, &self.turn_id).await.is_ok()
    }
}

/// Returns whether another client answered first or the turn has ended.
pub(crate) fn is_settled(error: &CallError) -> bool {
    let settled = [
        ErrorCode::ApprovalNotPending,
        ErrorCode::UserInputNotPending,
    ];
    error.code().is_some_and(|code| settled.contains(&code))
}

/// Sends a decision. If it cannot be stored for the project, the call is allowed once.
async fn decide(api: &dyn RuntimeApi, id: &str, request: &DecideApproval) -> Result<(), CallError> {
    let decided = decide_approval(api, id, request.clone()).await;
    if request.remember_for == RememberFor::Project
        && decided
            .as_ref()
            .is_err_and(|error| !error.is_lost() && !is_settled(error))
    {
        let decided = decide_approval(api, id, decision(ApprovalDecision::Allow)).await;
        crate::cli::note("this cannot be remembered for the project; it is allowed once");
        return decided;
    }
    decided
}

pub(crate) async fn decide_approval(
    api: &dyn RuntimeApi,
    id: &str,
    request: DecideApproval,
) -> Result<(), CallError> {
    let approval_id = id.to_owned();
    let call = Call::new(ApprovalPath { approval_id }, request);
    api.decide_approval(call).await.map(drop)
}

/// Sends the answers to the questions of a tool.
pub(crate) async fn answer_input(
    api: &dyn RuntimeApi,
    thread_id: &str,
    id: &str,
    answers: UserInputAnswers,
) -> Result<(), CallError> {
    let path = InputPath {
        thread_id: thread_id.to_owned(),
        input_id: id.to_owned(),
    };
    api.answer_user_input(Call::new(path, answers))
        .await
        .map(drop)
}

/// Answers each question of a request with the statement that there is no user.
pub(crate) fn unanswered(request: &Value) -> UserInputAnswers {
    let questions = InputQuestion::all(request).into_iter();
    let answers = questions.map(|question| UserAnswer {
        id: question.id,
        label: NOBODY.to_owned(),
        value: NOBODY.to_owned(),
        skipped: true,
    });
    UserInputAnswers {
        answers: answers.collect(),
    }
}

/// Returns the parameters that select a directory in an environment.
pub(crate) fn in_environment(environment_id: String, cwd: &Path) -> TurnEnvironmentParams {
    TurnEnvironmentParams {
        environment_id,
        cwd: cwd.to_owned(),
    }
}

/// Finds a thread by its ID or a suffix of the ID.
pub(crate) async fn find(daemon: &DaemonConnection, id: &str) -> Result<String> {
    const ADVICE: &str = "`windlass threads list` shows them";
    let is_whole = id.strip_prefix("thr_").is_some_and(|hex| hex.len() == 32);
    if is_whole {
        return Ok(id.to_owned());
    }
    if !id
        .bytes()
        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    {
        bail!("`{id}` is no id of a thread; {ADVICE}");
    }
    let threads = calls::recent_threads(&*daemon.api(), LOOKED_THROUGH, true).await;
    let threads = threads.map_err(explained)?;
    Ok(by_end("thread", id, threads, |thread| &thread.id, ADVICE)?.id)
}

/// Finds a turn of a thread by its ID or a suffix of the ID.
pub(crate) async fn find_turn(
    daemon: &DaemonConnection,
    thread_id: &str,
    id: &str,
    advice: &str,
) -> Result<String> {
    let is_whole = id.strip_prefix("turn_").is_some_and(|hex| hex.len() == 32);
    if is_whole {
        return Ok(id.to_owned());
    }
    let turns = calls::all_turns(&*daemon.api(), thread_id).await;
    let turns = turns.map_err(explained)?;
    Ok(by_end("turn", id, turns, |turn| &turn.id, advice)?.id)
}

/// Finds the newest thread that works in a directory. Archived threads are skipped.
pub(crate) async fn newest_in(daemon: &DaemonConnection, cwd: &Path) -> Result<Option<String>> {
    let cwd = cwd.canonicalize().context("the directory is gone")?;
    let threads = calls::recent_threads(&*daemon.api(), LOOKED_THROUGH, false).await;
    let mut threads = threads.map_err(explained)?.into_iter();
    let newest = threads.find(|thread| Path::new(&thread.workspace) == cwd);
    Ok(newest.map(|thread| thread.id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stub_api::{StubApi, detail_json, thread_json, turn_json};

    #[tokio::test]
    async fn turn_is_started_without_reading_earlier_turns() {
        let api = Arc::new(StubApi::new(json!({
            "GetThread": detail_json(),
            "ResumeThread": thread_json(),
            "StreamEvents": null,
            "StartTurn": { "thread": thread_json(), "turn": turn_json() },
        })));
        let daemon = DaemonConnection::to_stub(api.clone());
        let session = ThreadSession::resume(&daemon, "thr_1", Approvals::Refuse)
            .await
            .unwrap();
        assert_eq!(
            api.calls(),
            ["GetThread thr_1 turns=1", "ResumeThread thr_1"]
        );
        session.say("hello").await.unwrap();
        assert_eq!(
            api.calls(),
            [
                "GetThread thr_1 turns=0",
                "StreamEvents thr_1 since_seq=7",
                "StartTurn thr_1",
            ]
        );
    }

    #[tokio::test]
    async fn whole_id_of_a_turn_is_not_searched() {
        let turn = "turn_0123456789abcdef0123456789abcdef";
        let mut detail = detail_json();
        let mut listed = turn_json();
        listed["id"] = turn.into();
        detail["turns"] = json!([listed]);
        let api = Arc::new(StubApi::new(json!({ "GetThread": detail })));
        let daemon = DaemonConnection::to_stub(api.clone());
        assert_eq!(find_turn(&daemon, "thr_1", turn, "").await.unwrap(), turn);
        assert!(api.calls().is_empty());
        assert_eq!(
            find_turn(&daemon, "thr_1", "89abcdef", "").await.unwrap(),
            turn
        );
        assert_eq!(api.calls(), ["GetThread thr_1 items=false"]);
    }
}
