//! The slot of a session's thread, active or idle.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::history::History;
use windlass_core::typed_id::SessionId;
use windlass_store::{Journal, JournalError};
use windlass_turn::Thread;

use super::actor::{Actor, IdleThread};
use super::command::{Reply, ThreadCommand};
use super::fault::{Debt, Fault};
use super::fold::catch_up;
use crate::inner::Inner;
use crate::steps::backend::ProcessSlot;

/// The slot of a session's thread.
pub(crate) struct Slot {
    pub(crate) session_id: SessionId,
    mailbox: Mutex<Mailbox>,
    bell: Notify,
    published: Mutex<Option<History>>,
    /// The slot for the process of the thread's external agent.
    pub(crate) process: Arc<ProcessSlot>,
    /// The state that a reader loaded before there was any actor.
    looked: tokio::sync::Mutex<Option<Box<Thread>>>,
}

#[derive(Default)]
struct Mailbox {
    commands: VecDeque<ThreadCommand>,
    state: SlotState,
    /// Number of the current actor. An earlier one cannot change the state of a later one.
    life: u64,
}

enum SlotState {
    /// There is no actor. The thread is in memory once an actor has run.
    Idle(Option<Box<IdleThread>>),
    Working,
    /// The last actor ended without parking its thread.
    Faulted(Fault),
    /// The session is removed.
    Closed,
}

impl Default for SlotState {
    fn default() -> Self {
        Self::Idle(None)
    }
}

impl Mailbox {
    fn end_life(&mut self, state: SlotState) {
        self.state = state;
        self.life += 1;
    }
}

/// The inputs that an actor starts with.
pub(super) struct ActorStart {
    pub(super) life: u64,
    pub(super) resting: Option<Box<IdleThread>>,
    pub(super) debt: Debt,
}

