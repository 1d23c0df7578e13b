//! What turns used, summed.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::rows::TurnRow;

/// By what usage is put together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageBy {
    /// The day on which a turn ended, in UTC: `2026-01-31`.
    Day,
    /// The model that answered.
    Model,
    /// Who served it.
    Provider,
    /// The name of the thread's stream.
    Thread,
}

/// Asks for usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// Turns that ended no earlier.
    pub since: Option<DateTime<Utc>>,
    /// Turns that ended no later.
    pub until: Option<DateTime<Utc>>,
    /// How to put them together.
    pub by: UsageBy,
}

impl UsageQuery {
    /// Returns the first and the last moment, in microseconds.
    pub(crate) fn range(&self) -> (i64, i64) {
        // What begins within a microsecond begins after it.
        let since = |at: DateTime<Utc>| {
            let is_whole = at.timestamp_subsec_nanos().is_multiple_of(1000);
            at.timestamp_micros() + i64::from(!is_whole)
        };
        (
            self.since.map_or(i64::MIN, since),
            self.until.map_or(i64::MAX, |at| at.timestamp_micros()),
        )
    }
}

/// A sum over turns.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct UsageSum {
    /// How many turns.
    pub turns: u64,
    /// Tokens read.
    pub input_tokens: u64,
    /// Tokens written.
    pub output_tokens: u64,
    /// Of those read, how many came from a cache.
    pub cache_read_tokens: u64,
    /// Of those read, how many were put into a cache.
    pub cache_creation_tokens: u64,
    /// Of those written, how many were reasoning.
    pub reasoning_tokens: u64,
    /// What those cost that have a price.
    pub cost_usd: f64,
    /// How many have one.
    pub priced_turns: u64,
}

impl UsageSum {
    /// Takes a turn that has ended; `None` while it has not.
    pub(crate) fn of(turn: &TurnRow) -> Option<Self> {
        turn.view.ended_at?;
        let usage = turn.view.usage.unwrap_or_default();
        let cost = usage.actual_cost_usd.or(usage.estimated_cost_usd);
        Some(Self {
            turns: 1,
            input_tokens: usage.input_tokens.into(),
            output_tokens: usage.output_tokens.into(),
            cache_read_tokens: usage.cache_read_tokens.unwrap_or_default().into(),
            cache_creation_tokens: usage.cache_creation_tokens.unwrap_or_default().into(),
            reasoning_tokens: usage.reasoning_tokens.unwrap_or_default().into(),
            cost_usd: cost.unwrap_or_default(),
            priced_turns: cost.is_some().into(),
        })
    }

    /// Adds another sum.
    pub fn add(&mut self, other: &Self) {
        self.turns += other.turns;
        self.input_tokens += other.input_tokens;
        self.output_tokens += other.output_tokens;
        self.cache_read_tokens += other.cache_read_tokens;
        self.cache_creation_tokens += other.cache_creation_tokens;
        self.reasoning_tokens += other.reasoning_tokens;
        self.cost_usd += other.cost_usd;
        self.priced_turns += other.priced_turns;
    }
}

/// What turns used.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageReport {
    /// All together.
    pub total: UsageSum,
    /// One by one, by their keys. What a turn does not tell has an empty key.
    pub groups: BTreeMap<String, UsageSum>,
}

impl UsageReport {
    /// Adds to a group and to the total.
    pub(crate) fn add(&mut self, key: String, sum: &UsageSum) {
        self.total.add(sum);
        self.groups.entry(key).or_default().add(sum);
    }

    /// Adds a turn, if it ended in the time.
    pub(crate) fn add_turn(&mut self, query: &UsageQuery, turn: &TurnRow) {
        let (first, last) = query.range();
        let ended_at = turn.view.ended_at.map(|at| at.timestamp_micros());
        let is_meant = ended_at.is_some_and(|at| (first..=last).contains(&at));
        if let Some(sum) = UsageSum::of(turn).filter(|_| is_meant) {
            let key = match query.by {
                UsageBy::Day => day(ended_at.unwrap_or_default()),
                UsageBy::Model => turn.model().to_owned(),
                UsageBy::Provider => turn.provider().to_owned(),
                UsageBy::Thread => turn.stream.to_string(),
            };
            self.add(key, &sum);
        }
    }
}

/// Names the day of a moment in microseconds.
pub(crate) fn day(micros: i64) -> String {
    let at = DateTime::from_timestamp_micros(micros).unwrap_or_default();
    at.format("%Y-%m-%d").to_string()
}
