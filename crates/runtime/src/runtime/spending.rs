//! Budgets that all sessions share.

use windlass_core::budget::DayBudgetRefusal;
use windlass_core::error::Result;
use windlass_core::typed_id::ExecId;
use windlass_store::Reservation;

use super::InProcessRuntime;

impl InProcessRuntime {
    /// Returns the budget of the day that would refuse the next call of an owner's work; `None` for the operator's own.
    /// It reserves nothing, so a call that starts later may still be refused.
    pub async fn day_budget_refusal(
        &self,
        owner: Option<&str>,
    ) -> Result<Option<DayBudgetRefusal>> {
        let Some(daily) = &self.inner.backends.daily_limit else {
            return Ok(None);
        };
        let next = Reservation {
            exec_id: ExecId::from_uuid(self.inner.world.uuid()),
            owner: owner.map(str::to_owned),
            at: self.inner.world.now(),
            amount: self.inner.settings.reserve,
        };
        daily.refusal(&next).await
    }
}