impl Slot {
    pub(crate) fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            mailbox: Mutex::default(),
            bell: Notify::new(),
            published: Mutex::default(),
            process: Arc::default(),
            looked: tokio::sync::Mutex::default(),
        }
    }

    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts a command in the mailbox and starts an actor if none is running.
    pub(crate) fn send(self: &Arc<Self>, inner: &Arc<Inner>, command: ThreadCommand) -> Result<()> {
        let mut mailbox = self.mailbox();
        if matches!(mailbox.state, SlotState::Closed) {
            return Err(AgentLoopError::SessionNotFound(self.session_id));
        }
        if inner.is_stopping() {
            return Err(AgentLoopError::ShuttingDown);
        }
        mailbox.commands.push_back(command);
        let (resting, debt) = match std::mem::replace(&mut mailbox.state, SlotState::Working) {
            SlotState::Idle(resting) => (resting, Debt::default()),
            SlotState::Faulted(fault) => (None, fault.debt),
            SlotState::Working | SlotState::Closed => {
                drop(mailbox);
                self.bell.notify_one();
                return Ok(());
            }
        };
        let life = mailbox.life;
        drop(mailbox);
        let start = ActorStart {
            life,
            resting,
            debt,
        };
        tokio::spawn(Actor::work(Arc::clone(inner), Arc::clone(self), start));
        Ok(())
    }

    /// Puts a command in the mailbox of a running actor. An idle thread does not need it. It is also called where no actor could be started: when a
    /// caller is dropped outside of the executor.
    pub(crate) fn tell(&self, command: ThreadCommand) {
        let mut mailbox = self.mailbox();
        if matches!(mailbox.state, SlotState::Working) {
            mailbox.commands.push_back(command);
            drop(mailbox);
            self.bell.notify_one();
        }
    }

    /// Makes a running actor end; returns how to wait for it. An actor that starts later finds that the runtime is stopping.
    pub(crate) fn retire(&self, patience: Duration) -> Option<oneshot::Receiver<Result<()>>> {
        let mut mailbox = self.mailbox();
        match &mut mailbox.state {
            SlotState::Working => {}
            SlotState::Idle(resting) => {
                *resting = None;
                return None;
            }
            SlotState::Faulted(_) | SlotState::Closed => return None,
        }
        let (reply, retired) = oneshot::channel();
        mailbox
            .commands
            .push_back(ThreadCommand::Retire { patience, reply });
        drop(mailbox);
        self.bell.notify_one();
        Some(retired)
    }

    /// Sends a command and waits for its answer.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        inner: &Arc<Inner>,
        command: impl FnOnce(Reply<T>) -> ThreadCommand,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(inner, command(reply))?;
        answer.await.unwrap_or_else(|_| Err(self.faulted()))
    }

    /// Returns why a command got no answer.
    fn faulted(&self) -> AgentLoopError {
        let (session_id, mailbox) = (self.session_id, self.mailbox());
        let cause = match &mailbox.state {
            SlotState::Closed => return AgentLoopError::SessionNotFound(session_id),
            SlotState::Faulted(fault) => fault.to_string(),
            SlotState::Idle(_) | SlotState::Working => "it was started again meanwhile".to_owned(),
        };
        AgentLoopError::StoreUnavailable(format!(
            "the thread of session {session_id} stopped ({cause}); what was acknowledged is safe, try again"
        ))
    }

    /// Removes the next command from the mailbox.
    pub(super) fn next_command(&self) -> Option<ThreadCommand> {
        self.mailbox().commands.pop_front()
    }

    /// Waits until a command may have arrived.
    pub(super) async fn command_arrived(&self) {
        self.bell.notified().await;
    }

    /// Parks the thread, unless a command arrived in the meantime.
    pub(super) fn park(
        &self,
        resting: Box<IdleThread>,
    ) -> std::result::Result<(), Box<IdleThread>> {
        let mut mailbox = self.mailbox();
        if !mailbox.commands.is_empty() {
            return Err(resting);
        }
        mailbox.end_life(SlotState::Idle(Some(resting)));
        Ok(())
    }

    /// An actor ends without parking its thread: the journal has everything, and the next actor folds it again. Commands that it had not read are
    /// dropped, which their senders get as an error. Returns the actor's number; `None` if it has ended before.
    pub(super) fn fault(&self, life: u64, fault: Fault) -> Option<u64> {
        let command = {
            let mut mailbox = self.mailbox();
            if mailbox.life != life {
                return None;
            }
            mailbox.end_life(SlotState::Faulted(fault));
            std::mem::take(&mut mailbox.commands)
        };
        drop(command);
        Some(life + 1)
    }

    /// Returns whether the slot is still in the fault that began with this number.
    pub(super) fn is_faulted(&self, life: u64) -> bool {
        let mailbox = self.mailbox();
        mailbox.life == life && matches!(mailbox.state, SlotState::Faulted(_))
    }

    /// Returns whether a waiting command requests work.
    pub(super) fn is_asked_for_work(&self) -> bool {
        self.mailbox()
            .commands
            .iter()
            .any(ThreadCommand::resumes_turn)
    }

    /// Reads the recorded thread, from where the previous read ended.
    pub(crate) async fn look(
        &self,
        journal: &dyn Journal,
    ) -> std::result::Result<Thread, JournalError> {
        let mut looked = self.looked.lock().await;
        let thread = looked.get_or_insert_with(|| Box::new(Thread::new(self.session_id)));
        catch_up(journal, thread).await?;
        Ok(Thread::clone(thread))
    }

    /// Returns the state that a reader loaded, so that an actor continues from it.
    pub(super) async fn take_looked(&self) -> Thread {
        let looked = self.looked.lock().await.take();
        looked.map_or_else(|| Thread::new(self.session_id), |thread| *thread)
    }

    /// Returns the approximate size of the conversation that the slot holds while no actor is running.
    pub(crate) fn idle_bytes(&self) -> usize {
        let looked = self.looked.try_lock().ok();
        let looked = looked.as_ref().and_then(|looked| looked.as_deref());
        let looked = looked.map_or(0, Thread::conversation_bytes);
        match &self.mailbox().state {
            SlotState::Idle(Some(resting)) => looked + resting.thread.conversation_bytes(),
            _ => looked,
        }
    }

    pub(super) fn close(&self) {
        let command = {
            let mut mailbox = self.mailbox();
            mailbox.end_life(SlotState::Closed);
            std::mem::take(&mut mailbox.commands)
        };
        drop(command);
    }

    /// Publishes the recorded conversation to readers.
    pub(super) fn publish(&self, history: &History) {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(history.clone());
    }

    /// Returns the recorded conversation; `None` before the thread was first opened.
    pub(crate) fn published(&self) -> Option<History> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
