//! What carries work out: a thread of the daemon, and one turn of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::typed_id::{SessionId, TurnId};

use crate::spec::WorkSpec;

/// One attempt at a piece of work.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// Whose work it is.
    pub owner: String,
    /// The task that it is an attempt at, as the thread names it.
    pub task: String,
    /// The thread. All attempts have the same, so that a later one can see what an earlier one did.
    pub thread_id: SessionId,
    /// The turn; each attempt has its own.
    pub turn_id: TurnId,
    /// Which attempt it is, from 1.
    pub attempt: u32,
    /// What is to be done.
    pub spec: WorkSpec,
}

/// How an attempt ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The turn was completed.
    Completed {
        /// What came of it, in short.
        summary: String,
    },
    /// The turn failed, or cannot begin.
    Failed {
        /// Why.
        error: String,
        /// Whether another attempt may go better. Where it says no, none is made, whatever the rule allows.
        may_retry: bool,
    },
    /// The turn was interrupted, by the stop signal or by somebody.
    Interrupted {
        /// Who or what did it.
        reason: String,
    },
    /// There is no room for the thread of it, so that nothing has begun. The same attempt waits in the queue and begins later.
    NoRoom {
        /// What there is too much of, and what to do.
        reason: String,
    },
    /// It could not be learned how the turn stands: the store is in trouble, or the daemon is about to stop. The same attempt is
    /// carried again later.
    NotNow {
        /// Why.
        reason: String,
    },
}

/// The worker of an attempt. Others may have it while the turn only waits for somebody.
///
/// Nothing of this is recorded: after a restart whoever carries the attempt finds out again how its turn stands.
#[derive(Debug, Clone, Default)]
pub struct WorkerSlot {
    is_parked: Arc<AtomicBool>,
    bell: Arc<Notify>,
}

impl WorkerSlot {
    pub(crate) fn new(bell: Arc<Notify>) -> Self {
        Self {
            is_parked: Arc::default(),
            bell,
        }
    }

    /// Leaves the worker to others: the turn waits for an approval, an answer, a result from outside or another turn.
    pub fn park(&self) {
        self.is_parked.store(true, Ordering::SeqCst);
        self.bell.notify_one();
    }

    /// Takes a worker again. The turn goes on by itself, so it does not wait for a free one: where all are taken there is one more at work
    /// for a while, and nothing is begun until there are fewer.
    pub fn go_on(&self) {
        self.is_parked.store(false, Ordering::SeqCst);
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked.load(Ordering::SeqCst)
    }
}

/// Carries work out on threads.
#[async_trait]
pub trait Hands: Send + Sync {
    /// Begins the turn of an attempt and waits for its end.
    ///
    /// It is called again for the same attempt after a restart. The ids are the same then, so it must look first: a turn that
    /// has begun is waited for and not begun again, and one that has ended is answered at once.
    ///
    /// When `stop` fires it interrupts the turn and goes on waiting for the end, also where the turn is still to be begun.
    /// Dropping the future must not end the turn: that is how a daemon shuts down.
    ///
    /// While the turn only waits for somebody, `slot` is [parked](WorkerSlot::park).
    async fn carry(&self, work: Assignment, stop: CancellationToken, slot: WorkerSlot) -> TurnEnd;
}
