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
    /// The thread at rest; `None` while an actor works, and before the first.
    resting: Option<Box<Resting>>,
    working: bool,
    closed: bool,
    /// Counts the actors. What an earlier one still has to say does not concern a later one.
    life: u64,
    /// Why the last one was gone without laying its thread to rest.
    fault: Option<String>,
    /// Whether it was at work on a turn then, and went because the journal failed and not because of the turn.
    has_let_go: bool,
    /// Whether somebody tries again with that turn.
    is_tried_again: bool,
}

impl Mailbox {
    fn end_life(&mut self) {
        self.working = false;
        self.life += 1;
    }
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
        if mailbox.closed {
            return Err(AgentLoopError::SessionNotFound(self.session_id));
        }
        if inner.is_stopping() {
            return Err(AgentLoopError::ShuttingDown);
        }
        mailbox.mail.push_back(mail);
        if mailbox.working {
            drop(mailbox);
            self.bell.notify_one();
        } else {
            mailbox.working = true;
            let (life, resting) = (mailbox.life, mailbox.resting.take());
            drop(mailbox);
            let (inner, slot) = (Arc::clone(inner), Arc::clone(self));
            tokio::spawn(Actor::work(inner, slot, life, resting));
        }
        Ok(())
    }

    /// Puts mail in the mailbox of an actor that works. To one that rests it would say nothing, and this can be called
    /// where nobody could be started: while a caller is dropped outside of the executor.
    pub(crate) fn tell(&self, mail: Mail) {
        let mut mailbox = self.mailbox();
        if mailbox.working {
            mailbox.mail.push_back(mail);
            drop(mailbox);
            self.bell.notify_one();
        }
    }

    /// Tells an actor that works to come to an end; returns how to wait for it. One that starts later finds that the
    /// runtime is stopping.
    pub(crate) fn retire(&self, patience: Duration) -> Option<oneshot::Receiver<Result<()>>> {
        let mut mailbox = self.mailbox();
        mailbox.resting = None;
        if !mailbox.working {
            return None;
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
        if mailbox.closed {
            return AgentLoopError::SessionNotFound(session_id);
        }
        let cause = mailbox.fault.as_deref().unwrap_or("nobody answered");
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
        mailbox.resting = Some(resting);
        mailbox.end_life();
        Ok(())
    }

    /// An actor is gone without laying its thread to rest: the journal has everything, the next one folds it anew.
    /// Mail that it had not taken is dropped, and whoever waits for an answer hears of it. An actor that has ended
    /// otherwise before has nothing to say.
    pub(super) fn fault(&self, life: u64, cause: impl ToString) {
        self.end_in_fault(life, cause.to_string(), false);
    }

    /// The journal cannot be written to. Before anybody hears of it: whoever tries again at once must find a new actor.
    pub(super) fn fault_of_journal(&self, life: u64, error: &JournalError, is_at_work: bool) {
        let may_recover = matches!(error, JournalError::Unavailable(_));
        let has_let_go = may_recover && (is_at_work || self.has_let_go());
        self.end_in_fault(life, error.to_string(), has_let_go);
    }

    /// Tells whether somebody has to try again with a turn that was let go: it is so, and nobody does yet.
    pub(super) fn begin_trying(&self) -> bool {
        let mut mailbox = self.mailbox();
        mailbox.has_let_go && !std::mem::replace(&mut mailbox.is_tried_again, true)
    }

    /// Nobody tries again any more.
    pub(super) fn end_trying(&self) {
        self.mailbox().is_tried_again = false;
    }

    fn end_in_fault(&self, life: u64, cause: String, has_let_go: bool) {
        let mail = {
            let mut mailbox = self.mailbox();
            if mailbox.life != life {
                return;
            }
            mailbox.end_life();
            mailbox.resting = None;
            mailbox.fault = Some(cause);
            mailbox.has_let_go = has_let_go;
            std::mem::take(&mut mailbox.mail)
        };
        drop(mail);
    }

    /// Tells whether the actor before let go of its turn because the journal failed.
    pub(super) fn has_let_go(&self) -> bool {
        self.mailbox().has_let_go
    }

    /// It is recorded that the turn was let go.
    pub(super) fn forget_let_go(&self) {
        self.mailbox().has_let_go = false;
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

    pub(super) fn close(&self) {
        let mail = {
            let mut mailbox = self.mailbox();
            mailbox.closed = true;
            mailbox.end_life();
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
