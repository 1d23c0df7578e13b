//! The place of a session's thread, whether it works or rests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{Notify, oneshot};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::history::History;
use windlass_core::typed_id::SessionId;

use super::actor::{Actor, Resting};
use super::mail::{Mail, Reply};
use crate::inner::Inner;

/// The place of a session's thread.
pub(crate) struct Slot {
    pub(crate) session_id: SessionId,
    desk: Mutex<Desk>,
    bell: Notify,
    published: Mutex<Option<History>>,
}

#[derive(Default)]
struct Desk {
    mail: VecDeque<Mail>,
    /// The thread at rest; `None` while an actor works, and before the first.
    resting: Option<Box<Resting>>,
    working: bool,
    closed: bool,
}

impl Slot {
    pub(crate) fn new(session_id: SessionId) -> Self {
        Self {
            session_id,
            desk: Mutex::default(),
            bell: Notify::new(),
            published: Mutex::default(),
        }
    }

    fn desk(&self) -> MutexGuard<'_, Desk> {
        self.desk.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts mail on the desk and makes sure that somebody works on it.
    pub(crate) fn send(self: &Arc<Self>, inner: &Arc<Inner>, mail: Mail) -> Result<()> {
        let mut desk = self.desk();
        if desk.closed {
            return Err(AgentLoopError::SessionNotFound(self.session_id));
        }
        desk.mail.push_back(mail);
        if desk.working {
            drop(desk);
            self.bell.notify_one();
        } else {
            desk.working = true;
            let resting = desk.resting.take();
            drop(desk);
            tokio::spawn(Actor::work(Arc::clone(inner), Arc::clone(self), resting));
        }
        Ok(())
    }

    /// Puts mail on the desk of an actor that works. To one that rests it would say nothing, and this can be called
    /// where nobody could be started: while a caller is dropped outside of the executor.
    pub(crate) fn tell(&self, mail: Mail) {
        let mut desk = self.desk();
        if desk.working {
            desk.mail.push_back(mail);
            drop(desk);
            self.bell.notify_one();
        }
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
        if self.desk().closed {
            return AgentLoopError::SessionNotFound(self.session_id);
        }
        AgentLoopError::StoreUnavailable(format!(
            "the thread of session {} stopped; what was acknowledged is safe, try again",
            self.session_id
        ))
    }

    /// Takes the next mail.
    pub(super) fn next_mail(&self) -> Option<Mail> {
        self.desk().mail.pop_front()
    }

    /// Waits until there may be mail.
    pub(super) async fn mail_arrived(&self) {
        self.bell.notified().await;
    }

    /// Lays the thread to rest, unless mail came in the meantime.
    pub(super) fn rest(&self, resting: Box<Resting>) -> std::result::Result<(), Box<Resting>> {
        let mut desk = self.desk();
        if !desk.mail.is_empty() {
            return Err(resting);
        }
        desk.resting = Some(resting);
        desk.working = false;
        Ok(())
    }

    /// An actor is gone without laying its thread to rest: the journal has everything, the next one folds it anew.
    /// Mail that it had not taken is dropped, and whoever waits for an answer hears of it.
    pub(super) fn fault(&self) {
        let mail = {
            let mut desk = self.desk();
            desk.working = false;
            desk.resting = None;
            std::mem::take(&mut desk.mail)
        };
        drop(mail);
    }

    pub(super) fn close(&self) {
        let mail = {
            let mut desk = self.desk();
            desk.closed = true;
            desk.working = false;
            std::mem::take(&mut desk.mail)
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
