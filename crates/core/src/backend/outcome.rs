//! How a turn of an agent ended.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::{BackendError, BackendErrorKind};
use crate::events::TokenUsage;

/// The outcome of an agent's turn. A failed turn can have a session and usage too.
#[derive(Debug, Clone, PartialEq)]
pub struct BackendOutcome {
    /// How it ended.
    pub result: Result<BackendEnd, BackendError>,
    /// The session, if it is established; never a rejected one.
    pub session_id: Option<String>,
    /// Whether the process began a new conversation.
    pub is_fresh: bool,
    /// The turn's usage, if the agent reports it.
    pub usage: Option<BackendUsage>,
    /// Cumulative usage of the session, to be passed to the process that resumes it.
    pub totals: SessionTotals,
    /// Whether the process died by a signal that we did not send, before the session was established.
    pub aborted_signal: bool,
    /// Whether the turn failed because of its provider's rate limit.
    pub rate_limit_exit: bool,
    /// When to retry, if the provider reports it.
    pub rate_limit_reset_at: Option<DateTime<Utc>>,
    /// How the process ended, if it has.
    pub exit: Option<BackendExit>,
    /// The end of the agent's stderr, up to 4 KiB.
    pub stderr: String,
}

impl BackendOutcome {
    /// The outcome of a turn that failed before the agent reported anything.
    #[must_use]
    pub fn failed(error: BackendError) -> Self {
        Self {
            result: Err(error),
            session_id: None,
            is_fresh: false,
            usage: None,
            totals: SessionTotals::default(),
            aborted_signal: false,
            rate_limit_exit: false,
            rate_limit_reset_at: None,
            exit: None,
            stderr: String::new(),
        }
    }

    /// Returns the kind of failure, if it failed.
    #[must_use]
    pub fn error_kind(&self) -> Option<BackendErrorKind> {
        self.result.as_ref().err().map(|error| error.kind)
    }
}

/// How a turn ended that did not fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BackendEnd {
    /// The agent is done.
    Completed,
    /// The model refused to continue.
    Refused,
    /// The model reached its output limit.
    LengthLimit,
    /// It was interrupted; the session can be used again.
    Interrupted,
}

/// How a process ended.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct BackendExit {
    /// Its exit code.
    pub code: Option<i32>,
    /// The signal that ended it.
    pub signal: Option<i32>,
    /// Whether the exit of the whole process tree was confirmed.
    pub is_whole: bool,
}

/// The usage of a turn. Each token is counted in one field, except that reasoning tokens are also output tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct BackendUsage {
    /// Input tokens, without cached ones.
    pub input_tokens: u64,
    /// Input tokens read from a cache.
    pub cached_tokens: u64,
    /// Input tokens written to a cache.
    pub cache_write_tokens: u64,
    pub output_tokens: u64,
    /// The part of the output tokens that is reasoning.
    pub reasoning_tokens: u64,
    /// The cost in US dollars, if the agent reports it.
    pub cost_usd: Option<f64>,
}

impl BackendUsage {
    /// Adds further usage.
    pub fn add(&mut self, other: &Self) {
        let sum = |one: &mut u64, other: u64| *one = one.saturating_add(other);
        sum(&mut self.input_tokens, other.input_tokens);
        sum(&mut self.cached_tokens, other.cached_tokens);
        sum(&mut self.cache_write_tokens, other.cache_write_tokens);
        sum(&mut self.output_tokens, other.output_tokens);
        sum(&mut self.reasoning_tokens, other.reasoning_tokens);
        if let Some(cost) = other.cost_usd {
            *self.cost_usd.get_or_insert(0.0) += cost;
        }
    }

    /// Returns the usage since an earlier count.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let cost = |cost: f64| (cost - earlier.cost_usd.unwrap_or_default()).max(0.0);
        Self {
            input_tokens: self.input_tokens.saturating_sub(earlier.input_tokens),
            cached_tokens: self.cached_tokens.saturating_sub(earlier.cached_tokens),
            cache_write_tokens: (self.cache_write_tokens)
                .saturating_sub(earlier.cache_write_tokens),
            output_tokens: self.output_tokens.saturating_sub(earlier.output_tokens),
            reasoning_tokens: (self.reasoning_tokens).saturating_sub(earlier.reasoning_tokens),
            cost_usd: self.cost_usd.map(cost),
        }
    }

    /// Converts to the form of the rest of the workspace, in which cached tokens are part of the input.
    #[must_use]
    pub fn to_token_usage(&self) -> TokenUsage {
        let narrow = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        let input = self
            .input_tokens
            .saturating_add(self.cached_tokens)
            .saturating_add(self.cache_write_tokens);
        TokenUsage {
            input_tokens: narrow(input),
            output_tokens: narrow(self.output_tokens),
            cache_read_tokens: Some(narrow(self.cached_tokens)),
            cache_creation_tokens: Some(narrow(self.cache_write_tokens)),
            actual_cost_usd: self.cost_usd,
            estimated_cost_usd: None,
            reasoning_tokens: Some(narrow(self.reasoning_tokens)),
        }
    }
}

/// The latest cumulative usage that an agent reported for its session. Agents that report only totals are charged by difference.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SessionTotals {
    /// The tokens, if the agent counts them per session.
    pub tokens: Option<BackendUsage>,
    /// The cost, if the agent counts it per session.
    pub cost_usd: Option<f64>,
}
