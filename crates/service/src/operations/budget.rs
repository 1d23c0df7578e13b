//! How much a thread and its turns may use, as clients say it. The runtime takes the least of this and what the operator allows.

use windlass_core::budget::{Budget as Limits, Budgets, micro_usd};
use windlass_core::thread_record::ThreadRecord;
use windlass_protocol::{Budget, ErrorCode};

use super::thread_record::wire_budget;
use crate::error::{ApiError, Result};
use crate::tokens::Caller;

/// The most that can be said in US dollars: more could not be counted.
const MAX_USD: f64 = 1e9;

/// Reads what a client says; returns `None` where it limits nothing.
pub(super) fn checked(budget: Option<Budget>) -> Result<Option<Budget>> {
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

/// Returns what a turn of a thread may use, of which its own wishes are a part.
pub(super) fn of_turn(thread: &ThreadRecord, turn: Option<Budget>) -> Result<Option<Budgets>> {
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

impl Caller {
    /// An agent may give itself less, and not more.
    pub(super) fn check_raise(
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
