//! What the configuration says of budgets, for those who obey it.

use std::sync::Arc;

use anyhow::{Result, bail};
use windlass_core::budget::{Budget as Limits, Budgets, Reserve, micro_usd};
use windlass_runtime::{DailyLimit, DayLimits, SqliteStore};

use crate::config::Budget;

/// What is set aside for a model call when nobody says otherwise.
pub(crate) const RESERVE_USD: f64 = 0.02;
pub(crate) const RESERVE_TOKENS: u64 = 4_000;

/// Returns what a turn and a thread may use.
pub(super) fn budgets(budget: &Budget) -> Result<Budgets> {
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

/// Returns what is set aside for a model call.
pub(super) fn reserve(budget: &Budget) -> Result<Reserve> {
    let usd = budget.reserve_usd.or(Some(RESERVE_USD));
    Ok(Reserve {
        tokens: budget.reserve_tokens.unwrap_or(RESERVE_TOKENS),
        micro_usd: micros("reserve_usd", usd)?.unwrap_or_default(),
    })
}

/// Returns what all threads may use together in a day.
pub(super) fn of_day(budget: &Budget) -> Result<DayLimits> {
    Ok(DayLimits {
        micro_usd: micros("day_usd", budget.day_usd)?,
        tokens: budget.day_tokens,
        owner_micro_usd: micros("token_day_usd", budget.token_day_usd)?,
    })
}

/// Returns the limit of a day; `None` where nothing is limited.
pub(super) fn daily_limit(budget: &Budget, store: &SqliteStore) -> Result<Option<DailyLimit>> {
    let limits = of_day(budget)?;
    let limit = || DailyLimit::new(limits, Arc::new(store.ledger()));
    Ok((limits != DayLimits::default()).then(limit))
}

fn micros(name: &str, usd: Option<f64>) -> Result<Option<u64>> {
    match usd {
        Some(usd) if !(0.0..=1e9).contains(&usd) => {
            bail!("[budget] {name} of the configuration is no amount of US dollars: {usd}")
        }
        usd => Ok(usd.map(micro_usd)),
    }
}
