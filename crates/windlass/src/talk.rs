//! A conversation at the terminal: a thread, and turns of it that somebody watches.

use std::collections::HashMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use windlass_protocol::{EventName, Mode, Status, Thread, ThreadAndTurn, ThreadDetail, Turn};

use crate::follow::{self, Follower};
use crate::reach::{Link, explained};
use crate::terminal::{Answer, Asked, Colour, FRAME, Questions, Screen, asked};

/// The tool that asks people; it is not offered where nobody can answer.
const ASKING_TOOL: &str = "request_user_input";

/// What is told of a conversation in which nobody is asked.
const EVERYTHING_IS_ALLOWED: &str =
    "everything is allowed in this conversation without asking, commands too";

/// A thread that somebody talks to.
pub(crate) struct Talk {
    link: Arc<Link>,
    pub(crate) thread: Thread,
    /// Where its tools work, for showing what they would change.
    cwd: PathBuf,
    /// Who allows calls.
    pub(crate) approvals: Approvals,
}

/// Who allows calls that change something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Approvals {
    /// Everything is allowed.
    All,
    /// The person at the terminal.
    Ask,
    /// Nobody is there, so nothing is allowed.
    Refuse,
}

impl Approvals {
    /// Asks the person, where there is one.
    pub(crate) fn here(is_all: bool) -> Self {
        match is_all {
            true => Self::All,
            false if io::stdin().is_terminal() && io::stderr().is_terminal() => Self::Ask,
            false => Self::Refuse,
        }
    }
}

/// How a turn ended, for whoever watched it.
pub(crate) enum Ended {
    Turn(Box<Turn>),
    /// The person went away; the turn goes on when somebody resumes it.
    Left,
}

impl Talk {
    /// Makes a thread that works in a directory.
    pub(crate) async fn begin(
        link: &Arc<Link>,
        cwd: &Path,
        mut wanted: Value,
        approvals: Approvals,
    ) -> Result<Self> {
        let environment = link.environment(cwd).await?;
        let cwd = cwd.canonicalize()?;
        wanted["environments"] = json!([{ "environment_id": environment, "cwd": cwd }]);
        let thread = link.client().post("/v1/threads", &wanted).await;
        Ok(Self {
            link: Arc::clone(link),
            thread: thread.map_err(explained)?,
            cwd,
            approvals,
        })
    }

    /// Goes on with a thread.
    pub(crate) async fn resume(link: &Arc<Link>, id: &str, approvals: Approvals) -> Result<Self> {
        let thread = follow::resume(link, id).await?;
        Ok(Self {
            link: Arc::clone(link),
            cwd: PathBuf::from(&thread.workspace),
            thread,
            approvals,
        })
    }

    /// Says so where the conversation allows everything since somebody answered "always", or from its beginning.
    pub(crate) fn tell_allowed(&self, screen: &mut Screen) -> io::Result<()> {
        let is_all = self.thread.auto_approve || self.thread.mode == Mode::Yolo;
        match is_all {
            true => screen.tell(Colour::Asked, EVERYTHING_IS_ALLOWED),
            false => Ok(()),
        }
    }

    async fn detail(&self) -> Result<ThreadDetail> {
        let path = format!("/v1/threads/{}", self.thread.id);
        self.link.client().get(&path).await.map_err(explained)
    }

    /// Watches the turn that an earlier process left open, if there is one.
    pub(crate) async fn go_on(&self, screen: &mut Screen) -> Result<Option<Ended>> {
        let detail = self.detail().await?;
        let open = detail.turns.last();
        let open = open.filter(|turn| matches!(turn.status, Status::InProgress | Status::Queued));
        let Some(turn) = open else {
            return Ok(None);
        };
        let mut questions = Questions::new();
        let mut calls = HashMap::new();
        for item in &detail.items {
            let tool = item
                .metadata
                .as_ref()
                .map(|metadata| metadata["tool"].clone());
            calls.extend(tool.map(|tool| (item.id.clone(), tool)));
        }
        for approval in &detail.pending_approvals {
            let known = approval.item_id.as_ref().and_then(|id| calls.get(id));
            let tool = asked(&json!(approval), known.filter(|tool| !tool.is_null()));
            let id = approval.id.clone();
            questions.push(Asked::Approval { id, tool });
        }
        for input in &detail.pending_user_inputs {
            let (id, request) = (input.id.clone(), input.request.clone());
            questions.push(Asked::Input { id, request });
        }
        let events = Follower::after(&self.link, &self.thread.id, detail.latest_seq).await?;
        let watch = Watch {
            talk: self,
            turn_id: turn.id.clone(),
            questions,
            calls,
        };
        watch.watched(events, screen).await.map(Some)
    }

