//! Provider rate limits as reported by agents: in a dedicated event, or only as an HTTP status.

use chrono::{DateTime, Utc};
use serde_json::Value;
use windlass_core::backend::BackendNotice;

use crate::json::{status, text};

const TOO_MANY_REQUESTS: u16 = 429;

/// A rate limit that the agent has hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateLimit {
    /// When the limit ends, if the provider reports it.
    pub reset_at: Option<DateTime<Utc>>,
}

/// Tracks rate limits across turns.
#[derive(Debug, Clone, Default)]
pub(crate) struct RateLimits {
    /// The limit hit in this turn.
    current: Option<RateLimit>,
    /// When the exhausted usage windows reset. Carried across turns, because agents report it only when it changes.
    window_reset: Option<DateTime<Utc>>,
}

impl RateLimits {
    pub(crate) fn begin_turn(&mut self) {
        self.current = None;
    }

    /// Returns the limit hit in this turn.
    pub(crate) fn current(&self) -> Option<RateLimit> {
        self.current
    }

    /// Clears the limit: the agent continues, so it was no limit or is over.
    pub(crate) fn clear(&mut self) {
        self.current = None;
    }

    /// Reads Claude's event about subscription windows. Only `rejected` is a limit.
    pub(crate) fn window_event(&mut self, info: &Value) -> Option<BackendNotice> {
        let reset_at = unix_time(info.get("resetsAt"));
        match text(info, "status") {
            Some("rejected") => {
                self.record(reset_at);
                Some(BackendNotice::Limit { reset_at })
            }
            Some("allowed_warning") => Some(BackendNotice::LimitNear { reset_at }),
            _ => None,
        }
    }

    /// Reads the HTTP status of one of the agent's model calls.
    pub(crate) fn status(&mut self, status: Option<u16>) {
        if status == Some(TOO_MANY_REQUESTS) {
            self.record(None);
        }
    }

    /// Reads Codex's usage windows: which are exhausted and when they reset.
    pub(crate) fn windows(&mut self, limits: &Value) {
        let windows = ["primary", "secondary"]
            .iter()
            .filter_map(|name| limits.get(name));
        let exhausted = windows.filter(|window| {
            let used = window["usedPercent"].as_f64();
            used.is_some_and(|used| used >= 100.0)
        });
        // All exhausted windows have to reset.
        self.window_reset = exhausted
            .filter_map(|window| unix_time(window.get("resetsAt")))
            .max();
    }

    /// Reads Codex's error information: a string, or an object with one key.
    pub(crate) fn codex_error(&mut self, info: &Value) {
        let current = info.as_str() == Some("usageLimitExceeded")
            || codex_status(info) == Some(TOO_MANY_REQUESTS);
        if current {
            self.record(self.window_reset);
        }
    }

    /// Records a limit. A known reset time is preserved.
    pub(crate) fn record(&mut self, reset_at: Option<DateTime<Utc>>) {
        let known_reset = self.current.and_then(|limit| limit.reset_at);
        let reset_at = reset_at.or(known_reset);
        self.current = Some(RateLimit { reset_at });
    }
}

/// Returns the HTTP status inside Codex's error information.
pub(crate) fn codex_status(info: &Value) -> Option<u16> {
    let fields = info.as_object()?;
    fields
        .values()
        .find_map(|inner| status(inner, "httpStatusCode"))
}

/// Reads seconds since the Unix epoch.
fn unix_time(seconds: Option<&Value>) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(seconds?.as_i64()?, 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_rejection_counts_as_a_rate_limit() {
        let reset_at = DateTime::from_timestamp(1_800_000_000, 0);
        let info = |status: &str| json!({"status": status, "resetsAt": 1_800_000_000});
        let mut limits = RateLimits::default();
        assert_eq!(limits.window_event(&info("allowed")), None);
        let near = limits.window_event(&info("allowed_warning"));
        assert_eq!(near, Some(BackendNotice::LimitNear { reset_at }));
        assert_eq!(limits.current(), None);
        limits.window_event(&info("rejected"));
        // The status that follows does not clear the reset time.
        limits.status(Some(429));
        assert_eq!(limits.current(), Some(RateLimit { reset_at }));
        limits.begin_turn();
        limits.status(Some(500));
        assert_eq!(limits.current(), None);
        limits.status(Some(429));
        assert_eq!(limits.current(), Some(RateLimit { reset_at: None }));
        limits.window_event(&json!({"status": "rejected", "resetsAt": i64::MAX}));
        assert_eq!(limits.current(), Some(RateLimit { reset_at: None }));
    }
}
