//! What turns used.

use axum::extract::State;
use chrono::{DateTime, Utc};
use windlass_protocol::usage::GroupBy;
use windlass_protocol::{UsageBucket, UsageReport, UsageTotals};
use windlass_store::queries::{UsageBy, UsageQuery, UsageSum};

use super::{Answer, ok};
use crate::app::Shared;
use crate::error::ApiError;
use crate::http::query::Query;
use crate::ids;

pub(super) async fn usage(State(app): State<Shared>, query: Query) -> Answer {
    let time = |name| -> Result<Option<DateTime<Utc>>, ApiError> { query.get(name) };
    let (since, until) = (time("since")?, time("until")?);
    if since.zip(until).is_some_and(|(since, until)| since > until) {
        return Err(ApiError::query("since must not be after until"));
    }
    let (group_by, by) = match query.text("group_by") {
        None | Some("day") => (GroupBy::Day, UsageBy::Day),
        Some("model") => (GroupBy::Model, UsageBy::Model),
        Some("provider") => (GroupBy::Provider, UsageBy::Provider),
        Some("thread") => (GroupBy::Thread, UsageBy::Thread),
        Some(_) => {
            return Err(ApiError::query(
                "group_by must be day, model, provider or thread",
            ));
        }
    };
    let used = app.queries.usage(UsageQuery { since, until, by }).await?;
    let bucket = |(key, sum): (String, UsageSum)| UsageBucket {
        key: match by {
            UsageBy::Thread => key.parse().map_or(key, ids::thread),
            UsageBy::Day | UsageBy::Model | UsageBy::Provider => key,
        },
        totals: totals(&sum),
    };
    ok(&UsageReport {
        since: since.map(ids::time),
        until: until.map(ids::time),
        group_by,
        totals: totals(&used.total),
        buckets: used.groups.into_iter().map(bucket).collect(),
    })
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
