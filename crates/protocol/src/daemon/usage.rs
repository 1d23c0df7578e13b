//! Usage of turns.

use windlass_macros::wire;

/// Grouping of usage in a report.
#[wire(Copy, Eq, Default, snake_case)]
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
#[wire(Default)]
pub struct UsageTotals {
    /// Input tokens, cached ones included.
    pub input_tokens: u64,
    /// Output tokens of all model calls.
    pub output_tokens: u64,
    /// Input tokens that came from a cache.
    pub cached_tokens: u64,
    /// Output tokens of reasoning.
    pub reasoning_tokens: u64,
    /// Tokens of reasoning that was sent again.
    pub reasoning_replay_tokens: u64,
    /// Input tokens that were written to a cache.
    pub cache_write_tokens: u64,
    /// Sum of the known costs.
    pub cost_usd: f64,
    /// Turns whose cost is known.
    pub priced_turns: u64,
    /// Turns whose cost is unknown.
    pub unpriced_turns: u64,
    /// Turns that cost nothing.
    pub nonmetered_turns: u64,
    /// Whether all costs are known.
    pub cost_complete: bool,
    /// Reasons for unknown costs.
    pub unpriced_reasons: Vec<String>,
    /// Kinds of tokens without a price.
    pub unpriced_classes: Vec<String>,
    /// Sources of the prices.
    pub pricing_provenances: Vec<String>,
    /// Always empty; required by existing clients.
    pub live_pricing_defects: Vec<String>,
    /// Always empty; required by existing clients.
    pub live_pricing_unusable_defects: Vec<String>,
    /// Always empty; required by existing clients.
    pub route_receipts: Vec<String>,
    /// Always 0; required by existing clients.
    pub dropped_usage_records: u64,
    /// Number of turns, failed ones included.
    pub turns: u64,
}

/// The sums of one group.
#[wire]
pub struct UsageBucket {
    /// The day, model, provider or thread.
    pub key: String,
    /// Sums of the bucket.
    #[serde(flatten)]
    pub totals: UsageTotals,
}

/// The answer of `GET /v1/usage`.
#[wire]
pub struct UsageReport {
    /// Start of the period, RFC 3339.
    pub since: Option<String>,
    /// End of the period, RFC 3339.
    pub until: Option<String>,
    /// Grouping of the buckets.
    pub group_by: GroupBy,
    /// Sums of all buckets.
    pub totals: UsageTotals,
    /// Buckets by key.
    pub buckets: Vec<UsageBucket>,
}
