//! What all sessions of a runtime may use together, and who decides that.

mod day;
mod held;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use windlass_core::budget::{Charge, DayBudgetRefusal, Reserve};
use windlass_core::error::Result;
use windlass_core::typed_id::ExecId;

pub use day::{DayAllowance, DayLimits};
pub(crate) use held::Held;

/// A model call that is about to begin, or a backend's run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AllowanceCall {
    /// The step.
    pub exec_id: ExecId,
    /// Whose work it is, where it is not the operator's.
    pub owner: Option<String>,
    /// When it begins, and when it has ended, once it is settled.
    pub at: DateTime<Utc>,
    /// What it may use.
    pub reserve: Reserve,
}

/// Says what all sessions of a runtime may use together. It is asked before every model call, and told after it.
#[async_trait]
pub trait Allowance: Send + Sync {
    /// Sets aside what a call may use; an error ends the turn, and the model is not called
    /// ([`AgentLoopError::BudgetExceeded`](windlass_core::AgentLoopError::BudgetExceeded)).
    async fn reserve(&self, call: &AllowanceCall) -> Result<()>;

    /// Returns the budget of the day that would refuse a call, without reserving anything.
    async fn day_refusal(&self, _call: &AllowanceCall) -> Result<Option<DayBudgetRefusal>> {
        Ok(None)
    }

    /// Takes what a call has used in place of what was set aside for it, once for every call that was asked about. What was
    /// used without asking counts too.
    fn settle(&self, call: &AllowanceCall, charge: Charge<'_>);
}
