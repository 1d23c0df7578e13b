//! The budget reservation of a running step.

use windlass_core::budget::Charge;
use windlass_core::error::Result;
use windlass_core::events::TokenUsage;
use windlass_core::typed_id::ExecId;
use windlass_store::Reservation;

use super::DailyLimit;
use crate::subagents::SharedBudget;
use crate::thread::StepScope;

/// The reservation of a model call or an external agent's run in the budgets that it shares with other sessions.
///
/// The daily budget is settled with the record of the step's end. The tree is settled here for a model call: one that is dropped before its end is
/// charged as reserved.
pub(crate) struct StepReservation {
    tree: Option<SharedBudget>,
    daily: Option<DailyLimit>,
    reservation: Reservation,
    is_settled: bool,
}

impl StepReservation {
    /// Prepares the reservation of a model call; `None` if it shares no budget.
    pub(crate) fn for_call(scope: &StepScope<'_>, exec_id: ExecId) -> Option<Self> {
        let tree = SharedBudget::for_turn(scope.inner, scope.context, scope.thread);
        if let Some(tree) = &tree {
            tree.register_call(exec_id);
        }
        let amount = scope.thread.spent().reserve(&scope.context.plan.reserve);
        let reservation = Reservation {
            amount,
            ..reservation(scope, exec_id)
        };
        Self::new(scope, tree, reservation)
    }

    /// Prepares the reservation of an external agent's run. The record of its end settles it.
    pub(crate) fn for_run(scope: &StepScope<'_>, exec_id: ExecId) -> Option<Self> {
        let (inner, context, thread) = (scope.inner, scope.context, scope.thread);
        let own = (thread.session_id(), thread.turn()?.id);
        let has_agents = !thread.children().is_empty();
        let tree = SharedBudget::for_run(inner, context, has_agents, own);
        let mut run = Self::new(scope, tree, reservation(scope, exec_id))?;
        run.is_settled = true;
        Some(run)
    }

    fn new(
        scope: &StepScope<'_>,
        tree: Option<SharedBudget>,
        reservation: Reservation,
    ) -> Option<Self> {
        let daily = scope.inner.backends.daily_limit.clone();
        (tree.is_some() || daily.is_some()).then_some(Self {
            tree,
            daily,
            reservation,
            is_settled: false,
        })
    }

    /// Reserves the step's share of the day's and the tree's budgets.
    pub(crate) fn reserve(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        let (tree, daily) = (self.tree.clone(), self.daily.clone());
        let reservation = self.reservation.clone();
        async move {
            if let Some(tree) = &tree {
                tree.reserve(&reservation).await?;
            }
            match daily {
                Some(daily) => daily.reserve(reservation).await,
                None => Ok(()),
            }
        }
    }

    /// Settles a call that has ended.
    pub(crate) fn finished(&mut self, usage: Option<&TokenUsage>) {
        self.settle(usage.map_or(Charge::Reservation, Charge::Usage));
    }

    /// Settles a call that returned nothing.
    pub(crate) fn failed(&mut self) {
        self.settle(Charge::Nothing);
    }

    fn settle(&mut self, charge: Charge<'_>) {
        if !std::mem::replace(&mut self.is_settled, true)
            && let Some(tree) = &self.tree
        {
            let Reservation {
                exec_id, amount, ..
            } = self.reservation;
            tree.settle_call(exec_id, amount, charge);
        }
    }
}

impl Drop for StepReservation {
    fn drop(&mut self) {
        self.settle(Charge::Reservation);
    }
}

fn reservation(scope: &StepScope<'_>, exec_id: ExecId) -> Reservation {
    (scope.inner).minimum_reservation(exec_id, scope.context.owner.as_deref())
}
