//! Handling of a thread whose actor ended before its work was done.
//!
//! Every fault leaves the slot in one state with the reason, the outstanding work and the time of the next retry. A failing store is retried as long
//! as the runtime exists: an open turn or a queued input was acknowledged, so its client does not have to send it again.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::oneshot;
use windlass_core::error::AgentLoopError;
use windlass_store::JournalError;

use super::actor::Actor;
use super::command::ThreadCommand;
use super::slot::Slot;
use crate::inner::Inner;

/// The pause before the first retry; it doubles with each failure in a row.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const MAX_PAUSE: Duration = Duration::from_secs(30);

/// Why an actor ended without parking its thread.
#[derive(Debug, thiserror::Error)]
pub(super) enum FaultCause {
    /// The store cannot be used now. It may be usable later.
    #[error("{0}")]
    Store(String),
    /// A retry would fail in the same way.
    #[error("{0}")]
    Other(String),
}

impl From<&AgentLoopError> for FaultCause {
    fn from(error: &AgentLoopError) -> Self {
        match error {
            AgentLoopError::StoreUnavailable(_) => Self::Store(error.to_string()),
            error => Self::Other(error.to_string()),
        }
    }
}

impl From<&JournalError> for FaultCause {
    fn from(error: &JournalError) -> Self {
        match error {
            JournalError::Unavailable(_) => Self::Store(error.to_string()),
            error => Self::Other(error.to_string()),
        }
    }
}

/// Work that a fault leaves over. The next actor starts with it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct LeftoverWork {
    /// Whether a turn that this process had resumed was open, or an input queued.
    pub(super) has_work: bool,
    /// Whether the turn was released because of the store, without a record yet: the fault does not count as a crash of the turn.
    pub(super) released: bool,
    /// Number of consecutive store failures.
    pub(super) failures: u32,
}

/// The end of an actor that did not park its thread.
#[derive(Debug)]
pub(super) struct ThreadFault {
    pub(super) cause: FaultCause,
    pub(super) leftover: LeftoverWork,
    /// When the work is resumed automatically.
    pub(super) retry_at: Option<DateTime<Utc>>,
}

impl ThreadFault {
    /// A fault that leaves no work over.
    pub(super) fn settled(cause: impl ToString) -> Self {
        Self {
            cause: FaultCause::Other(cause.to_string()),
            leftover: LeftoverWork::default(),
            retry_at: None,
        }
    }
}

impl std::fmt::Display for ThreadFault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.cause)?;
        match self.retry_at {
            Some(at) => write!(f, "; its work resumes at {}", at.format("%H:%M:%S UTC")),
            None => Ok(()),
        }
    }
}

/// Marks a slot as faulted, and schedules the leftover work after a store fault.
pub(super) fn fault(
    inner: &Arc<Inner>,
    slot: &Arc<Slot>,
    actor_id: u64,
    cause: FaultCause,
    leftover: LeftoverWork,
) {
    let failures = leftover.failures.saturating_add(1);
    let pause = (matches!(cause, FaultCause::Store(_)) && leftover.has_work)
        .then(|| (FIRST_PAUSE * (1 << leftover.failures.min(8))).min(MAX_PAUSE));
    let retry_at = pause.and_then(|pause| {
        let pause = TimeDelta::from_std(pause).ok()?;
        inner.clock.now().checked_add_signed(pause)
    });
    let fault = ThreadFault {
        cause,
        leftover: LeftoverWork {
            failures,
            ..leftover
        },
        retry_at,
    };
    if let Some(faulted) = slot.fault(actor_id, fault)
        && let Some(pause) = pause
    {
        tokio::spawn(resume_after(pause, inner, slot, faulted));
    }
}

/// Resumes the work of a slot, unless another caller has started an actor by then. A new fault schedules its own retry.
fn resume_after(
    pause: Duration,
    inner: &Arc<Inner>,
    slot: &Arc<Slot>,
    faulted: u64,
) -> impl Future<Output = ()> + use<> {
    let sleep = inner.clock.sleep(pause);
    let (inner, slot) = (Arc::downgrade(inner), Arc::clone(slot));
    async move {
        sleep.await;
        if let Some(inner) = inner.upgrade()
            && slot.is_faulted(faulted)
        {
            let (reply, _) = oneshot::channel();
            let resumed = slot.send(&inner, ThreadCommand::Resume { reply });
            if let Err(error) = resumed {
                tracing::debug!(session = %slot.session_id, %error, "a faulted thread is not resumed");
            }
        }
    }
}

impl Actor {
    /// Ends this actor before any caller gets the error, because a caller that retries at once must find a new actor.
    pub(super) fn fault(&self, cause: FaultCause) {
        let is_store = matches!(cause, FaultCause::Store(_));
        let has_work = self.thread.turn().is_some() || !self.thread.queue().is_empty();
        let leftover = LeftoverWork {
            has_work: is_store && has_work && self.work_requested,
            released: self.leftover.released || (is_store && self.executes_turn),
            failures: self.leftover.failures,
        };
        fault(&self.inner, &self.slot, self.actor_id, cause, leftover);
    }
}
