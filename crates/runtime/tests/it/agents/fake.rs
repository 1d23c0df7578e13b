//! A scripted external agent.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde_json::json;
use tokio::sync::{Notify, mpsc, watch};
use windlass_core::backend::{
    Backend, BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendExit, BackendOutcome,
    BackendSession, BackendSpec, BackendStatus, BackendUsage, BackendVersion, ObservedCall,
    ObservedResult, PermissionDecision, PermissionRequest, SessionChoice, Steered,
};

use crate::support::Gate;

enum PromptStep {
    Tell(BackendEvent),
    /// Waits for the answer to a permission.
    Answered,
    Wait(Gate),
}

/// The agent's behaviour for one prompt.
#[derive(Default)]
pub(super) struct AgentScript {
    steps: Vec<PromptStep>,
    /// Whether it crashes before its session exists.
    is_silent: bool,
    outcome: Option<BackendOutcome>,
}

impl AgentScript {
    pub(super) fn says(text: &str) -> Self {
        Self::default().text(text)
    }
    fn step(mut self, step: PromptStep) -> Self {
        self.steps.push(step);
        self
    }
    pub(super) fn tell(self, event: BackendEvent) -> Self {
        self.step(PromptStep::Tell(event))
    }
    pub(super) fn text(self, text: &str) -> Self {
        self.tell(BackendEvent::Text {
            text: text.to_owned(),
            message: None,
            parent: None,
        })
    }
    pub(super) fn call(self, id: &str) -> Self {
        self.tell(BackendEvent::ToolStarted(ObservedCall {
            id: id.to_owned(),
            name: "Bash".to_owned(),
            arguments: json!({"command": "ls"}),
            parent: None,
        }))
    }
    pub(super) fn done(self, id: &str) -> Self {
        self.tell(BackendEvent::ToolCompleted(ObservedResult {
            call_id: id.to_owned(),
            output: json!("a file"),
            is_error: false,
        }))
    }
    /// Asks for a call and waits for the answer.
    pub(super) fn ask(self, request: &str, call: &str) -> Self {
        self.tell(BackendEvent::Permission(PermissionRequest {
            id: request.to_owned(),
            call_id: Some(call.to_owned()),
            name: "Bash".to_owned(),
            arguments: json!({"command": "ls"}),
            title: None,
        }))
        .step(PromptStep::Answered)
    }
    pub(super) fn wait(self, gate: &Gate) -> Self {
        self.step(PromptStep::Wait(gate.clone()))
    }
    fn ends(mut self, outcome: BackendOutcome) -> Self {
        self.outcome = Some(outcome);
        self
    }
    pub(super) fn fails(self, kind: BackendErrorKind) -> Self {
        self.ends(failed(kind))
    }
    /// Is killed by a signal before its session exists.
    pub(super) fn aborts() -> Self {
        Self {
            is_silent: true,
            outcome: Some(BackendOutcome {
                aborted_signal: true,
                ..failed(BackendErrorKind::Killed(6))
            }),
            ..Self::default()
        }
    }
    /// Refuses to load the session.
    pub(super) fn refuses() -> Self {
        Self {
            is_silent: true,
            outcome: Some(failed(BackendErrorKind::ResumeRefused)),
            ..Self::default()
        }
    }
    pub(super) fn limited(until: Option<DateTime<Utc>>) -> Self {
        Self::default().ends(BackendOutcome {
            rate_limit_exit: true,
            rate_limit_reset_at: until,
            ..failed(BackendErrorKind::RateLimit)
        })
    }
    /// Never gets to its session.
    pub(super) fn silent(mut self) -> Self {
        self.is_silent = true;
        self
    }
}

fn failed(kind: BackendErrorKind) -> BackendOutcome {
    BackendOutcome::failed(BackendError::new(kind, "no luck"))
}

fn used(output_tokens: u64) -> Option<BackendUsage> {
    Some(BackendUsage {
        output_tokens,
        ..BackendUsage::default()
    })
}

/// The agent, and a record of its calls.
#[derive(Default)]
pub(super) struct Fake {
    scripts: Mutex<VecDeque<AgentScript>>,
    /// The sessions that processes were started with.
    pub(super) opened: Mutex<Vec<SessionChoice>>,
    pub(super) prompts: Mutex<Vec<String>>,
    pub(super) answers: Mutex<Vec<(String, bool)>>,
    pub(super) steers: Mutex<Vec<String>>,
    pub(super) takes_steers: AtomicBool,
    /// How many processes there are.
    pub(super) processes: watch::Sender<usize>,
    sessions: AtomicUsize,
}

impl Fake {
    pub(super) fn new(scripts: impl IntoIterator<Item = AgentScript>) -> Arc<Self> {
        Arc::new(Self {
            scripts: Mutex::new(scripts.into_iter().collect()),
            ..Self::default()
        })
    }

    pub(super) fn prompts(&self) -> Vec<String> {
        self.prompts.lock().unwrap().clone()
    }

    pub(super) fn opened(&self) -> Vec<String> {
        let opened = self.opened.lock().unwrap();
        let words = opened.iter().map(|choice| match choice {
            SessionChoice::New { id } => format!("new {}", id.as_deref().unwrap_or("-")),
            SessionChoice::Resume { id } => format!("resume {id}"),
        });
        words.collect()
    }
}

