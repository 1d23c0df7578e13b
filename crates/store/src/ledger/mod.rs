//! The spending ledger: what all sessions spend in a day, in rows that outlive sessions.
//!
//! A model call or an external agent's run is reserved before it starts and settled when its end is recorded. Settlements are part of
//! the append that records the end ([`Batch::settlements`](crate::Batch)). They are no rows of the read model: they outlive their
//! records and cannot be rebuilt from them. A charge is durable if and only if its record is. So a crash charges nothing twice, and a
//! replay, a rebuild or a fork charges nothing. A reservation that is never settled stays charged.
//!
//! The check and the reservation are one step of the store, so all processes that share a store share its budgets.

mod memory;

use async_trait::async_trait;
use chrono::{DateTime, NaiveDate, Utc};
use windlass_core::budget::{Charge, DayBudgetRefusal, DayLimits, Reserve, cost};
use windlass_core::error::AgentLoopError;
use windlass_core::events::Event;
use windlass_core::typed_id::ExecId;

pub use memory::MemoryLedger;

/// The reservation of a step before it starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reservation {
    /// ID of the step that reserves.
    pub exec_id: ExecId,
    /// The owner of the step; `None` is the operator.
    pub owner: Option<String>,
    /// When it starts. The reservation is charged to this day.
    pub at: DateTime<Utc>,
    /// The reserved tokens and money.
    pub amount: Reserve,
}

/// The settlement of a step at its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// ID of the step that is settled.
    pub exec_id: ExecId,
    /// The owner of the step; `None` is the operator. The owner of the step's reservation takes precedence.
    pub owner: Option<String>,
    /// When it ended. It is charged to this day.
    pub at: DateTime<Utc>,
    /// Tokens; `None` charges the reserved amount.
    pub tokens: Option<u64>,
    /// Money in millionths of a US dollar; `None` charges the reserved amount.
    pub micro_usd: Option<u64>,
    /// The charge for an unknown amount without a reservation.
    pub unreserved: Reserve,
}

impl Settlement {
    /// Returns the settlement for an event; `None` unless the event ends a model call or an external agent's run.
    #[must_use]
    pub fn of(event: &Event, owner: Option<&str>, unreserved: Reserve) -> Option<Self> {
        let charge = Charge::of_event(&event.data)?;
        let (tokens, micro_usd) = match charge {
            Charge::Usage(usage) => {
                let tokens = usage.total_tokens();
                // Zero tokens need no price.
                (Some(tokens), cost(usage).or((tokens == 0).then_some(0)))
            }
            Charge::Reservation => (None, None),
            Charge::Nothing => (Some(0), Some(0)),
        };
        Some(Self {
            exec_id: event.context.exec_id?,
            owner: owner.map(str::to_owned),
            at: event.ts,
            tokens,
            micro_usd,
            unreserved,
        })
    }

    /// Returns the amount to charge.
    #[must_use]
    pub fn amount(&self, reserved: Option<Reserve>) -> Reserve {
        let reserved = reserved.unwrap_or(self.unreserved);
        Reserve {
            tokens: self.tokens.unwrap_or(reserved.tokens),
            micro_usd: self.micro_usd.unwrap_or(reserved.micro_usd),
        }
    }
}

/// The spending of an owner on a day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnerSpending {
    /// The owner; `None` is the operator.
    pub owner: Option<String>,
    /// Amounts of steps that have ended.
    pub settled: Reserve,
    /// Reserved amounts of steps that have not ended.
    pub reserved: Reserve,
}

/// Why a ledger did not reserve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LedgerError {
    /// A budget of the day is used up.
    #[error("{0}")]
    Refused(DayBudgetRefusal),
    /// The ledger cannot write or read now.
    #[error("the spending ledger is unavailable: {0}")]
    Unavailable(String),
}

impl From<LedgerError> for AgentLoopError {
    fn from(error: LedgerError) -> Self {
        match error {
            LedgerError::Refused(refusal) => Self::BudgetExceeded(refusal.to_string()),
            LedgerError::Unavailable(_) => Self::StoreUnavailable(error.to_string()),
        }
    }
}

/// Limits the total spending of all sessions. [The module](self) documents the order of writes.
#[async_trait]
pub trait SpendingLedger: Send + Sync {
    /// Reserves the budget of a step, unless that exceeds a limit. A step that reserves again after its process died is charged for both.
    async fn reserve(
        &self,
        reservation: Reservation,
        limits: &DayLimits,
    ) -> Result<(), LedgerError>;

    /// Returns the limit that would reject a reservation now; reserves nothing.
    async fn refusal(
        &self,
        reservation: &Reservation,
        limits: &DayLimits,
    ) -> Result<Option<DayBudgetRefusal>, LedgerError>;

    /// Returns the spending of a day, by owner: the operator first, then by name.
    async fn spending(&self, day: NaiveDate) -> Result<Vec<OwnerSpending>, LedgerError>;
}
