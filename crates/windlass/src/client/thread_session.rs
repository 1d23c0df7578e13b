//! Threads at the terminal, and the turns that the user watches.

use std::collections::{HashMap, VecDeque};
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result};
use serde_json::Value;
use tokio::signal::unix::{SignalKind, signal};
use windlass_protocol::operations::{ApprovalPath, InputPath, TurnPath};
use windlass_protocol::{
    ApprovalDecision, Call, CallError, CompactThread, CreateThread, DecideApproval, ErrorCode,
    EventPayload, Mode, OnBusy, RememberFor, RuntimeApi, RuntimeEventEnvelope, StartTurn, Status,
    Thread, ThreadDetail, Turn, TurnEnvironmentParams, UserAnswer, UserInputAnswers,
};

use crate::cli::{is_reader_gone, note};
use crate::client::calls;
use crate::client::connect::DaemonConnection;
use crate::client::follow::{self, EventFollower, FollowStep};
use crate::client::ids::{SEARCHED, by_end, is_complete};
use crate::client::mentions::mentioned;
use crate::terminal::{
    Colour, EchoOff, FRAME, InputQuestion, PendingQuestion, QuestionAnswer, Questions, Screen,
    ShownCall, Typed, TypedAhead, TypedKeys, approval_call, decision,
};

/// The tool that asks the user questions. It is disabled if there is no user.
pub(crate) const ASKING_TOOL: &str = "request_user_input";
/// The answer to such a question if there is no user.
const UNATTENDED: &str = "No user is available to answer. Decide yourself, or end the turn and state what has to be decided.";

/// A thread that the user works in.
pub(crate) struct ThreadSession {
    daemon: Arc<DaemonConnection>,
    pub(crate) thread: Thread,
    /// The tools' working directory, for diffs of the changes that they propose.
    cwd: PathBuf,
    pub(crate) approvals: ApprovalMode,
    /// The options of each turn, such as its own model; the prompt is empty.
    pub(crate) turn_options: StartTurn,
    /// The thread with its last turn before it was resumed, if an earlier process left that turn open.
    before: Option<Box<ThreadDetail>>,
}

/// How calls that change something are approved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ApprovalMode {
    /// All calls are allowed.
    All,
    /// The user at the terminal decides.
    Ask,
    /// There is no user, so all calls are denied.
    Deny,
}

impl ApprovalMode {
    /// Returns the mode of a command at this terminal, if there is one; `is_all` is `--yes`.
    pub(crate) fn for_terminal(is_all: bool) -> Self {
        if is_all {
            Self::All
        } else if has_terminal_user() {
            Self::Ask
        } else {
            Self::Deny
        }
    }

    /// Returns whether there is a user who can answer the questions of a tool.
    fn has_user(self) -> bool {
        match self {
            Self::All => has_terminal_user(),
            Self::Ask => true,
            Self::Deny => false,
        }
    }
}

fn has_terminal_user() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Returns the thread's last turn if it has not ended.
pub(crate) fn open_turn(detail: &ThreadDetail) -> Option<&Turn> {
    let last = detail.turns.last();
    last.filter(|turn| matches!(turn.status, Status::InProgress | Status::Queued))
}

/// How watching a turn ended.
pub(crate) enum TurnViewEnd {
    Ended(Box<Turn>),
    /// The user left. The turn continues when its thread is resumed, unless it was interrupted.
    Detached {
        is_interrupted: bool,
    },
}

impl ThreadSession {
    /// Creates a thread that works in `cwd`.
    pub(crate) async fn begin(
        daemon: &Arc<DaemonConnection>,
        cwd: &Path,
        mut request: CreateThread,
        approvals: ApprovalMode,
    ) -> Result<Self> {
        let environment = daemon.environment(cwd).await?;
        let cwd = cwd.canonicalize()?;
        request.environments = Some(vec![in_environment(environment, &cwd)]);
        let call = Call::new((), request);
        Ok(Self {
            daemon: Arc::clone(daemon),
            thread: daemon.api().create_thread(call).await?,
            cwd,
            approvals,
            turn_options: StartTurn::default(),
            before: None,
        })
    }

    /// Resumes a thread.
    pub(crate) async fn resume(
        daemon: &Arc<DaemonConnection>,
        id: &str,
        approvals: ApprovalMode,
    ) -> Result<Self> {
        // Read before the resume: a resumed turn may end immediately, and the caller must see that.
        let api = daemon.api();
        let before = calls::newest_turns(&*api, id, 1).await?;
        let thread = calls::resume(&*api, id).await?;
        Ok(Self {
            daemon: Arc::clone(daemon),
            cwd: PathBuf::from(&thread.workspace),
            thread,
            approvals,
            turn_options: StartTurn::default(),
            before: open_turn(&before).is_some().then(|| Box::new(before)),
        })
    }

