//! The place of a session's thread, whether it works or rests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, oneshot};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::history::History;
use windlass_core::typed_id::SessionId;
use windlass_store::{Journal, JournalError};
use windlass_turn::Thread;

use super::actor::{Actor, Resting};
use super::fault::{Debt, Fault};
use super::fold::catch_up;
use super::mail::{Mail, Reply};
use crate::inner::Inner;
use crate::steps::backend::Seat;

/// The place of a session's thread.
pub(crate) struct Slot {
    pub(crate) session_id: SessionId,
    mailbox: Mutex<Mailbox>,
    bell: Notify,
    published: Mutex<Option<History>>,
    /// Where the process of the thread's backend has its place.
    pub(crate) seat: Arc<Seat>,
    /// What somebody has read who only looked, before there was any actor.
    looked: tokio::sync::Mutex<Option<Box<Thread>>>,
}

#[derive(Default)]
struct Mailbox {
    mail: VecDeque<Mail>,
    state: SlotState,
    /// Counts the actors. An earlier one cannot change the state of a later one.
    life: u64,
}

enum SlotState {
    /// There is no actor. The thread is in memory once one has worked on it.
    Idle(Option<Box<Resting>>),
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

/// What an actor starts with.
pub(super) struct ActorStart {
    pub(super) life: u64,
    pub(super) resting: Option<Box<Resting>>,
    pub(super) debt: Debt,
}

impl Slot {
    pub(crate) fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            mailbox: Mutex::default(),
            bell: Notify::new(),
            published: Mutex::default(),
            seat: Arc::default(),
            looked: tokio::sync::Mutex::default(),
        }
    }

    fn mailbox(&self) -> MutexGuard<'_, Mailbox> {
        self.mailbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts mail in the mailbox and makes sure that somebody works on it.
    pub(crate) fn send(self: &Arc<Self>, inner: &Arc<Inner>, mail: Mail) -> Result<()> {
        let mut mailbox = self.mailbox();
        if matches!(mailbox.state, SlotState::Closed) {
            return Err(AgentLoopError::SessionNotFound(self.session_id));
        }
        if inner.is_stopping() {
            return Err(AgentLoopError::ShuttingDown);
        }
        mailbox.mail.push_back(mail);
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

    /// Puts mail in the mailbox of an actor that works. To one that rests it would say nothing, and this can be called
    /// where nobody could be started: while a caller is dropped outside of the executor.
    pub(crate) fn tell(&self, mail: Mail) {
        let mut mailbox = self.mailbox();
        if matches!(mailbox.state, SlotState::Working) {
            mailbox.mail.push_back(mail);
            drop(mailbox);
            self.bell.notify_one();
        }
    }

    /// Tells an actor that works to come to an end; returns how to wait for it. One that starts later finds that the
    /// runtime is stopping.
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
        mailbox.mail.push_back(Mail::Retire { patience, reply });
        drop(mailbox);
        self.bell.notify_one();
        Some(retired)
    }

    /// Sends mail that is answered, and waits for the answer.
    pub(crate) async fn ask<T>(
        self: &Arc<Self>,
        inner: &Arc<Inner>,
        mail: impl FnOnce(Reply<T>) -> Mail,
    ) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        self.send(inner, mail(reply))?;
        answer.await.unwrap_or_else(|_| Err(self.faulted()))
    }

    /// Why mail got no answer.
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

    /// Takes the next mail.
    pub(super) fn next_mail(&self) -> Option<Mail> {
        self.mailbox().mail.pop_front()
    }

    /// Waits until there may be mail.
    pub(super) async fn mail_arrived(&self) {
        self.bell.notified().await;
    }

    /// Lays the thread to rest, unless mail came in the meantime.
    pub(super) fn rest(&self, resting: Box<Resting>) -> std::result::Result<(), Box<Resting>> {
        let mut mailbox = self.mailbox();
        if !mailbox.mail.is_empty() {
            return Err(resting);
        }
        mailbox.end_life(SlotState::Idle(Some(resting)));
        Ok(())
    }

    /// An actor ends without parking its thread: the journal has everything, the next one folds it again. Mail that it had
    /// not taken is dropped, which its senders see as an error. Returns the actor's number; `None` for one that has ended
    /// before.
    pub(super) fn fault(&self, life: u64, fault: Fault) -> Option<u64> {
        let mail = {
            let mut mailbox = self.mailbox();
            if mailbox.life != life {
                return None;
            }
            mailbox.end_life(SlotState::Faulted(fault));
            std::mem::take(&mut mailbox.mail)
        };
        drop(mail);
        Some(life + 1)
    }

    /// Tells whether the slot is still in the fault that began with this number.
    pub(super) fn is_faulted(&self, life: u64) -> bool {
        let mailbox = self.mailbox();
        mailbox.life == life && matches!(mailbox.state, SlotState::Faulted(_))
    }

    /// Tells whether mail waits that asks for work.
    pub(super) fn is_asked_for_work(&self) -> bool {
        self.mailbox().mail.iter().any(Mail::takes_up)
    }

    /// Reads the thread as it is recorded, from where the last look ended.
    pub(crate) async fn look(
        &self,
        journal: &dyn Journal,
    ) -> std::result::Result<Thread, JournalError> {
        let mut looked = self.looked.lock().await;
        let thread = looked.get_or_insert_with(|| Box::new(Thread::new(self.session_id)));
        catch_up(journal, thread).await?;
        Ok(Thread::clone(thread))
    }

    /// Returns what was read by looking, for an actor that goes on from there.
    pub(super) async fn take_looked(&self) -> Thread {
        let looked = self.looked.lock().await.take();
        looked.map_or_else(|| Thread::new(self.session_id), |thread| *thread)
    }

    /// Returns the approximate size of the conversation that the slot holds while no actor works on it.
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
        let mail = {
            let mut mailbox = self.mailbox();
            mailbox.end_life(SlotState::Closed);
            std::mem::take(&mut mailbox.mail)
        };
        drop(mail);
    }

    /// Shows readers the conversation as it is recorded.
    pub(super) fn publish(&self, history: &History) {
        *self
            .published
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = Some(history.clone());
    }

    /// Returns the conversation as it is recorded; `None` before the thread was ever opened.
    pub(crate) fn published(&self) -> Option<History> {
        self.published
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}
