//! Sums of what turns used.

use std::collections::BTreeMap;

use windlass_core::events::TokenUsage;
use windlass_protocol::{UsageBucket, UsageTotals};

use crate::threads::Ended;

/// Begins a sum: nothing is missing from nothing.
fn empty() -> UsageTotals {
    UsageTotals {
        cost_complete: true,
        ..UsageTotals::default()
    }
}

fn add(totals: &mut UsageTotals, usage: &TokenUsage) {
    totals.turns += 1;
    totals.input_tokens += u64::from(usage.input_tokens);
    totals.output_tokens += u64::from(usage.output_tokens);
    totals.cached_tokens += u64::from(usage.cache_read_tokens.unwrap_or_default());
    totals.cache_write_tokens += u64::from(usage.cache_creation_tokens.unwrap_or_default());
    match usage.actual_cost_usd.or(usage.estimated_cost_usd) {
        Some(cost) => {
            totals.cost_usd += cost;
            totals.priced_turns += 1;
        }
        None => {
            totals.unpriced_turns += 1;
            totals.cost_complete = false;
            let reason = "no_price_known";
            if !totals.unpriced_reasons.iter().any(|known| known == reason) {
                totals.unpriced_reasons.push(reason.to_owned());
            }
        }
    }
}

/// Sums turns, all together and by key.
pub(crate) fn sums<'a>(
    turns: impl Iterator<Item = (String, &'a Ended)>,
) -> (UsageTotals, Vec<UsageBucket>) {
    let mut totals = empty();
    let mut buckets: BTreeMap<String, UsageTotals> = BTreeMap::new();
    for (key, ended) in turns {
        add(&mut totals, &ended.usage);
        add(buckets.entry(key).or_insert_with(empty), &ended.usage);
    }
    let buckets = buckets
        .into_iter()
        .map(|(key, totals)| UsageBucket { key, totals })
        .collect();
    (totals, buckets)
}
