//! What turns used.

use serde::{Deserialize, Serialize};

/// How usage is grouped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum GroupBy {
    /// By the day on which the turn ended.
    #[default]
    Day,
    /// One bucket per model.
    Model,
    /// One bucket per provider.
    Provider,
    /// One bucket per thread.
    Thread,
}

/// Sums over turns. An unknown price makes `cost_complete` false, never a guessed cost.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageTotals {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Output tokens of all model calls.
    pub output_tokens: u64,
    /// Of those read, how many came from a cache.
    pub cached_tokens: u64,
    /// Of those written, how many were thought.
    pub reasoning_tokens: u64,
    /// Tokens of thoughts that were sent again.
    pub reasoning_replay_tokens: u64,
    /// Of those read, how many were put into a cache.
    pub cache_write_tokens: u64,
    /// What is known to have been charged.
    pub cost_usd: f64,
    /// Turns whose cost is known.
    pub priced_turns: u64,
    /// Turns whose cost is not known.
    pub unpriced_turns: u64,
    /// Turns that cost nothing.
    pub nonmetered_turns: u64,
    /// Whether `cost_usd` is all.
    pub cost_complete: bool,
    /// Why costs are not known.
    pub unpriced_reasons: Vec<String>,
    /// Which tokens have no price.
    pub unpriced_classes: Vec<String>,
    /// Where prices come from.
    pub pricing_provenances: Vec<String>,
    /// What is wrong with prices.
    pub live_pricing_defects: Vec<String>,
    /// What makes prices unusable.
    pub live_pricing_unusable_defects: Vec<String>,
    /// Which routes were used.
    pub route_receipts: Vec<String>,
    /// Always 0; required by existing clients.
    pub dropped_usage_records: u64,
    /// Number of turns, failed ones included.
    pub turns: u64,
}

/// The sums of one group.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageBucket {
    /// The day, model, provider or thread.
    pub key: String,
    /// Sums of the bucket.
    #[serde(flatten)]
    pub totals: UsageTotals,
}

/// The answer of `GET /v1/usage`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct UsageReport {
    /// From when on.
    pub since: Option<String>,
    /// End of the period, RFC 3339.
    pub until: Option<String>,
    /// How it is grouped.
    pub group_by: GroupBy,
    /// All groups together.
    pub totals: UsageTotals,
    /// The groups by key.
    pub buckets: Vec<UsageBucket>,
}
