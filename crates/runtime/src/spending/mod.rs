//! Budgets that sessions share: the daily ones, and those of a turn with all its subagents.

mod step;

use std::sync::Arc;

use windlass_core::budget::{DayBudgetRefusal, DayLimits};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::typed_id::{ExecId, SessionId, TurnId};
use windlass_macros::OpaqueDebug;
use windlass_store::{Reservation, SpendingLedger};

use crate::inner::Inner;
use crate::subagents::SharedBudget;
use crate::turn_context::TurnContext;
pub(crate) use step::StepReservation;

/// Limit on the daily spending of all sessions together. The ledger must be the one in which the journal settles its appends.
#[derive(OpaqueDebug, Clone)]
pub struct DailyLimit {
    limits: DayLimits,
    ledger: Arc<dyn SpendingLedger>,
}

impl DailyLimit {
    /// Enforces limits on a ledger.
    #[must_use]
    pub fn new(limits: DayLimits, ledger: Arc<dyn SpendingLedger>) -> Self {
        Self { limits, ledger }
    }

    async fn reserve(&self, reservation: Reservation) -> Result<()> {
        let reserved = self.ledger.reserve(reservation, &self.limits).await;
        reserved.map_err(AgentLoopError::from)
    }

    pub(crate) async fn refusal(&self, next: &Reservation) -> Result<Option<DayBudgetRefusal>> {
        let refusal = self.ledger.refusal(next, &self.limits).await;
        refusal.map_err(AgentLoopError::from)
    }
}

/// Refuses a turn of an external agent if a budget has nothing left. The run reserves when it starts; this check only answers before the turn is
/// recorded.
pub(crate) async fn check_run(
    inner: &Arc<Inner>,
    context: &TurnContext,
    session_id: SessionId,
    has_agents: bool,
) -> Result<()> {
    if context.backend.is_none() {
        return Ok(());
    }
    // The turn has used nothing yet, so any ID will do.
    let uuid = inner.clock.uuid();
    let next = inner.minimum_reservation(ExecId::from_uuid(uuid), context.owner.as_deref());
    let own = (session_id, TurnId::from_uuid(uuid));
    if let Some(shared_budget) = SharedBudget::for_run(inner, context, has_agents, own) {
        shared_budget.check(&next).await?;
    }
    let Some(daily) = &inner.backends.daily_limit else {
        return Ok(());
    };
    match daily.refusal(&next).await? {
        Some(refusal) => Err(AgentLoopError::BudgetExceeded(refusal.to_string())),
        None => Ok(()),
    }
}
