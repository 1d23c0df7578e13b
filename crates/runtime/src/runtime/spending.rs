//! Budgets that all sessions share.

use chrono::{DateTime, Utc};
use windlass_core::budget::DayBudgetRefusal;
use windlass_core::error::Result;
use windlass_core::typed_id::ExecId;
use windlass_store::Reservation;

use super::InProcessRuntime;

impl InProcessRuntime {
    /// Returns the daily budget that would refuse the next call of this owner's work; with `owner` `None`, of the operator's own. It reserves
    /// nothing, so a later call may still be refused.
    pub async fn day_budget_refusal(
        &self,
        owner: Option<&str>,
    ) -> Result<Option<DayBudgetRefusal>> {
        self.day_budget_refusal_at(owner, self.inner.clock.now())
            .await
    }

    /// Returns the daily budget that would have refused a call of this owner's work at a time.
    pub async fn day_budget_refusal_at(
        &self,
        owner: Option<&str>,
        at: DateTime<Utc>,
    ) -> Result<Option<DayBudgetRefusal>> {
        let Some(daily) = &self.inner.backends.daily_limit else {
            return Ok(None);
        };
        let exec_id = ExecId::from_uuid(self.inner.clock.uuid());
        let next = Reservation {
            at,
            ..self.inner.minimum_reservation(exec_id, owner)
        };
        daily.refusal(&next).await
    }
}
