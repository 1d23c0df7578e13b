//! The slot of a session's thread, active or idle.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::history::History;
use windlass_core::typed_id::SessionId;
use windlass_store::{Journal, JournalError};
use windlass_turn::Thread;

use super::actor::{Actor, IdleThread};
use super::command::{ReplySender, ThreadCommand};
use super::fault::{LeftoverWork, ThreadFault};
use super::load::catch_up;
use crate::inner::Inner;
use crate::steps::backend::ProcessSlot;
use windlass_core::lock::lock;

/// The slot of a session's thread.
pub(crate) struct Slot {
    pub(crate) session_id: SessionId,
    mailbox: Mutex<Mailbox>,
    commands_changed: Notify,
    published: Mutex<Option<History>>,
    /// The slot for the process of the thread's external agent.
    pub(crate) process: Arc<ProcessSlot>,
    /// The state that a reader loaded before there was any actor.
    read_thread: tokio::sync::Mutex<Option<Box<Thread>>>,
}

#[derive(Default)]
struct Mailbox {
    commands: VecDeque<ThreadCommand>,
    state: SlotState,
    /// Number of the current actor. An earlier one cannot change the state of a later one.
    actor_id: u64,
}

enum SlotState {
    /// There is no actor. The thread is in memory once an actor has run.
    Idle(Option<Box<IdleThread>>),
    Working,
    /// The last actor ended without parking its thread.
    Faulted(ThreadFault),
    /// The session is removed.
    Closed,
}

impl Default for SlotState {
    fn default() -> Self {
        Self::Idle(None)
    }
}

impl Mailbox {
    fn end_actor(&mut self, state: SlotState) {
        self.state = state;
        self.actor_id += 1;
    }
}

/// The inputs that an actor starts with.
pub(super) struct ActorStart {
    pub(super) actor_id: u64,
    pub(super) idle: Option<Box<IdleThread>>,
    pub(super) leftover: LeftoverWork,
}