    /// Says something, and watches the turn to its end.
    pub(crate) async fn say(&self, prompt: &str, screen: &mut Screen) -> Result<Ended> {
        let detail = self.detail().await?;
        let events = Follower::after(&self.link, &self.thread.id, detail.latest_seq).await?;
        let mut wanted = json!({ "prompt": prompt });
        match self.approvals {
            Approvals::All => wanted["auto_approve"] = true.into(),
            Approvals::Ask => {}
            Approvals::Refuse => wanted["disallowed_tools"] = json!([ASKING_TOOL]),
        }
        let path = format!("/v1/threads/{}/turns", self.thread.id);
        let started = self.link.client().post(&path, &wanted).await;
        let started: ThreadAndTurn = started.map_err(explained)?;
        let watch = Watch {
            talk: self,
            turn_id: started.turn.id,
            questions: Questions::new(),
            calls: HashMap::new(),
        };
        watch.watched(events, screen).await
    }
}

/// What became of an answer.
#[derive(PartialEq, Eq)]
enum Passed {
    On,
    Lost,
}

/// A turn that somebody watches.
struct Watch<'a> {
    talk: &'a Talk,
    turn_id: String,
    questions: Questions,
    /// What is known of the calls, by their items.
    calls: HashMap<String, Value>,
}

