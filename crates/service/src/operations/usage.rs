//! What turns used.

use windlass_protocol::usage::GroupBy;
use windlass_protocol::{UsageBucket, UsageReport, UsageTotals};
use windlass_store::queries::{UsageBy, UsageQuery, UsageSum};

use crate::error::Result;
use crate::ids;
use crate::service::Service;

impl Service {
    /// Sums up what turns used.
    pub async fn usage(&self, query: UsageQuery) -> Result<UsageReport> {
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
            group_by: match by {
                UsageBy::Day => GroupBy::Day,
                UsageBy::Model => GroupBy::Model,
                UsageBy::Provider => GroupBy::Provider,
                UsageBy::Thread => GroupBy::Thread,
            },
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
