//! One process of an agent: the parts that all protocols share.
//!
//! [`open`] starts the process and a task that alone accesses its pipes. A session handle sends commands to that task and waits for its replies.

mod actor;
mod deadlines;
mod finish;
mod host;
mod input;
mod outbox;
mod program;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use windlass_core::backend::{
    BackendError, BackendErrorKind, BackendEvent, BackendExit, BackendOutcome, BackendSession,
    BackendSpec, BackendStatus, PermissionDecision, Steered,
};
use windlass_process::{ShutdownSequence, ShutdownStep};

use crate::protocol::Protocol;

pub(crate) use program::AgentProgram;

/// How agent processes are read and ended.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// Time for an interrupted turn to end before its process is shut down.
    pub interrupt_grace: Duration,
    /// The shutdown sequence after that, up to the kill.
    pub shutdown: ShutdownSequence,
    /// Maximum length of a line in bytes.
    pub max_line_bytes: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        let steps = [ShutdownStep::CloseInput, ShutdownStep::Terminate];
        Self {
            interrupt_grace: Duration::from_secs(2),
            shutdown: ShutdownSequence(steps.map(|step| (step, Duration::from_secs(2))).into()),
            max_line_bytes: 8 * 1024 * 1024,
        }
    }
}

/// A command from the session handle.
enum SessionCommand {
    Prompt {
        prompt: String,
        events: mpsc::Sender<BackendEvent>,
        reply: oneshot::Sender<BackendOutcome>,
    },
    Steer {
        text: String,
        reply: oneshot::Sender<Steered>,
    },
    Interrupt {
        reply: oneshot::Sender<()>,
    },
    Answer {
        request: String,
        decision: PermissionDecision,
        reply: oneshot::Sender<Result<(), BackendError>>,
    },
    Close,
}

/// A handle to an agent's process.
struct AgentSession {
    commands: mpsc::UnboundedSender<SessionCommand>,
    status: watch::Receiver<BackendStatus>,
    exit: watch::Receiver<Option<BackendExit>>,
}

/// Starts a process and its task.
pub(crate) async fn open(
    spec: BackendSpec,
    program: AgentProgram,
    protocol: Box<dyn Protocol>,
) -> Result<Box<dyn BackendSession>, BackendError> {
    if let Some(model) = spec.model.as_deref().filter(|model| model.starts_with('-')) {
        let message = format!("`{model}` is an option, not a model name");
        return Err(BackendError::new(BackendErrorKind::BadInvocation, message));
    }
    let (commands, inbox) = mpsc::unbounded_channel();
    let (set_status, status) = watch::channel(BackendStatus::Idle);
    let (set_exit, exit) = watch::channel(None);
    let settings = program.settings.clone();
    let process = program.start(&spec).await?;
    let actor = actor::Actor::new(spec, settings, process, protocol, inbox, set_status);
    tokio::spawn(async move {
        let exit = actor.run().await;
        // The status was set before, so the exit is never visible without it.
        let _ = set_exit.send(Some(exit));
    });
    Ok(Box::new(AgentSession {
        commands,
        status,
        exit,
    }))
}

fn closed() -> BackendError {
    BackendError::new(BackendErrorKind::Closed, "open the session again")
}

impl AgentSession {
    /// Sends a command and waits for its reply; `None` if the process is gone.
    async fn ask<T>(
        &self,
        command: impl FnOnce(oneshot::Sender<T>) -> SessionCommand,
    ) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).ok()?;
        answer.await.ok()
    }
}

#[async_trait]
impl BackendSession for AgentSession {
    fn status(&self) -> BackendStatus {
        self.status.borrow().clone()
    }

    async fn prompt(&self, prompt: &str, events: mpsc::Sender<BackendEvent>) -> BackendOutcome {
        if prompt.trim().is_empty() {
            let message = "the prompt is empty; write at least `continue`";
            let error = BackendError::new(BackendErrorKind::BadInvocation, message);
            return BackendOutcome::failed(error);
        }
        let prompt = prompt.to_owned();
        let request = self.ask(|reply| SessionCommand::Prompt {
            prompt,
            events,
            reply,
        });
        let outcome = request.await;
        outcome.unwrap_or_else(|| BackendOutcome::failed(closed()))
    }

    async fn steer(&self, text: &str) -> Result<Steered, BackendError> {
        let text = text.to_owned();
        let request = self.ask(|reply| SessionCommand::Steer { text, reply });
        request.await.ok_or_else(closed)
    }

    async fn interrupt(&self) -> Result<(), BackendError> {
        let request = self.ask(|reply| SessionCommand::Interrupt { reply });
        request.await.ok_or_else(closed)
    }

    async fn answer(
        &self,
        request: &str,
        decision: PermissionDecision,
    ) -> Result<(), BackendError> {
        let request = request.to_owned();
        let request = self.ask(|reply| SessionCommand::Answer {
            request,
            decision,
            reply,
        });
        request.await.unwrap_or_else(|| Err(closed()))
    }

    async fn close(&self) -> BackendExit {
        let _ = self.commands.send(SessionCommand::Close);
        let mut exit = self.exit.clone();
        let seen = exit.wait_for(Option::is_some).await;
        seen.ok().and_then(|exit| exit.clone()).unwrap_or_default()
    }
}
