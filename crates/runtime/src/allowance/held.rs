//! What is set aside for a model call while it runs.

use std::sync::Arc;

use windlass_core::budget::Reserve;
use windlass_core::error::Result;
use windlass_core::events::TokenUsage;
use windlass_core::typed_id::ExecId;

use super::{Allowance, AllowanceCall, CallUsage};
use crate::thread::StepScope;
use crate::world::World;

/// What is set aside for a model call. Dropped before the call came to its end, it counts as used.
pub(crate) struct Held {
    allowance: Arc<dyn Allowance>,
    call: AllowanceCall,
    world: Arc<dyn World>,
    is_settled: bool,
}

impl Held {
    /// Makes the call known that is to be asked about; `None` where nobody wants to be asked.
    pub(crate) fn of(scope: &StepScope<'_>, exec_id: ExecId) -> Option<Self> {
        let allowance = Arc::clone(scope.inner.backends.allowance.as_ref()?);
        let least: &Reserve = &scope.context.plan.reserve;
        Some(Self {
            allowance,
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
        let (allowance, call) = (Arc::clone(&self.allowance), self.call.clone());
        async move { allowance.reserve(&call).await }
    }

    /// Tells what the call has used that came to its end.
    pub(crate) fn finished(&mut self, usage: Option<&TokenUsage>) {
        self.settle(usage.map_or(CallUsage::Unknown, CallUsage::Known));
    }

    /// Tells that the call brought nothing.
    pub(crate) fn failed(&mut self) {
        self.settle(CallUsage::Nothing);
    }

    fn settle(&mut self, used: CallUsage<'_>) {
        if !std::mem::replace(&mut self.is_settled, true) {
            self.call.at = self.world.now();
            self.allowance.settle(&self.call, used);
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.settle(CallUsage::Unknown);
    }
}
