//! Budgets that clients set for a thread and its turns. The runtime enforces the strictest of these and the operator's limits.

use windlass_core::budget::{Budget as Limits, Budgets, micro_usd};
use windlass_core::thread_record::ThreadRecord;
use windlass_protocol::{Budget, ErrorCode};

use crate::error::{ApiError, Result};
use crate::operations::threads::thread_record::wire_budget;
use crate::tokens::ApiCaller;

/// Maximum amount in US dollars; larger amounts would overflow.
const MAX_USD: f64 = 1e9;

/// Validates a client's budget; `None` if it limits nothing.
pub(crate) fn checked(budget: Option<Budget>) -> Result<Option<Budget>> {
    let amounts = budget.iter().flat_map(|budget| {
        [
            ("/budget/turn_usd", budget.turn_usd),
            ("/budget/thread_usd", budget.thread_usd),
        ]
    });
    for (field, usd) in amounts {
        if usd.is_some_and(|usd| !(0.0..=MAX_USD).contains(&usd)) {
            let text = format!("an amount of US dollars is between 0 and {MAX_USD}");
            return Err(ApiError::field(field, text));
        }
    }
    Ok(budget.filter(|budget| *budget != Budget::default()))
}

/// Returns the limits of a turn: those of the thread and those of the request.
pub(crate) fn of_turn(thread: &ThreadRecord, turn: Option<Budget>) -> Result<Option<Budgets>> {
    let turn = checked(turn)?.map(|budget| budgets(&budget));
    let thread = thread.budget.as_ref();
    let thread = thread.map(|budget| budgets(&wire_budget(budget)));
    Ok(match (thread, turn) {
        (Some(thread), Some(turn)) => Some(thread.narrowed_by(&turn)),
        (thread, turn) => thread.or(turn),
    })
}

fn budgets(budget: &Budget) -> Budgets {
    Budgets {
        turn: Limits {
            model_calls: budget.turn_model_calls,
            tool_calls: budget.turn_tool_calls,
            tokens: budget.turn_tokens,
            micro_usd: budget.turn_usd.map(micro_usd),
            seconds: budget.turn_seconds,
        },
        thread: Limits {
            tokens: budget.thread_tokens,
            micro_usd: budget.thread_usd.map(micro_usd),
            ..Limits::default()
        },
    }
}

impl ApiCaller {
    /// An agent may lower its own budget, but not raise it.
    pub(crate) fn check_raise(
        &self,
        before: Option<&Budget>,
        after: Option<&Budget>,
    ) -> Result<()> {
        let of = |budget: Option<&Budget>| budget.map_or_else(Budgets::default, budgets);
        let (before, after) = (of(before), of(after));
        match self.agent() {
            Some(_) if after.narrowed_by(&before) != after => Err(ApiError::new(
                ErrorCode::Forbidden,
                "the token of an agent cannot raise the budget of a thread",
            )),
            _ => Ok(()),
        }
    }
}
