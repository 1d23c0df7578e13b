//! One process of an agent: what all of them have in common.
//!
//! [`open`] starts the process and a task, the only one that touches its pipes. Whoever holds the session sends that task what is
//! to be done and waits for its answer.

mod actor;
mod clock;
mod finish;
mod host;
mod input;
mod outbox;
mod start;

use std::time::Duration;

use async_trait::async_trait;
use tokio::sync::{mpsc, oneshot, watch};
use windlass_core::backend::{
    BackendError, BackendErrorKind, BackendEvent, BackendExit, BackendOutcome, BackendSession,
    BackendSpec, BackendStatus, PermissionDecision, Steered,
};
use windlass_process::{Ladder, Place, Rung};

use crate::place::Places;
use crate::protocol::Protocol;

pub(crate) use start::{Start, check};

/// How processes of agents are read and ended.
#[derive(Debug, Clone)]
pub struct SessionSettings {
    /// How long a running turn may take to end by itself when its process is to be ended.
    pub interrupt_grace: Duration,
    /// How the process is asked to end after that, before it is killed.
    pub ladder: Ladder,
    /// How long a line may be.
    pub max_line_bytes: usize,
}

impl Default for SessionSettings {
    fn default() -> Self {
        let rungs = [Rung::CloseInput, Rung::Terminate];
        Self {
            interrupt_grace: Duration::from_secs(2),
            ladder: Ladder(rungs.map(|rung| (rung, Duration::from_secs(2))).into()),
            max_line_bytes: 8 * 1024 * 1024,
        }
    }
}

/// What the holder of a session wants done.
enum Command {
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

/// A process of an agent, from the side of who holds it.
struct Session {
    commands: mpsc::UnboundedSender<Command>,
    status: watch::Receiver<BackendStatus>,
    exit: watch::Receiver<Option<BackendExit>>,
}

/// Finds the place for an agent.
pub(crate) fn place(places: &dyn Places, spec: &BackendSpec) -> Result<Place, BackendError> {
    let placed = places.place(spec);
    placed.map_err(|error| BackendError::new(BackendErrorKind::SpawnFailed, error.to_string()))
}

/// Starts a process and what looks after it.
pub(crate) async fn open(
    spec: BackendSpec,
    start: Start,
    protocol: Box<dyn Protocol>,
) -> Result<Box<dyn BackendSession>, BackendError> {
    if let Some(model) = spec.model.as_deref().filter(|model| model.starts_with('-')) {
        let message = format!("`{model}` is an option and no name of a model");
        return Err(BackendError::new(BackendErrorKind::BadInvocation, message));
    }
    let (commands, inbox) = mpsc::unbounded_channel();
    let (tell_status, status) = watch::channel(BackendStatus::Idle);
    let (tell_exit, exit) = watch::channel(None);
    let settings = start.settings.clone();
    let started = start.start(&spec).await?;
    let actor = actor::Actor::new(spec, settings, started, protocol, inbox, tell_status);
    tokio::spawn(async move {
        let exit = actor.run().await;
        // The status was set before, so that nobody sees the end without it.
        let _ = tell_exit.send(Some(exit));
    });
    Ok(Box::new(Session {
        commands,
        status,
        exit,
    }))
}

fn closed() -> BackendError {
    BackendError::new(BackendErrorKind::Closed, "open the session again")
}

impl Session {
    /// Sends a command and waits for its answer; `None` when the process is gone.
    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Option<T> {
        let (reply, answer) = oneshot::channel();
        self.commands.send(command(reply)).ok()?;
        answer.await.ok()
    }
}

#[async_trait]
impl BackendSession for Session {
    fn status(&self) -> BackendStatus {
        self.status.borrow().clone()
    }

    async fn prompt(&self, prompt: &str, events: mpsc::Sender<BackendEvent>) -> BackendOutcome {
        if prompt.trim().is_empty() {
            let message = "the prompt is empty; say at least that the agent should go on";
            let error = BackendError::new(BackendErrorKind::BadInvocation, message);
            return BackendOutcome::failed(error);
        }
        let prompt = prompt.to_owned();
        let asked = self.ask(|reply| Command::Prompt {
            prompt,
            events,
            reply,
        });
        let outcome = asked.await;
        outcome.unwrap_or_else(|| BackendOutcome::failed(closed()))
    }

    async fn steer(&self, text: &str) -> Result<Steered, BackendError> {
        let text = text.to_owned();
        let asked = self.ask(|reply| Command::Steer { text, reply });
        asked.await.ok_or_else(closed)
    }

    async fn interrupt(&self) -> Result<(), BackendError> {
        let asked = self.ask(|reply| Command::Interrupt { reply });
        asked.await.ok_or_else(closed)
    }

    async fn answer(
        &self,
        request: &str,
        decision: PermissionDecision,
    ) -> Result<(), BackendError> {
        let request = request.to_owned();
        let asked = self.ask(|reply| Command::Answer {
            request,
            decision,
            reply,
        });
        asked.await.unwrap_or_else(|| Err(closed()))
    }

    async fn close(&self) -> BackendExit {
        let _ = self.commands.send(Command::Close);
        let mut exit = self.exit.clone();
        let seen = exit.wait_for(Option::is_some).await;
        seen.ok().and_then(|exit| exit.clone()).unwrap_or_default()
    }
}