impl Watch<'_> {
    async fn watched(mut self, mut events: Follower, screen: &mut Screen) -> Result<Ended> {
        let mut tick = tokio::time::interval(FRAME);
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut is_stopping = false;
        loop {
            self.settle(screen).await?;
            tokio::select! {
                // The end of the turn is the last thing to be shown, so the events come first.
                biased;
                event = events.next() => {
                    let event = event?;
                    if event.turn_id.as_deref().is_some_and(|turn| turn != self.turn_id) {
                        continue;
                    }
                    screen.show(&event)?;
                    let is = |name: EventName| event.event == name.as_str();
                    let id = event.payload["id"].as_str().unwrap_or_default().to_owned();
                    if is(EventName::ItemStarted) {
                        let item = event.item_id.clone().unwrap_or_default();
                        self.calls.insert(item, event.payload["tool"].clone());
                    } else if is(EventName::ApprovalRequired) {
                        let item = event.payload["item_id"].as_str().unwrap_or_default();
                        let known = self.calls.get(item).filter(|tool| !tool.is_null());
                        let tool = asked(&event.payload, known);
                        self.questions.push(Asked::Approval { id, tool });
                    } else if is(EventName::UserInputRequired) {
                        let request = event.payload["request"].clone();
                        self.questions.push(Asked::Input { id, request });
                    } else if is(EventName::ApprovalDecided) {
                        let id = event.payload["approval_id"].as_str().unwrap_or_default();
                        self.questions.forget(id, screen)?;
                    } else if is(EventName::UserInputAnswered) || is(EventName::UserInputCanceled) {
                        self.questions.forget(&id, screen)?;
                    } else if is(EventName::TurnCompleted) {
                        screen.clear()?;
                        let turn = serde_json::from_value(event.payload["turn"].clone());
                        return Ok(Ended::Turn(turn.context("the end of the turn cannot be read")?));
                    }
                }
                line = self.questions.line(), if self.questions.is_asking() => {
                    if let Some(answer) = self.questions.answer(line, screen)?
                        && self.pass_on(answer).await == Passed::Lost
                    {
                        screen.tell(Colour::Dim, "the daemon is gone, and with it the answer")?;
                    }
                }
                _ = interrupts.recv() => {
                    if std::mem::replace(&mut is_stopping, true) {
                        screen.rest()?;
                        return Ok(Ended::Left);
                    }
                    screen.tell(Colour::Dim, "stopping; once more leaves at once")?;
                    self.interrupt().await;
                }
                _ = tick.tick(), if !self.questions.is_asking() => screen.tick()?,
            }
        }
    }

    /// Asks what is to be asked, or answers where nobody is there.
    async fn settle(&mut self, screen: &mut Screen) -> Result<()> {
        match self.talk.approvals {
            Approvals::Ask => self.questions.ask(screen, &self.talk.cwd)?,
            approvals => {
                while let Some(asked) = self.questions.take() {
                    let decision = match approvals {
                        Approvals::All => "allow",
                        _ => "deny",
                    };
                    let Asked::Approval { tool, .. } = &asked else {
                        continue;
                    };
                    let name = tool["name"].as_str().unwrap_or("a tool").to_owned();
                    let body = json!({ "decision": decision });
                    // Another daemon is reached while the events are waited for.
                    if self.pass_on(Answer { asked, body }).await == Passed::Lost {
                        break;
                    }
                    if decision == "deny" {
                        let text = format!(
                            "{name} is not allowed: nobody is here to ask; --yes allows everything"
                        );
                        screen.tell(Colour::Asked, &text)?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Tells the daemon what was answered. Where it is gone, the question is put back: the next one asks it too.
    async fn pass_on(&mut self, answer: Answer) -> Passed {
        let path = match &answer.asked {
            Asked::Approval { id, .. } => format!("/v1/approvals/{id}"),
            Asked::Input { id, .. } => format!("/v1/user-input/{}/{id}", self.talk.thread.id),
        };
        let client = self.talk.link.client();
        match client.post::<Value>(&path, &answer.body).await {
            Err(error) if error.is_lost() => {
                self.questions.put_back(answer.asked);
                Passed::Lost
            }
            // Somebody else may have been faster.
            _ => Passed::On,
        }
    }

    async fn interrupt(&self) {
        let thread = &self.talk.thread.id;
        let path = format!("/v1/threads/{thread}/turns/{}/interrupt", self.turn_id);
        // One that has ended in the meantime needs no stop.
        let _ = self
            .talk
            .link
            .client()
            .post::<Value>(&path, &json!({}))
            .await;
    }
}

/// Finds a thread by its id, or by the end of it.
pub(crate) async fn find(link: &Link, id: &str) -> Result<String> {
    let is_whole = id.strip_prefix("thr_").is_some_and(|hex| hex.len() == 32);
    if is_whole {
        return Ok(id.to_owned());
    }
    if id.len() < MIN_SHORT || !id.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        bail!("`{id}` is no id of a thread; `windlass threads list` shows them");
    }
    let mut found = Vec::new();
    for thread in recent(link).await? {
        if thread.id.ends_with(id) {
            found.push(thread.id);
        }
    }
    match found.as_slice() {
        [one] => Ok(one.clone()),
        [] => bail!("there is no thread `{id}`; `windlass threads list` shows them"),
        many => bail!("`{id}` may be {}; say more of it", many.join(" or ")),
    }
}

/// Returns as much of an id as a person needs to name the thread.
pub(crate) fn short(id: &str) -> &str {
    id.get(id.len().saturating_sub(SHORT)..).unwrap_or(id)
}

/// How much of an id is shown.
const SHORT: usize = 8;
/// How much of an id must be given.
const MIN_SHORT: usize = 4;
/// How many threads are looked through for the end of an id.
const LOOKED_THROUGH: usize = 1000;

/// Returns the newest threads.
async fn recent(link: &Link) -> Result<Vec<Thread>> {
    let path = format!("/v1/threads?limit={LOOKED_THROUGH}&include_archived=true");
    link.client().get(&path).await.map_err(explained)
}

/// Finds the newest thread that works in a directory.
pub(crate) async fn newest_in(link: &Link, cwd: &Path) -> Result<Option<String>> {
    let cwd = cwd.canonicalize().context("the directory is gone")?;
    let threads = recent(link).await?.into_iter();
    let mut threads = threads.filter(|thread| Path::new(&thread.workspace) == cwd);
    Ok(threads.next().map(|thread| thread.id))
}
