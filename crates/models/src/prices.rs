//! Estimated costs of model calls, from a price list.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use serde::Deserialize;
use windlass_core::llm_driver_registry::LlmCompletionMetadata;

const BUILT_IN: &str = include_str!("../prices.toml");
const PER_MILLION: f64 = 1_000_000.0;

/// The price of one model, in US dollars per million tokens.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// The provider: `openai`, `anthropic`, `gemini`.
    pub provider: String,
    /// The model's name without its version date.
    pub model: String,
    /// Minimum number of input tokens for which this row applies.
    #[serde(default)]
    pub from_tokens: u32,
    /// US dollars per million input tokens.
    pub input: f64,
    /// US dollars per million output tokens, including reasoning.
    pub output: f64,
    /// US dollars per million tokens read from the cache. Default: the price of input tokens.
    #[serde(default)]
    pub cache_read: Option<f64>,
    /// US dollars per million tokens written to the cache. Default: the price of input tokens.
    #[serde(default)]
    pub cache_write: Option<f64>,
    /// Date on which the price was read.
    pub date: String,
    /// URL of the price list.
    pub source: String,
}

/// Why a price list cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("the price list cannot be read: {0}")]
pub struct PriceListError(#[from] toml::de::Error);

/// A price list. A later row for the same model and amount replaces an earlier one.
#[derive(Debug, Clone, Default)]
pub struct PriceTable {
    rows: HashMap<(String, String), Vec<Price>>,
}

#[derive(Deserialize)]
struct File {
    #[serde(default)]
    price: Vec<Price>,
}

impl PriceTable {
    /// Creates an empty list.
    #[must_use]
    pub fn empty() -> Self {
        Self::default()
    }

    /// Returns the compiled-in list.
    #[must_use]
    pub fn built_in() -> Arc<Self> {
        static TABLE: OnceLock<Arc<PriceTable>> = OnceLock::new();
        // A test parses the list; if it were still invalid, costs would be unknown rather than wrong.
        let read = || Arc::new(Self::from_toml(BUILT_IN).unwrap_or_default());
        Arc::clone(TABLE.get_or_init(read))
    }

    /// Parses a list from TOML: `[[price]]` tables with the fields of [`Price`].
    pub fn from_toml(text: &str) -> Result<Self, PriceListError> {
        let file: File = toml::from_str(text)?;
        let mut table = Self::default();
        for price in file.price {
            table.set(price);
        }
        Ok(table)
    }

    /// Adds or replaces one price.
    pub fn set(&mut self, price: Price) {
        let key = (price.provider.clone(), price.model.clone());
        let rows = self.rows.entry(key).or_default();
        rows.retain(|row| row.from_tokens != price.from_tokens);
        rows.push(price);
        rows.sort_by_key(|row| row.from_tokens);
    }

    /// Replaces rows by those of another list.
    #[must_use]
    pub fn overridden_by(&self, other: &Self) -> Self {
        let mut rows = self.rows.clone();
        rows.extend(other.rows.clone());
        Self { rows }
    }

    /// Returns the models of a provider that are on the list.
    pub(crate) fn models_of(&self, provider: &str) -> impl Iterator<Item = &str> {
        let rows = self.rows.keys().filter(move |(of, _)| of == provider);
        rows.map(|(_, model)| model.as_str())
    }

    /// Returns the row that applies to a model and a number of input tokens.
    #[must_use]
    pub fn find(&self, provider: &str, model: &str, tokens_read: u32) -> Option<&Price> {
        let of = |name: &str| self.rows.get(&(provider.to_owned(), name.to_owned()));
        let name = model.rsplit('/').next().unwrap_or(model);
        let rows = of(name).or_else(|| of(without_date(name)?))?;
        rows.iter().rev().find(|row| row.from_tokens <= tokens_read)
    }

    /// Returns the cost of a call; `None` if the model has no price or the tokens are unknown.
    #[must_use]
    pub fn cost(&self, provider: &str, model: &str, done: &LlmCompletionMetadata) -> Option<f64> {
        let (read, written) = (done.prompt_tokens?, done.completion_tokens.unwrap_or(0));
        let price = self.find(provider, model, read)?;
        let cached = done.cache_read_tokens.unwrap_or(0);
        let stored = done.cache_creation_tokens.unwrap_or(0);
        let plain = read.saturating_sub(cached).saturating_sub(stored);
        let sum = f64::from(plain) * price.input
            + f64::from(cached) * price.cache_read.unwrap_or(price.input)
            + f64::from(stored) * price.cache_write.unwrap_or(price.input)
            + f64::from(written) * price.output;
        Some(sum / PER_MILLION)
    }
}

/// Removes a version suffix: `-20250929`, `-2025-08-07` or `-latest`.
fn without_date(model: &str) -> Option<&str> {
    let digits = |text: &str, n| text.len() == n && text.bytes().all(|byte| byte.is_ascii_digit());
    let (name, last) = model.rsplit_once('-')?;
    if last == "latest" || digits(last, 8) {
        return Some(name);
    }
    let (name, month) = name.rsplit_once('-')?;
    let (name, year) = name.rsplit_once('-')?;
    (digits(last, 2) && digits(month, 2) && digits(year, 4)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn used(read: u32, written: u32, cached: u32, stored: u32) -> LlmCompletionMetadata {
        LlmCompletionMetadata {
            prompt_tokens: Some(read),
            completion_tokens: Some(written),
            cache_read_tokens: Some(cached),
            cache_creation_tokens: Some(stored),
            ..LlmCompletionMetadata::default()
        }
    }

    #[test]
    fn every_built_in_price_has_a_date_and_source() {
        let table = PriceTable::from_toml(BUILT_IN).unwrap();
        assert!(table.rows.len() > 10);
        for price in table.rows.values().flatten() {
            assert!(price.source.starts_with("https://"), "{price:?}");
            assert!(
                price.date.len() == 10 && price.date.starts_with("20"),
                "{price:?}"
            );
            assert!(price.input > 0.0 && price.output > 0.0, "{price:?}");
        }
    }

    #[test]
    fn cached_tokens_have_their_own_price() {
        let table = PriceTable::built_in();
        let cost = table.cost(
            "anthropic",
            "claude-sonnet-4-5-20250929",
            &used(1_000_000, 100_000, 500_000, 100_000),
        );
        // 0.4 M at 3, 0.5 M at 0.3, 0.1 M at 3.75, and 0.1 M written at 15.
        assert!(
            (cost.unwrap() - (1.2 + 0.15 + 0.375 + 1.5)).abs() < 1e-9,
            "{cost:?}"
        );
    }

    #[test]
    fn long_prompt_has_its_own_price() {
        let table = PriceTable::built_in();
        let input = |tokens| {
            table
                .find("gemini", "models/gemini-3.1-pro-preview", tokens)
                .unwrap()
                .input
        };
        assert!((input(200_000) - 2.0).abs() < 1e-9);
        assert!((input(200_001) - 4.0).abs() < 1e-9);
    }

    #[test]
    fn cost_of_an_unknown_model_or_uncounted_call_is_unknown() {
        let table = PriceTable::built_in();
        assert_eq!(table.cost("openai", "llama-9", &used(1, 1, 0, 0)), None);
        assert_eq!(
            table.cost("openai", "gpt-5-mini", &LlmCompletionMetadata::default()),
            None
        );
        assert_eq!(
            PriceTable::empty().cost("openai", "gpt-5-mini", &used(1, 1, 0, 0)),
            None
        );
    }

    #[test]
    fn custom_list_replaces_only_its_rows() {
        let own = PriceTable::from_toml(
            "[[price]]\nprovider = 'openai'\nmodel = 'gpt-5-mini'\ninput = 1\noutput = 2\ndate = '2026-01-01'\nsource = 'contract'",
        );
        let table = PriceTable::built_in().overridden_by(&own.unwrap());
        assert!(
            (table
                .find("openai", "gpt-5-mini-2025-08-07", 0)
                .unwrap()
                .input
                - 1.0)
                .abs()
                < 1e-9
        );
        assert!(table.find("anthropic", "claude-haiku-4-5", 0).is_some());
        assert!(PriceTable::from_toml("[[price]]\nmodel = 'x'").is_err());
    }
}
