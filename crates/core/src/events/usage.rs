//! Tokens and money.

use serde::{Deserialize, Serialize};
use windlass_macros::omit_none;

/// The usage of model calls.
#[omit_none]
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Input tokens, including cached ones.
    pub input_tokens: u32,
    pub output_tokens: u32,
    /// Input tokens that were read from a cache.
    pub cache_read_tokens: Option<u32>,
    /// Input tokens that were written to a cache.
    pub cache_creation_tokens: Option<u32>,
    /// The provider's charge, if reported.
    pub actual_cost_usd: Option<f64>,
    /// The cost according to the price list.
    pub estimated_cost_usd: Option<f64>,
    /// The part of the output tokens that is reasoning.
    pub reasoning_tokens: Option<u32>,
}

impl TokenUsage {
    /// Adds the usage of another call. A value that only one side has is retained.
    pub fn add(&mut self, other: &Self) {
        fn sum<T>(a: Option<T>, b: Option<T>, add: impl Fn(T, T) -> T) -> Option<T> {
            match (a, b) {
                (Some(a), Some(b)) => Some(add(a, b)),
                (a, b) => a.or(b),
            }
        }
        let (tokens, money) = (u32::saturating_add, |a: f64, b: f64| a + b);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.cache_read_tokens = sum(self.cache_read_tokens, other.cache_read_tokens, tokens);
        self.cache_creation_tokens = sum(
            self.cache_creation_tokens,
            other.cache_creation_tokens,
            tokens,
        );
        self.actual_cost_usd = sum(self.actual_cost_usd, other.actual_cost_usd, money);
        self.estimated_cost_usd = sum(self.estimated_cost_usd, other.estimated_cost_usd, money);
        self.reasoning_tokens = sum(self.reasoning_tokens, other.reasoning_tokens, tokens);
    }

    /// Returns the sum of input and output tokens.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.output_tokens)
    }
}