    /// Shows a notice if the thread allows all calls, from its creation or since the user answered "always".
    pub(crate) fn show_approval_notice(&self, screen: &mut Screen) -> io::Result<()> {
        if self.thread.auto_approve || self.thread.mode == Mode::Yolo {
            let notice = "this thread allows all calls without asking, commands included";
            screen.notify(Colour::Warning, notice)?;
        }
        Ok(())
    }

    /// Views the turn that an earlier process left open, if there is one.
    pub(crate) async fn view_open_turn(&self) -> Result<Option<TurnView<'_>>> {
        let Some(detail) = self.before.as_deref() else {
            return Ok(None);
        };
        let Some(turn) = open_turn(detail) else {
            return Ok(None);
        };
        let mut questions = Questions::default();
        let mut calls = HashMap::new();
        let mut earlier_calls = Vec::new();
        for item in &detail.items {
            let Some(call) = ShownCall::from_item(item) else {
                continue;
            };
            if matches!(item.status, Status::InProgress | Status::Queued) {
                earlier_calls.push((item.id.clone(), call.clone()));
            }
            calls.insert(item.id.clone(), call);
        }
        for approval in &detail.pending_approvals {
            let announced = approval.item_id.as_ref().and_then(|id| calls.get(id));
            let call = approval_call(&approval.tool_name, &approval.description, announced);
            let id = approval.id.clone();
            questions.push(PendingQuestion::Approval { id, call });
        }
        for input in &detail.pending_user_inputs {
            let (id, request) = (input.id.clone(), input.request.clone());
            questions.push(PendingQuestion::Input { id, request });
        }
        let events = EventFollower::after(&self.daemon, &self.thread.id, detail.latest_seq).await?;
        Ok(Some(TurnView {
            questions,
            calls,
            earlier_calls,
            ..self.view(events, turn.id.clone())
        }))
    }

    /// Returns the tools' working directory.
    pub(crate) fn cwd(&self) -> &Path {
        &self.cwd
    }

    /// Follows the events from now on.
    async fn follow(&self) -> Result<EventFollower> {
        let newest = calls::newest_turns(&*self.daemon.api(), &self.thread.id, 0).await?;
        EventFollower::after(&self.daemon, &self.thread.id, newest.latest_seq).await
    }

    /// Starts a turn with a prompt.
    pub(crate) async fn start_turn(&self, prompt: &str) -> Result<TurnView<'_>> {
        let events = self.follow().await?;
        let turn = self.turn(prompt);
        let started = follow::start_turn(&self.daemon, &self.thread.id, turn).await??;
        Ok(self.view(events, started.turn.id))
    }

    /// Starts a turn that compacts the history.
    pub(crate) async fn compact(&self, reason: Option<String>) -> Result<TurnView<'_>> {
        let events = self.follow().await?;
        let call = Call::new(calls::by_id(&self.thread.id), CompactThread { reason });
        let started =
            follow::send_once(&self.daemon, call, |api, call| api.compact_thread(call)).await??;
        Ok(self.view(events, started.turn.id))
    }

    /// Returns the request of a turn with a prompt.
    fn turn(&self, prompt: &str) -> StartTurn {
        let mut turn = StartTurn {
            prompt: prompt.to_owned(),
            ..self.turn_options.clone()
        };
        if self.approvals == ApprovalMode::All {
            turn.auto_approve = Some(true);
        }
        if !self.approvals.has_user() {
            turn.disallowed_tools = Some(vec![ASKING_TOOL.to_owned()]);
        }
        turn
    }

    fn view(&self, events: EventFollower, turn_id: String) -> TurnView<'_> {
        TurnView {
            session: self,
            events,
            turn_id,
            questions: Questions::default(),
            calls: HashMap::new(),
            earlier_calls: Vec::new(),
            queued: VecDeque::new(),
            unsent: Vec::new(),
        }
    }

    /// Returns the JSON value of a turn's answer; `None` unless the turn completed with an output schema.
    pub(crate) async fn output(&self, turn_id: &str) -> Result<Option<Value>> {
        let path = TurnPath {
            id: self.thread.id.clone(),
            turn_id: turn_id.to_owned(),
        };
        let detail = self.daemon.api().get_turn(Call::new(path, ())).await?;
        Ok(detail.output)
    }
}

