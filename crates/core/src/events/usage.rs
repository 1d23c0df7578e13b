//! Tokens and money.

use serde::{Deserialize, Serialize};

/// What model calls used.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct TokenUsage {
    /// Tokens read.
    pub input_tokens: u32,
    /// Tokens written.
    pub output_tokens: u32,
    /// Of those read, how many came from a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_read_tokens: Option<u32>,
    /// Of those read, how many were put into a cache.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_creation_tokens: Option<u32>,
    /// What the provider charged, where it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual_cost_usd: Option<f64>,
    /// What it should cost by the price list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimated_cost_usd: Option<f64>,
    /// Of those written, how many were reasoning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reasoning_tokens: Option<u32>,
}

impl TokenUsage {
    /// Adds what another call used. A figure that only one side knows is kept.
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

    /// Returns all tokens, read and written.
    #[must_use]
    pub fn total_tokens(&self) -> u64 {
        u64::from(self.input_tokens) + u64::from(self.output_tokens)
    }
}
