//! What carries work out: a thread of the daemon, and one turn of it.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::items::UnapprovedCalls;
use windlass_core::typed_id::{SessionId, TurnId};

use crate::spec::JobSpec;

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
    pub spec: JobSpec,
}

/// What became of an attempt. Only [`Ended`](Self::Ended) and [`Refused`](Self::Refused) end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The turn has ended. Only a recorded end of the turn may become this.
    Ended(EndedTurn),
    /// The attempt has no turn and cannot get one: its request is not allowed here, its thread was removed, or it was
    /// cancelled before the turn was recorded.
    Refused {
        /// Why.
        error: String,
    },
    /// Nothing has ended. The same attempt runs later, under the same ids.
    Held(Hold),
}

/// The recorded end of a turn.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EndedTurn {
    /// How it ended.
    pub outcome: TurnOutcome,
    /// Its calls that did not run because an approval was refused or timed out.
    pub unapproved: UnapprovedCalls,
}

/// How a turn ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnOutcome {
    /// The turn was completed.
    Completed {
        /// The last message of the agent.
        summary: String,
    },
    /// The turn failed.
    Failed {
        /// Why.
        error: String,
        /// When the budget that stopped it renews. The next attempt then starts at that time and does not count against
        /// `max_attempts`.
        budget_renews_at: Option<DateTime<Utc>>,
    },
    /// The turn was interrupted, by the stop signal or by a client.
    Interrupted {
        /// By what.
        reason: String,
    },
}

/// Why an attempt cannot run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// What is missing.
    pub cause: HoldCause,
    /// The details, for its owner.
    pub reason: String,
    /// When the cause is known to end. The attempt is retried then at the latest.
    pub until: Option<DateTime<Utc>>,
    /// Whether the attempt may have a turn.
    pub turn: HeldTurn,
}

/// Whether a held attempt may have a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldTurn {
    /// None is recorded. The job goes back to the queue, and the attempt does not count.
    NotBegun,
    /// It is open, or its status is unknown. The job keeps its lease: another attempt would do the work twice.
    MayBeOpen,
}

/// What a held attempt waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldCause {
    /// Fewer threads.
    #[default]
    NoRoom,
    /// A budget to renew or to be raised.
    Budget,
    /// A model, a backend or another part of the configuration.
    Configuration,
    /// Its environment or directory.
    Environment,
    /// A readable token file.
    Token,
    /// The store.
    Store,
    /// The next start of the daemon.
    Shutdown,
    /// The removal of an internal fault; the log names it.
    Fault,
}

impl HoldCause {
    /// Returns whether the owner's other jobs would be held as well.
    pub(crate) const fn is_of_owner(self) -> bool {
        matches!(self, Self::NoRoom | Self::Budget | Self::Token)
    }
}

/// A hold that is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveHold {
    /// What the attempt waits for.
    #[serde(default)]
    pub cause: HoldCause,
    /// The details.
    pub reason: String,
    /// When the attempt was last tried.
    pub at: DateTime<Utc>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<DateTime<Utc>>,
    /// How often it was tried.
    pub tries: u32,
}

/// The worker of an attempt. Others may have it while the turn only waits for somebody.
///
/// Nothing of this is recorded: after a restart whoever carries the attempt finds out again how its turn stands.
#[derive(Debug, Clone, Default)]
pub struct WorkerSlot {
    is_parked: Arc<AtomicBool>,
    bell: Arc<Notify>,
    hold: HoldCell,
}

/// The hold of one attempt, shared by the loop, the attempt and whoever shows it.
#[derive(Debug, Clone, Default)]
pub(crate) struct HoldCell(Arc<Mutex<Option<ActiveHold>>>);

impl HoldCell {
    pub(crate) fn get(&self) -> Option<ActiveHold> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(crate) fn set(&self, hold: Option<ActiveHold>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = hold;
    }
}

impl WorkerSlot {
    pub(crate) fn new(bell: Arc<Notify>, hold: HoldCell) -> Self {
        Self {
            is_parked: Arc::default(),
            bell,
            hold,
        }
    }

    /// Leaves the worker to others: the turn waits for an approval, an answer, a result from outside or another turn.
    pub fn park(&self) {
        self.is_parked.store(true, Ordering::SeqCst);
        self.bell.notify_one();
    }

    /// The attempt's turn is open in this process: an earlier hold is over, and the attempt has a worker again. The turn goes on by itself, so it does not wait for a free one: where all are taken there is one more at work
    /// for a while, and nothing is begun until there are fewer.
    pub fn go_on(&self) {
        self.is_parked.store(false, Ordering::SeqCst);
        self.hold.set(None);
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked.load(Ordering::SeqCst)
    }
}

/// Carries work out on threads.
#[async_trait]
pub trait TurnRunner: Send + Sync {
    /// Begins the turn of an attempt and waits for its end.
    ///
    /// It is called again for the same attempt after a restart. The ids are the same then, so it must look first: a turn that
    /// has begun is waited for and not begun again, and one that has ended is answered at once.
    ///
    /// When `stop` fires it interrupts the turn and goes on waiting for the end, also where the turn is still to be begun.
    /// Dropping the future must not end the turn: that is how a daemon shuts down.
    ///
    /// While the turn only waits for somebody, `slot` is [parked](WorkerSlot::park).
    async fn run_attempt(
        &self,
        work: Assignment,
        stop: CancellationToken,
        slot: WorkerSlot,
    ) -> TurnEnd;
}