/// The outcome of sending an answer.
enum Delivery {
    Accepted,
    Lost,
    Refused(CallError),
}

/// A turn that the user watches.
pub(crate) struct TurnView<'a> {
    session: &'a ThreadSession,
    events: EventFollower,
    turn_id: String,
    questions: Questions,
    /// The tool calls by item ID.
    calls: HashMap<String, ShownCall>,
    /// Item IDs and calls that an earlier process started and whose end is unknown.
    earlier_calls: Vec<(String, ShownCall)>,
    /// Turn IDs and texts of the prompts that the user queued, the next one first.
    queued: VecDeque<(String, String)>,
    unsent: Vec<String>,
}

impl TurnView<'_> {
    /// Watches the turn until it ends. If the reader of the output disappears, as `| head` does, the turn is interrupted.
    ///
    /// With `keys`, the user can queue prompts meanwhile, and stop the turn with Esc.
    pub(crate) async fn watch(
        &mut self,
        screen: &mut Screen,
        keys: Option<&mut TypedKeys>,
    ) -> Result<TurnViewEnd> {
        match self.watch_events(screen, keys).await {
            Err(error) if is_reader_gone(&error) && self.interrupt().await => {
                Ok(TurnViewEnd::Detached {
                    is_interrupted: true,
                })
            }
            ended => ended,
        }
    }

    async fn watch_events(
        &mut self,
        screen: &mut Screen,
        mut keys: Option<&mut TypedKeys>,
    ) -> Result<TurnViewEnd> {
        let ahead = match keys {
            Some(_) => TypedAhead::Keys,
            None => TypedAhead::Lines,
        };
        let mut tick = tokio::time::interval(FRAME);
        let mut interrupts = signal(SignalKind::interrupt())?;
        let _echo_off = EchoOff::begin(ahead);
        let (mut is_stopping, mut is_interrupted) = (false, false);
        for (item, call) in std::mem::take(&mut self.earlier_calls) {
            screen.begin_call(&item, &call, None)?;
        }
        loop {
            if self.questions.is_waiting()
                && let Some(keys) = &mut keys
            {
                let is_typing = keys.pause();
                self.questions.expect_rest_of_line(is_typing);
            }
            self.settle(screen).await?;
            tokio::select! {
                // The end of the turn must be shown last, so events have priority.
                biased;
                next = self.events.next() => {
                    let event = match next? {
                        FollowStep::Event(event) => event,
                        FollowStep::Lost => {
                            tokio::select! {
                                reached = self.events.reconnect() => reached?,
                                _ = interrupts.recv() => {
                                    screen.end_line()?;
                                    return Ok(TurnViewEnd::Detached { is_interrupted });
                                }
                            }
                            continue;
                        }
                    };
                    if let Some(turn) = event.turn_id.as_deref().filter(|turn| *turn != self.turn_id) {
                        // A queued prompt that was removed.
                        if let EventPayload::TurnCompleted(_) = &event.payload {
                            self.queued.retain(|(queued, _)| queued != turn);
                        }
                        continue;
                    }
                    screen.show(&event)?;
                    if let Some(turn) = self.apply(*event, screen)? {
                        return Ok(TurnViewEnd::Ended(Box::new(turn)));
                    }
                }
                line = self.questions.line(), if self.questions.is_asking() => {
                    let Some((question, answer)) = self.questions.answer(line, screen)? else {
                        continue;
                    };
                    match self.deliver(question, answer).await {
                        Delivery::Accepted => {}
                        Delivery::Lost => {
                            let notice = "the daemon is gone, so the answer was not sent";
                            screen.notify(Colour::Dim, notice)?;
                        }
                        Delivery::Refused(error) => {
                            screen.notify(Colour::Bad, &format!("the answer was rejected: {error}"))?;
                        }
                    }
                }
                _ = interrupts.recv() => {
                    if std::mem::replace(&mut is_stopping, true) {
                        screen.end_line()?;
                        return Ok(TurnViewEnd::Detached { is_interrupted });
                    }
                    screen.notify(Colour::Dim, "stopping; press Ctrl-C again to quit at once")?;
                    is_interrupted = self.interrupt().await;
                }
                typed = next_typed(&mut keys), if !self.questions.is_asking() => match typed {
                    Typed::Line(line) => self.queue(&line, screen).await?,
                    Typed::Edited => {}
                    Typed::Show => screen.show_last_result()?,
                    Typed::Escape if is_stopping => {}
                    Typed::Escape => {
                        is_stopping = true;
                        screen.notify(Colour::Dim, "stopping; press Ctrl-C to quit at once")?;
                        is_interrupted = self.interrupt().await;
                    }
                },
                _ = tick.tick(), if !self.questions.is_asking() => {
                    screen.check_reader()?;
                    if let Some(keys) = &keys {
                        screen.set_typed(&keys.text())?;
                    }
                    screen.tick()?;
                }
            }
        }
    }

    /// Queues a prompt that the user typed during the turn. One that cannot be queued is shown again after the turn.
    async fn queue(&mut self, text: &str, screen: &mut Screen) -> Result<()> {
        let refused = if text.starts_with('/') {
            Some("commands wait for the end of the turn".to_owned())
        } else {
            self.try_queue(text)
                .await
                .err()
                .map(|error| format!("{error:#}"))
        };
        match refused {
            None => screen.notify(Colour::Dim, &format!("queued: {text}"))?,
            Some(why) => {
                self.unsent.push(text.to_owned());
                screen.notify(Colour::Warning, &format!("not queued: {why}"))?;
            }
        }
        Ok(())
    }

    async fn try_queue(&mut self, text: &str) -> Result<()> {
        let session = self.session;
        let parts = mentioned(text, &session.cwd)?;
        let turn = StartTurn {
            on_busy: Some(OnBusy::Queue),
            input: (!parts.is_empty()).then_some(parts),
            ..session.turn(text)
        };
        let started = follow::start_turn(&session.daemon, &session.thread.id, turn).await??;
        self.queued.push_back((started.turn.id, text.to_owned()));
        Ok(())
    }

    /// Continues with the next queued prompt and returns its text; `None` if there is none. The turn has ended.
    pub(crate) fn next_queued(&mut self) -> Option<String> {
        let (turn_id, text) = self.queued.pop_front()?;
        self.turn_id = turn_id;
        self.calls.clear();
        Some(text)
    }

    /// Returns the lines that the user typed and that were not queued.
    pub(crate) fn take_unsent(&mut self) -> Vec<String> {
        std::mem::take(&mut self.unsent)
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
                let announced = self.calls.get(&approval.item_id);
                let call = approval_call(&approval.tool_name, &approval.description, announced);
                let id = approval.id;
                self.questions.push(PendingQuestion::Approval { id, call });
            }
            EventPayload::UserInputRequired(input) => {
                let (id, request) = (input.id, input.request);
                self.questions.push(PendingQuestion::Input { id, request });
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
        if approvals != ApprovalMode::Ask {
            let mut for_user = Vec::new();
            while let Some(question) = self.questions.take() {
                let (answer, notice) = match &question {
                    PendingQuestion::Approval { .. } if approvals == ApprovalMode::All => (
                        QuestionAnswer::Approval(decision(ApprovalDecision::Allow)),
                        None,
                    ),
                    PendingQuestion::Approval { call, .. } => {
                        let name = &call.name;
                        let notice = format!(
                            "{name} is denied: no user can be asked; --yes allows everything"
                        );
                        let answer = QuestionAnswer::Approval(decision(ApprovalDecision::Deny));
                        (answer, Some(notice))
                    }
                    PendingQuestion::Input { .. } if approvals.has_user() => {
                        for_user.push(question);
                        continue;
                    }
                    PendingQuestion::Input { request, .. } => {
                        let notice = "a question was not answered: no user can be asked";
                        let answer = QuestionAnswer::Input(unattended_answers(request));
                        (answer, Some(notice.to_owned()))
                    }
                };
                // The loop reconnects while it waits for events.
                match self.deliver(question, answer).await {
                    Delivery::Accepted => {}
                    Delivery::Lost => break,
                    Delivery::Refused(error) => return Err(error.into()),
                }
                if let Some(notice) = notice {
                    screen.notify(Colour::Warning, &notice)?;
                }
            }
            for question in for_user {
                self.questions.push(question);
            }
        }
        if approvals.has_user() {
            self.questions.ask(screen, &self.session.cwd)?;
        }
        Ok(())
    }

    /// Sends an answer to the daemon. If the daemon is gone or accepts only other answers, the question is queued again.
    async fn deliver(&mut self, question: PendingQuestion, answer: QuestionAnswer) -> Delivery {
        let (api, thread_id) = (self.session.daemon.api(), &self.session.thread.id);
        match send_answer(&*api, thread_id, question.id(), &answer).await {
            Err(error) if error.is_lost() => {
                self.questions.put_back(question);
                Delivery::Lost
            }
            Err(error) if !is_settled(&error) => {
                self.questions.put_back(question);
                Delivery::Refused(error)
            }
            _ => Delivery::Accepted,
        }
    }

    /// Interrupts the turn; returns whether the daemon accepted it.
    async fn interrupt(&self) -> bool {
        let (api, thread) = (self.session.daemon.api(), &self.session.thread.id);
        // The turn may have ended in the meantime; then there is nothing to interrupt.
        calls::interrupt(&*api, thread, &self.turn_id).await.is_ok()
    }
}

