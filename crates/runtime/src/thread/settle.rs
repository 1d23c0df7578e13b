//! Settles the cost of a thread's steps with the record of their end.

use std::sync::Arc;

use windlass_core::budget::Charge;
use windlass_core::events::{Event, EventData};
use windlass_store::Settlement;

use super::actor::Actor;
use crate::subagents::{SharedBudget, open_turn_input};

impl Actor {
    /// Returns the charges for the ledger that belong to these events.
    pub(super) fn settlements(&self, events: &[Arc<Event>]) -> Vec<Settlement> {
        let ends = |event: &&Arc<Event>| Charge::of_event(&event.data).is_some();
        let mut ended = events.iter().filter(ends).peekable();
        if ended.peek().is_none() {
            return Vec::new();
        }
        let (owner, unreserved) = (self.owner(), self.inner.settings.reserve);
        ended
            .filter_map(|event| Settlement::of(event, owner.as_deref(), unreserved))
            .collect()
    }

    /// A turn of a previous process has no context until it is resumed; its input contains its owner.
    fn owner(&self) -> Option<String> {
        if let Some(context) = &self.context {
            return context.owner.clone();
        }
        open_turn_input(&self.thread)?.turn_request()?.owner.clone()
    }

    /// Settles the runs of external agents in their trees.
    pub(super) fn settle_runs(&self, events: &[Arc<Event>]) {
        let Some(context) = &self.context else { return };
        for event in events {
            if let EventData::BackendCompleted(data) = &event.data
                && let (Some(exec_id), Some(turn)) = (event.context.exec_id, event.context.turn_id)
            {
                // The turn may end in this very commit.
                let has_agents = !self.thread.children().is_empty();
                let own = (self.slot.session_id, turn);
                let shared_budget = SharedBudget::for_run(&self.inner, context, has_agents, own);
                if let Some(shared_budget) = shared_budget {
                    let reserve = self.inner.settings.reserve;
                    shared_budget.settle_run(exec_id, reserve, Charge::of_run(data));
                }
            }
        }
    }
}
