//! The interface to the host, which runs each attempt as a turn of a thread.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use windlass_core::items::UnapprovedCalls;
use windlass_core::lock::lock;
use windlass_core::typed_id::{SessionId, TurnId};

use crate::spec::JobSpec;

/// One attempt of a job.
#[derive(Debug, Clone, PartialEq)]
pub struct Assignment {
    /// The token or agent that the job belongs to.
    pub owner: String,
    /// Name of the task for the thread's metadata.
    pub task: String,
    /// ID of the thread. All attempts share it, so that a later one sees the results of earlier ones.
    pub thread_id: SessionId,
    /// ID of the turn; each attempt has its own.
    pub turn_id: TurnId,
    /// Number of the attempt, from 1.
    pub attempt: u32,
    /// The work to do.
    pub spec: JobSpec,
}

/// Result of running an attempt. Only [`Ended`](Self::Ended) and [`Refused`](Self::Refused) end it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// The turn has ended, and its end is recorded.
    Ended(EndedTurn),
    /// The attempt has no turn and cannot get one: its request is not allowed here, its thread was removed, or it was
    /// cancelled before the turn was recorded.
    Refused {
        /// Why it is not possible.
        error: String,
    },
    /// The attempt has not ended. It is retried later under the same IDs.
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
        /// The error of the turn.
        error: String,
        /// When the budget that stopped it renews. The next attempt then starts at that time and does not count against
        /// `max_attempts`.
        budget_renews_at: Option<DateTime<Utc>>,
    },
    /// The turn was interrupted, by the stop signal or by a client.
    Interrupted {
        /// The reason of the interrupt.
        reason: String,
    },
}

/// Why an attempt cannot run now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hold {
    /// What the attempt waits for.
    pub cause: HoldCause,
    /// Details for the owner.
    pub reason: String,
    /// When the cause is known to end. The attempt is retried then at the latest.
    pub until: Option<DateTime<Utc>>,
    /// Whether the attempt may have a turn.
    pub turn: HeldTurn,
}

/// Whether a held attempt may have a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldTurn {
    /// No turn is recorded. The job returns to the queue, and the attempt does not count.
    NotBegun,
    /// The turn is open, or its status is unknown. The job retains its lease, because another attempt would repeat the work.
    MayBeOpen,
}

/// What a held attempt waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldCause {
    /// A free thread: the limit of threads is reached.
    #[default]
    NoRoom,
    /// The renewal or increase of a budget.
    Budget,
    /// A model, a backend or another part of the configuration.
    Configuration,
    /// Its environment or directory.
    Environment,
    /// A readable token file.
    Token,
    /// An available store.
    Store,
    /// The next start of the daemon.
    Shutdown,
    /// The fix of an internal error, which is in the log.
    Fault,
}

impl HoldCause {
    /// Returns whether the owner's other jobs would be held as well.
    pub(crate) const fn applies_to_owner(self) -> bool {
        matches!(self, Self::NoRoom | Self::Budget | Self::Token)
    }
}

/// A hold that is in effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ActiveHold {
    /// What the attempt waits for.
    #[serde(default)]
    pub cause: HoldCause,
    /// Details for the owner.
    pub reason: String,
    /// When the attempt was last tried.
    pub at: DateTime<Utc>,
    /// When the attempt is retried.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_at: Option<DateTime<Utc>>,
    /// Number of tries.
    pub tries: u32,
}

/// The worker of an attempt. Another attempt may use the worker while the turn is parked.
///
/// This state is not recorded: after a restart the turn runner determines again whether the turn is parked.
#[derive(Debug, Clone, Default)]
pub struct WorkerSlot {
    is_parked: Arc<AtomicBool>,
    released: Arc<Notify>,
    hold: HoldCell,
}

/// The hold of one attempt, shared by the dispatch loop, the attempt and queries.
#[derive(Debug, Clone, Default)]
pub(crate) struct HoldCell(Arc<Mutex<Option<ActiveHold>>>);

impl HoldCell {
    pub(crate) fn get(&self) -> Option<ActiveHold> {
        lock(&self.0).clone()
    }

    pub(crate) fn set(&self, hold: Option<ActiveHold>) {
        *lock(&self.0) = hold;
    }
}

impl WorkerSlot {
    pub(crate) fn new(released: Arc<Notify>, hold: HoldCell) -> Self {
        Self {
            is_parked: Arc::default(),
            released,
            hold,
        }
    }

    /// Releases the worker: the turn waits for an approval, an answer, an external result or another turn.
    pub fn park(&self) {
        self.is_parked.store(true, Ordering::SeqCst);
        self.released.notify_one();
    }

    /// Takes a worker again, because the attempt's turn is running in this process, and ends an earlier hold. The turn continues without
    /// waiting for a free worker. If all are busy, the limit is exceeded for a while, and no other attempt starts until it is met again.
    pub fn unpark(&self) {
        self.is_parked.store(false, Ordering::SeqCst);
        self.hold.set(None);
    }

    pub(crate) fn is_parked(&self) -> bool {
        self.is_parked.load(Ordering::SeqCst)
    }
}

/// Runs attempts as turns of threads; implemented by the host.
#[async_trait]
pub trait TurnRunner: Send + Sync {
    /// Starts the turn of an attempt and waits for its end.
    ///
    /// It is called again for the same attempt, with the same IDs, after a restart. The implementation must check first: it waits for
    /// a turn that has begun instead of starting it again, and returns the result of a turn that has ended immediately.
    ///
    /// When `stop` fires, it interrupts the turn and continues to wait for the end, even if the turn has not begun yet. Dropping the
    /// future must not end the turn: that is how a daemon shuts down.
    ///
    /// While the turn waits for an approval or an answer, the implementation [parks](WorkerSlot::park) `slot`.
    async fn run_attempt(
        &self,
        work: Assignment,
        stop: CancellationToken,
        slot: WorkerSlot,
    ) -> TurnEnd;
}
