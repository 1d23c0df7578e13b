//! Usage totals of the turns that ended in a period.

use super::QuerySnapshot;
use crate::queries::usage::{TurnUsage, day};
use crate::queries::{UsageBy, UsageQuery, UsageReport, UsageSum};
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::uint;

/// How a day is counted in the tables.
const DAY: &str = "86400000000";

/// Days since 1970-01-01, rounded down; negative for earlier days.
pub(super) fn day_of_end() -> String {
    format!("(ended_at - (({DAY} + ended_at % {DAY}) % {DAY})) / {DAY}")
}

/// Sums the turns of each key that ended in a period.
pub(super) fn sums(by: UsageBy) -> String {
    let day = day_of_end();
    let key = match by {
        UsageBy::Day => &day,
        UsageBy::Model => "model",
        UsageBy::Provider => "provider",
        UsageBy::Thread => "streams.key",
    };
    let tables = "turns INDEXED BY turns_by_end CROSS JOIN streams ON streams.id = turns.stream";
    select_sums(key, ["count(*)", "count(cost)"], tables)
}

/// The same query for turns whose rows were removed.
pub(super) fn retained(by: UsageBy) -> String {
    let key = match by {
        UsageBy::Day => "day",
        UsageBy::Model => "model",
        UsageBy::Provider => "provider",
        UsageBy::Thread => "thread",
    };
    let table = "retained_usage INDEXED BY retained_usage_by_end";
    select_sums(key, ["sum(turns)", "sum(priced)"], table)
}

fn select_sums(key: &str, [turns, priced]: [&str; 2], tables: &str) -> String {
    format!(
        "SELECT {key}, {turns}, sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), \
         sum(cache_creation_tokens), sum(reasoning_tokens), total(cost), {priced} \
         FROM {tables} WHERE ended_at BETWEEN ?1 AND ?2 GROUP BY 1"
    )
}

impl QuerySnapshot<'_> {
    pub(super) fn usage(&self, query: &UsageQuery) -> DbResult<UsageReport> {
        let mut report = UsageReport::default();
        self.add_sums(&sums(query.by), query, &mut report)?;
        self.add_sums(&retained(query.by), query, &mut report)?;
        self.add_newer(query, &mut report)?;
        Ok(report)
    }

    fn add_sums(&self, sql: &str, query: &UsageQuery, report: &mut UsageReport) -> DbResult<()> {
        let mut statement = self.db.prepare_cached(sql)?;
        let mut rows = statement.query(<[i64; 2]>::from(query.range()))?;
        while let Some(row) = rows.next()? {
            let key = match query.by {
                UsageBy::Day => day(row.get::<_, i64>(0)?.saturating_mul(86_400_000_000)),
                _ => row.get(0)?,
            };
            let sum = UsageSum {
                turns: uint(row, 1)?,
                input_tokens: uint(row, 2)?,
                output_tokens: uint(row, 3)?,
                cache_read_tokens: uint(row, 4)?,
                cache_creation_tokens: uint(row, 5)?,
                reasoning_tokens: uint(row, 6)?,
                cost_usd: row.get(7)?,
                priced_turns: uint(row, 8)?,
            };
            report.add(key, &sum);
        }
        Ok(())
    }

    /// Adds the turns that ended since the rows were written. With a second process, some may be in both, with the values at their end. Those of
    /// removed streams are retained.
    fn add_newer(&self, query: &UsageQuery, report: &mut UsageReport) -> DbResult<()> {
        let mut ended = self
            .db
            .prepare_cached("SELECT 1 FROM turns WHERE place = ?1 AND ended_at IS NOT NULL")?;
        for (position, (stream, turn)) in &self.newer.turns {
            let Some(usage) = TurnUsage::of(turn) else {
                continue;
            };
            if !ended.exists([position.cast_signed()])? && self.exists(*stream)? {
                report.add_turn(query, &usage);
            }
        }
        Ok(())
    }
}
