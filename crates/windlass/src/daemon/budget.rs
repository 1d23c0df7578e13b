//! Converts the budgets of the configuration.

use std::sync::Arc;

use anyhow::{Result, bail};
use windlass_core::budget::{Budget as Limits, Budgets, Reserve, micro_usd};
use windlass_runtime::{DailyLimit, DayLimits, SqliteStore};

use crate::config::BudgetLimits;

/// Default reservation for a model call.
pub(crate) const RESERVE_USD: f64 = 0.02;
pub(crate) const RESERVE_TOKENS: u64 = 4_000;

/// Returns the limits of a turn and of a thread.
pub(super) fn budgets(budget: &BudgetLimits) -> Result<Budgets> {
    Ok(Budgets {
        turn: Limits {
            model_calls: budget.turn_model_calls,
            tool_calls: budget.turn_tool_calls,
            tokens: budget.turn_tokens,
            micro_usd: micros("turn_usd", budget.turn_usd)?,
            seconds: budget.turn_seconds,
        },
        thread: Limits {
            tokens: budget.thread_tokens,
            micro_usd: micros("thread_usd", budget.thread_usd)?,
            ..Limits::default()
        },
    })
}

/// Returns the reservation for a model call.
pub(super) fn reserve(budget: &BudgetLimits) -> Result<Reserve> {
    let usd = budget.reserve_usd.or(Some(RESERVE_USD));
    Ok(Reserve {
        tokens: budget.reserve_tokens.unwrap_or(RESERVE_TOKENS),
        micro_usd: micros("reserve_usd", usd)?.unwrap_or_default(),
    })
}

/// Returns the limits of all threads together per day.
pub(super) fn day_limits(budget: &BudgetLimits) -> Result<DayLimits> {
    Ok(DayLimits {
        micro_usd: micros("day_usd", budget.day_usd)?,
        tokens: budget.day_tokens,
        owner_micro_usd: micros("token_day_usd", budget.token_day_usd)?,
    })
}

/// Returns the enforced limit per day; `None` if nothing is limited.
pub(super) fn daily_limit(
    budget: &BudgetLimits,
    store: &SqliteStore,
) -> Result<Option<DailyLimit>> {
    let limits = day_limits(budget)?;
    let limit = || DailyLimit::new(limits, Arc::new(store.ledger()));
    Ok((limits != DayLimits::default()).then(limit))
}

fn micros(name: &str, usd: Option<f64>) -> Result<Option<u64>> {
    match usd {
        Some(usd) if !(0.0..=1e9).contains(&usd) => {
            bail!("[budget] {name} of the configuration is not an amount of US dollars: {usd}")
        }
        usd => Ok(usd.map(micro_usd)),
    }
}