/// The agent as registered with a runtime; all its sessions report to one `Fake`.
pub(super) struct FakeBackend(pub(super) Arc<Fake>);

#[async_trait]
impl Backend for FakeBackend {
    fn name(&self) -> &str {
        "fake"
    }
    fn choose_session(&self) -> Option<String> {
        let n = self.0.sessions.fetch_add(1, Ordering::SeqCst) + 1;
        Some(format!("s{n}"))
    }
    async fn check(&self, _: &BackendSpec) -> Result<BackendVersion, BackendError> {
        let version = "1".to_owned();
        Ok(BackendVersion { version })
    }
    async fn open(&self, spec: BackendSpec) -> Result<Box<dyn BackendSession>, BackendError> {
        self.0.opened.lock().unwrap().push(spec.session.clone());
        self.0.processes.send_modify(|count| *count += 1);
        let id = spec.session.id().unwrap_or("own").to_owned();
        Ok(Box::new(FakeAgentProcess {
            fake: Arc::clone(&self.0),
            id,
            has_reported_session: AtomicBool::new(false),
            is_running: AtomicBool::new(false),
            is_gone: AtomicBool::new(false),
            stop: Notify::new(),
            answered: Notify::new(),
        }))
    }
}

struct FakeAgentProcess {
    fake: Arc<Fake>,
    id: String,
    has_reported_session: AtomicBool,
    is_running: AtomicBool,
    is_gone: AtomicBool,
    stop: Notify,
    answered: Notify,
}

impl FakeAgentProcess {
    async fn play(
        &self,
        script: AgentScript,
        events: &mpsc::Sender<BackendEvent>,
    ) -> BackendOutcome {
        if !script.is_silent && !self.has_reported_session.swap(true, Ordering::SeqCst) {
            let session_id = self.id.clone();
            let model = Some("fake-1".to_owned());
            let _ = events
                .send(BackendEvent::Started { session_id, model })
                .await;
        }
        for step in script.steps {
            match step {
                PromptStep::Tell(event) => drop(events.send(event).await),
                PromptStep::Answered => self.answered.notified().await,
                PromptStep::Wait(gate) => gate.pass().await,
            }
        }
        let completed = BackendOutcome {
            result: Ok(BackendEnd::Completed),
            usage: used(3),
            ..failed(BackendErrorKind::Failed)
        };
        script.outcome.unwrap_or(completed)
    }

    fn end(&self) {
        if !self.is_gone.swap(true, Ordering::SeqCst) {
            self.fake.processes.send_modify(|count| *count -= 1);
        }
    }
}

impl Drop for FakeAgentProcess {
    fn drop(&mut self) {
        self.end();
    }
}

#[async_trait]
impl BackendSession for FakeAgentProcess {
    fn status(&self) -> BackendStatus {
        match (
            self.is_gone.load(Ordering::SeqCst),
            self.is_running.load(Ordering::SeqCst),
        ) {
            (true, _) => BackendStatus::Cancelled,
            (_, true) => BackendStatus::Running,
            _ => BackendStatus::Idle,
        }
    }

    async fn prompt(&self, prompt: &str, events: mpsc::Sender<BackendEvent>) -> BackendOutcome {
        self.fake.prompts.lock().unwrap().push(prompt.to_owned());
        let script = self.fake.scripts.lock().unwrap().pop_front();
        let script = script.expect("the script has a run for it");
        let dies = script.is_silent;
        self.is_running.store(true, Ordering::SeqCst);
        let outcome = tokio::select! {
            biased;
            () = self.stop.notified() => BackendOutcome {
                result: Ok(BackendEnd::Interrupted),
                usage: used(2),
                ..failed(BackendErrorKind::Failed)
            },
            outcome = self.play(script, &events) => outcome,
        };
        self.is_running.store(false, Ordering::SeqCst);
        let exit = dies.then(BackendExit::default);
        if dies {
            self.end();
        }
        let session_id = (!dies).then(|| self.id.clone());
        BackendOutcome {
            session_id,
            exit,
            ..outcome
        }
    }

    async fn steer(&self, text: &str) -> Result<Steered, BackendError> {
        self.fake.steers.lock().unwrap().push(text.to_owned());
        if self.fake.takes_steers.load(Ordering::SeqCst) {
            Ok(Steered::Accepted)
        } else {
            Ok(Steered::Rejected)
        }
    }

    async fn interrupt(&self) -> Result<(), BackendError> {
        self.stop.notify_one();
        Ok(())
    }

    async fn answer(
        &self,
        request: &str,
        decision: PermissionDecision,
    ) -> Result<(), BackendError> {
        let is_allowed = matches!(decision, PermissionDecision::Allow);
        let mut answers = self.fake.answers.lock().unwrap();
        answers.push((request.to_owned(), is_allowed));
        self.answered.notify_one();
        Ok(())
    }

    async fn close(&self) -> BackendExit {
        self.end();
        self.stop.notify_one();
        BackendExit::default()
    }
}
