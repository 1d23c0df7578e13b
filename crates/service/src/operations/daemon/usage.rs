//! Usage of turns: tokens and cost.

use chrono::{DateTime, Utc};
use windlass_protocol::usage::GroupBy;
use windlass_protocol::{UsageBucket, UsageReport, UsageTotals};
use windlass_store::queries::{UsageBy, UsageQuery, UsageSum};

use crate::convert::convert_variants;
use crate::ids;
use crate::operations::prelude::*;

convert_variants! {
    fn stored_grouping(GroupBy) -> UsageBy { Day Model Provider Thread }
    fn wire_grouping(UsageBy) -> GroupBy { Day Model Provider Thread }
}

fn selected(query: &op::UsageQuery) -> Result<UsageQuery> {
    let since = time("since", query.since.as_deref())?;
    let until = time("until", query.until.as_deref())?;
    if since.zip(until).is_some_and(|(since, until)| since > until) {
        return Err(ApiError::query("since must not be after until"));
    }
    let by = stored_grouping(query.group_by.unwrap_or(GroupBy::Day));
    Ok(UsageQuery { since, until, by })
}

fn time(name: &str, text: Option<&str>) -> Result<Option<DateTime<Utc>>> {
    let time = text.map(str::parse).transpose();
    time.map_err(|_| {
        ApiError::query(format!(
            "{name} must be a time such as 2026-01-31T12:00:00Z (RFC 3339, with + written as %2B)"
        ))
    })
}

/// Sums up the usage of turns.
impl Handle<op::GetUsage> for Service {
    async fn handle(&self, _: &RequestContext, call: Call<op::GetUsage>) -> Result<UsageReport> {
        let query = selected(&call.query)?;
        let UsageQuery { since, until, by } = query;
        let used = self.queries.usage(query).await?;
        let bucket = |(key, sum): (String, UsageSum)| UsageBucket {
            key: match by {
                UsageBy::Thread => key.parse().map_or(key, ids::thread),
                UsageBy::Day | UsageBy::Model | UsageBy::Provider => key,
            },
            totals: totals(&sum),
        };
        Ok(UsageReport {
            since: since.map(ids::time),
            until: until.map(ids::time),
            group_by: wire_grouping(by),
            totals: totals(&used.total),
            buckets: used.groups.into_iter().map(bucket).collect(),
        })
    }
}

fn totals(sum: &UsageSum) -> UsageTotals {
    let unpriced_turns = sum.turns.saturating_sub(sum.priced_turns);
    let mut totals = UsageTotals {
        input_tokens: sum.input_tokens,
        output_tokens: sum.output_tokens,
        cached_tokens: sum.cache_read_tokens,
        reasoning_tokens: sum.reasoning_tokens,
        cache_write_tokens: sum.cache_creation_tokens,
        cost_usd: sum.cost_usd,
        priced_turns: sum.priced_turns,
        unpriced_turns,
        cost_complete: unpriced_turns == 0,
        turns: sum.turns,
        ..UsageTotals::default()
    };
    if unpriced_turns > 0 {
        totals.unpriced_reasons.push("no_price_known".to_owned());
    }
    totals
}