/// Returns the next event of the keys; without keys it never returns.
async fn next_typed(keys: &mut Option<&mut TypedKeys>) -> Typed {
    match keys {
        Some(keys) => keys.next().await,
        None => std::future::pending().await,
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

/// Sends an answer. If an approval cannot be stored for the project, the call is allowed once.
pub(crate) async fn send_answer(
    api: &dyn RuntimeApi,
    thread_id: &str,
    id: &str,
    answer: &QuestionAnswer,
) -> Result<(), CallError> {
    match answer {
        QuestionAnswer::Approval(request) => {
            let decided = decide_approval(api, id, request.clone()).await;
            let is_rejected = |error: &CallError| !error.is_lost() && !is_settled(error);
            if request.remember_for != RememberFor::Project
                || !decided.as_ref().is_err_and(is_rejected)
            {
                return decided;
            }
            let decided = decide_approval(api, id, decision(ApprovalDecision::Allow)).await;
            note("this approval cannot be stored for the project; the call is allowed once");
            decided
        }
        QuestionAnswer::Input(answers) => {
            let path = InputPath {
                thread_id: thread_id.to_owned(),
                input_id: id.to_owned(),
            };
            let call = Call::new(path, answers.clone());
            api.answer_user_input(call).await.map(drop)
        }
    }
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

/// Answers each question of a request with the statement that there is no user.
pub(crate) fn unattended_answers(request: &Value) -> UserInputAnswers {
    let questions = InputQuestion::all(request).into_iter();
    let answers = questions.map(|question| UserAnswer {
        id: question.id,
        label: UNATTENDED.to_owned(),
        value: UNATTENDED.to_owned(),
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

/// Finds a thread by its ID or the end of the ID.
pub(crate) async fn find(daemon: &DaemonConnection, id: &str) -> Result<String> {
    const ADVICE: &str = "`windlass threads list` shows all threads";
    if is_complete("thr_", id, ADVICE)? {
        return Ok(id.to_owned());
    }
    let threads = calls::recent_threads(&*daemon.api(), SEARCHED, true).await?;
    Ok(by_end("thread", id, threads, |thread| &thread.id, ADVICE)?.id)
}

/// Finds a turn of a thread by its ID or the end of the ID.
pub(crate) async fn find_turn(
    daemon: &DaemonConnection,
    thread_id: &str,
    id: &str,
    advice: &str,
) -> Result<String> {
    if is_complete("turn_", id, advice)? {
        return Ok(id.to_owned());
    }
    let turns = calls::all_turns(&*daemon.api(), thread_id).await?;
    Ok(by_end("turn", id, turns, |turn| &turn.id, advice)?.id)
}

/// Finds the newest thread that works in a directory. Archived threads are skipped.
pub(crate) async fn newest_in(daemon: &DaemonConnection, cwd: &Path) -> Result<Option<String>> {
    let cwd = cwd
        .canonicalize()
        .context("the working directory does not exist")?;
    let threads = calls::recent_threads(&*daemon.api(), SEARCHED, false).await?;
    let mut threads = threads.into_iter();
    let newest = threads.find(|thread| Path::new(&thread.workspace) == cwd);
    Ok(newest.map(|thread| thread.id))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::client::stub_api_test::{StubApi, detail_json, thread_json, turn_json};

    #[tokio::test]
    async fn turn_is_started_without_reading_earlier_turns() {
        let api = Arc::new(StubApi::new(json!({
            "GetThread": detail_json(),
            "ResumeThread": thread_json(),
            "StreamEvents": null,
            "StartTurn": { "thread": thread_json(), "turn": turn_json() },
        })));
        let daemon = DaemonConnection::to_stub(api.clone());
        let session = ThreadSession::resume(&daemon, "thr_1", ApprovalMode::Deny)
            .await
            .unwrap();
        assert_eq!(
            api.calls(),
            ["GetThread thr_1 turns=1", "ResumeThread thr_1"]
        );
        session.start_turn("hello").await.unwrap();
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
    async fn complete_turn_id_is_not_searched() {
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
