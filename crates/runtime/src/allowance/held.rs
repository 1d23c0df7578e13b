//! What is set aside for a model call while it runs.

use std::sync::Arc;

use windlass_core::budget::{Charge, Reserve};
use windlass_core::error::Result;
use windlass_core::events::TokenUsage;
use windlass_core::typed_id::ExecId;

use super::{Allowance, AllowanceCall};
use crate::subagents::TreeSeat;
use crate::thread::StepScope;
use crate::world::World;

/// What is set aside for a model call, by everybody who counts it. Dropped before the call came to its end, it counts as used.
pub(crate) struct Held {
    allowances: Vec<Arc<dyn Allowance>>,
    call: AllowanceCall,
    world: Arc<dyn World>,
    is_settled: bool,
}

impl Held {
    /// Makes the call known that is to be asked about; `None` where nobody wants to be asked.
    pub(crate) fn of(scope: &StepScope<'_>, exec_id: ExecId) -> Option<Self> {
        let mut allowances: Vec<Arc<dyn Allowance>> = Vec::new();
        if let Some(seat) = TreeSeat::of(scope.inner, scope.context, scope.thread) {
            seat.will_ask(exec_id);
            allowances.push(Arc::new(seat));
        }
        allowances.extend(scope.inner.backends.allowance.clone());
        if allowances.is_empty() {
            return None;
        }
        let least: &Reserve = &scope.context.plan.reserve;
        Some(Self {
            allowances,
            call: AllowanceCall {
                exec_id,
                owner: scope.context.owner.clone(),
                at: scope.inner.world.now(),
                reserve: scope.thread.spent().reserve(least),
            },
            world: Arc::clone(&scope.inner.world),
            is_settled: false,
        })
    }

    /// Asks for it.
    pub(crate) fn asking(&self) -> impl Future<Output = Result<()>> + Send + 'static {
        let (allowances, call) = (self.allowances.clone(), self.call.clone());
        async move {
            for allowance in &allowances {
                allowance.reserve(&call).await?;
            }
            Ok(())
        }
    }

    /// Tells what the call has used that came to its end.
    pub(crate) fn finished(&mut self, usage: Option<&TokenUsage>) {
        self.settle(usage.map_or(Charge::Reservation, Charge::Usage));
    }

    /// Tells that the call brought nothing.
    pub(crate) fn failed(&mut self) {
        self.settle(Charge::Nothing);
    }

    fn settle(&mut self, charge: Charge<'_>) {
        if !std::mem::replace(&mut self.is_settled, true) {
            self.call.at = self.world.now();
            for allowance in &self.allowances {
                allowance.settle(&self.call, charge);
            }
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settle(Charge::Reservation);
    }
}
