//! Usage totals of turns.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use chrono::{DateTime, Utc};

use super::rows::TurnRow;
use crate::journal::StreamKey;

/// The grouping of usage.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsageBy {
    /// The day on which a turn ended, in UTC: `2026-01-31`.
    Day,
    /// The model that answered.
    Model,
    /// By provider of the model.
    Provider,
    /// The name of the thread's stream.
    Thread,
}

/// Period and grouping of a usage query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UsageQuery {
    /// Turns that ended no earlier.
    pub since: Option<DateTime<Utc>>,
    /// Turns that ended no later.
    pub until: Option<DateTime<Utc>>,
    /// Key of the groups.
    pub by: UsageBy,
}

impl UsageQuery {
    /// Returns the first and the last moment, in microseconds.
    pub(crate) fn range(&self) -> (i64, i64) {
        // A time is rounded up to the next microsecond.
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
    /// Number of turns.
    pub turns: u64,
    /// Input tokens, including cached ones.
    pub input_tokens: u64,
    /// Output tokens, including reasoning.
    pub output_tokens: u64,
    /// The part of the input tokens that was read from a cache.
    pub cache_read_tokens: u64,
    /// The part of the input tokens that was written to a cache.
    pub cache_creation_tokens: u64,
    /// The part of the output tokens that was reasoning.
    pub reasoning_tokens: u64,
    /// The cost of the turns with a known price, in US dollars.
    pub cost_usd: f64,
    /// Number of turns with a known price.
    pub priced_turns: u64,
}

impl UsageSum {
    fn of(turn: &TurnRow) -> Self {
        let usage = turn.view.usage.unwrap_or_default();
        let cost = usage.actual_cost_usd.or(usage.estimated_cost_usd);
        Self {
            turns: 1,
            input_tokens: usage.input_tokens.into(),
            output_tokens: usage.output_tokens.into(),
            cache_read_tokens: usage.cache_read_tokens.unwrap_or_default().into(),
            cache_creation_tokens: usage.cache_creation_tokens.unwrap_or_default().into(),
            reasoning_tokens: usage.reasoning_tokens.unwrap_or_default().into(),
            cost_usd: cost.unwrap_or_default(),
            priced_turns: cost.is_some().into(),
        }
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

/// The usage of turns.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UsageReport {
    /// The sum over all groups.
    pub total: UsageSum,
    /// By group key. Turns without the value have an empty key.
    pub groups: BTreeMap<String, UsageSum>,
}

impl UsageReport {
    /// Adds to a group and to the total.
    pub(crate) fn add(&mut self, key: String, sum: &UsageSum) {
        self.total.add(sum);
        self.groups.entry(key).or_default().add(sum);
    }

    /// Adds a turn, if it ended in the time.
    pub(crate) fn add_turn(&mut self, query: &UsageQuery, turn: &TurnUsage) {
        let (first, last) = query.range();
        if !(first..=last).contains(&turn.ended_at) {
            return;
        }
        let key = match query.by {
            UsageBy::Day => day(turn.ended_at),
            UsageBy::Model => turn.model.clone(),
            UsageBy::Provider => turn.provider.clone(),
            UsageBy::Thread => turn.thread.to_string(),
        };
        self.add(key, &turn.sum);
    }
}

/// The usage of one turn, or of several of the same day, thread, model and provider.
#[derive(Debug, Clone)]
pub(crate) struct TurnUsage {
    pub(crate) thread: StreamKey,
    /// Microseconds since the Unix epoch.
    pub(crate) ended_at: i64,
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) sum: UsageSum,
}

impl TurnUsage {
    /// Returns the usage of a turn that has ended.
    pub(crate) fn of(turn: &TurnRow) -> Option<Self> {
        Some(Self::at(turn, turn.view.ended_at?))
    }

    /// Returns the usage of a turn whose thread is removed; an open turn counts as ended.
    pub(crate) fn at_removal(turn: &TurnRow, at: DateTime<Utc>) -> Option<Self> {
        let is_used = turn.view.usage.is_some();
        Self::of(turn).or_else(|| is_used.then(|| Self::at(turn, at)))
    }

    fn at(turn: &TurnRow, ended_at: DateTime<Utc>) -> Self {
        Self {
            thread: turn.stream.clone(),
            ended_at: ended_at.timestamp_micros(),
            model: turn.model().to_owned(),
            provider: turn.provider().to_owned(),
            sum: UsageSum::of(turn),
        }
    }
}

/// The usage of turns whose rows were removed: one entry for each day, thread, model and provider, dated at the end of the last of its turns. So its
/// size does not depend on the number of turns, and a query by time is exact to the day.
#[derive(Debug, Default)]
pub(crate) struct RetainedUsage(BTreeMap<(String, StreamKey, String, String), TurnUsage>);

impl RetainedUsage {
    pub(crate) fn add(&mut self, turn: TurnUsage) {
        let key = (
            day(turn.ended_at),
            turn.thread.clone(),
            turn.model.clone(),
            turn.provider.clone(),
        );
        match self.0.entry(key) {
            Entry::Vacant(entry) => drop(entry.insert(turn)),
            Entry::Occupied(mut entry) => {
                let entry = entry.get_mut();
                entry.sum.add(&turn.sum);
                entry.ended_at = entry.ended_at.max(turn.ended_at);
            }
        }
    }

    pub(crate) fn turns(&self) -> impl Iterator<Item = &TurnUsage> {
        self.0.values()
    }

    /// Removes and returns all entries.
    pub(crate) fn take(&mut self) -> impl Iterator<Item = TurnUsage> + use<> {
        std::mem::take(&mut self.0).into_values()
    }
}

/// Names the day of a moment in microseconds.
pub(crate) fn day(micros: i64) -> String {
    let at = DateTime::from_timestamp_micros(micros).unwrap_or_default();
    at.format("%Y-%m-%d").to_string()
}