impl Slot {
    pub(crate) fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            mailbox: Mutex::default(),
            commands_changed: Notify::new(),
            published: Mutex::default(),
            process: Arc::default(),
            read_thread: tokio::sync::Mutex::default(),
        }
    }

    /// Puts a command in the mailbox and starts an actor if none is running.
    pub(crate) fn send(self: &Arc<Self>, inner: &Arc<Inner>, command: ThreadCommand) -> Result<()> {
        let mut mailbox = lock(&self.mailbox);
        if matches!(mailbox.state, SlotState::Closed) {
            return Err(AgentLoopError::SessionNotFound(self.session_id));
        }
        if inner.is_stopping() {
            return Err(AgentLoopError::ShuttingDown);
        }
        mailbox.commands.push_back(command);
        let (idle, leftover) = match std::mem::replace(&mut mailbox.state, SlotState::Working) {
            SlotState::Idle(idle) => (idle, LeftoverWork::default()),
            SlotState::Faulted(fault) => (None, fault.leftover),
            SlotState::Working | SlotState::Closed => {
                drop(mailbox);
                self.commands_changed.notify_one();
                return Ok(());
            }
        };
        let actor_id = mailbox.actor_id;
        drop(mailbox);
        let start = ActorStart {
            actor_id,
            idle,
            leftover,
        };
        tokio::spawn(Actor::work(Arc::clone(inner), Arc::clone(self), start));
        Ok(())
    }

    /// Puts a command in the mailbox of a running actor. An idle thread does not need it. It is also called where no actor could be started: when a
    /// caller is dropped outside of the executor.
    pub(crate) fn send_if_working(&self, command: ThreadCommand) {
        let mut mailbox = lock(&self.mailbox);
        if matches!(mailbox.state, SlotState::Working) {
            mailbox.commands.push_back(command);
            drop(mailbox);
            self.commands_changed.notify_one();
        }
    }

    /// Requests the end of a running actor, and returns a receiver for its end. An actor that starts later finds that the runtime is stopping.
    pub(crate) fn retire(&self, patience: Duration) -> Option<oneshot::Receiver<Result<()>>> {
        let mut mailbox = lock(&self.mailbox);
        match &mut mailbox.state {
            SlotState::Working => {}
            SlotState::Idle(idle) => {
                *idle = None;
                return None;
            }
            SlotState::Faulted(_) | SlotState::Closed => return None,
        }
        let (reply, retired) = oneshot::channel();
        mailbox
            .commands
            .push_back(ThreadCommand::Retire { patience, reply });
        drop(mailbox);
        self.commands_changed.notify_one();
        Some(retired)
    }

    /// Sends a command and waits for its answer.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        inner: &Arc<Inner>,
        command: impl FnOnce(ReplySender<T>) -> ThreadCommand,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(inner, command(reply))?;
        answer.await.unwrap_or_else(|_| Err(self.faulted()))
    }

    /// Returns why a command got no answer.
    fn faulted(&self) -> AgentLoopError {
        let (session_id, mailbox) = (self.session_id, lock(&self.mailbox));
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
        lock(&self.mailbox).commands.pop_front()
    }

    /// Waits until a command may have arrived.
    pub(super) async fn command_arrived(&self) {
        self.commands_changed.notified().await;
    }

    /// Parks the thread, unless a command arrived in the meantime.
    pub(super) fn park(&self, idle: Box<IdleThread>) -> std::result::Result<(), Box<IdleThread>> {
        let mut mailbox = lock(&self.mailbox);
        if !mailbox.commands.is_empty() {
            return Err(idle);
        }
        mailbox.end_actor(SlotState::Idle(Some(idle)));
        Ok(())
    }

    /// An actor ends without parking its thread: the journal has everything, and the next actor folds it again. Commands that it had not read are
    /// dropped, which their senders get as an error. Returns the actor's number; `None` if it has ended before.
    pub(super) fn fault(&self, actor_id: u64, fault: ThreadFault) -> Option<u64> {
        let command = {
            let mut mailbox = lock(&self.mailbox);
            if mailbox.actor_id != actor_id {
                return None;
            }
            mailbox.end_actor(SlotState::Faulted(fault));
            std::mem::take(&mut mailbox.commands)
        };
        drop(command);
        Some(actor_id + 1)
    }

    /// Returns whether the slot is still in the fault that began with this number.
    pub(super) fn is_faulted(&self, actor_id: u64) -> bool {
        let mailbox = lock(&self.mailbox);
        mailbox.actor_id == actor_id && matches!(mailbox.state, SlotState::Faulted(_))
    }

    /// Returns whether a waiting command requests work.
    pub(super) fn has_work_command(&self) -> bool {
        lock(&self.mailbox)
            .commands
            .iter()
            .any(ThreadCommand::resumes_turn)
    }

    /// Reads the recorded thread, from where the previous read ended.
    pub(crate) async fn read(
        &self,
        journal: &dyn Journal,
    ) -> std::result::Result<Thread, JournalError> {
        let mut read_thread = self.read_thread.lock().await;
        let thread = read_thread.get_or_insert_with(|| Box::new(Thread::new(self.session_id)));
        catch_up(journal, thread).await?;
        Ok(Thread::clone(thread))
    }

    /// Returns the state that a reader loaded, so that an actor continues from it.
    pub(super) async fn take_read_thread(&self) -> Thread {
        let read_thread = self.read_thread.lock().await.take();
        read_thread.map_or_else(|| Thread::new(self.session_id), |thread| *thread)
    }

    /// Returns the approximate size of the conversation that the slot holds while no actor is running.
    pub(crate) fn idle_bytes(&self) -> usize {
        let read_thread = self.read_thread.try_lock().ok();
        let read_thread = read_thread
            .as_ref()
            .and_then(|read_thread| read_thread.as_deref());
        let read_thread = read_thread.map_or(0, Thread::conversation_bytes);
        match &lock(&self.mailbox).state {
            SlotState::Idle(Some(idle)) => read_thread + idle.thread.conversation_bytes(),
            _ => read_thread,
        }
    }

    pub(super) fn close(&self) {
        let command = {
            let mut mailbox = lock(&self.mailbox);
            mailbox.end_actor(SlotState::Closed);
            std::mem::take(&mut mailbox.commands)
        };
        drop(command);
    }

    /// Publishes the recorded conversation to readers.
    pub(super) fn publish(&self, history: &History) {
        *lock(&self.published) = Some(history.clone());
    }

    /// Returns the recorded conversation; `None` before the thread was first opened.
    pub(crate) fn published(&self) -> Option<History> {
        lock(&self.published).clone()
    }
}
