//! Provider rate limits as reported by agents: in a dedicated event, or only as an HTTP status.

use chrono::{DateTime, Utc};
use serde_json::Value;
use windlass_core::backend::BackendNotice;

use crate::json::{status, text};

const TOO_MANY_REQUESTS: u16 = 429;

/// A rate limit that the agent has hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// When the limit ends, if the provider reports it.
    pub reset_at: Option<DateTime<Utc>>,
}

/// Tracks rate limits across turns.
#[derive(Debug, Clone, Default)]
pub struct Limits {
    /// The limit hit in this turn.
    met: Option<Limit>,
    /// When the exhausted usage windows reset. Carried across turns, because agents report it only when it changes.
    window: Option<DateTime<Utc>>,
}

impl Limits {
    pub fn begin_turn(&mut self) {
        self.met = None;
    }

    /// Returns the limit hit in this turn.
    #[must_use]
    pub fn met(&self) -> Option<Limit> {
        self.met
    }

    /// Clears the limit: the agent continues, so it was no limit or is over.
    pub fn go_on(&mut self) {
        self.met = None;
    }

    /// Reads Claude's event about subscription windows. Only `rejected` is a limit.
    pub fn window_event(&mut self, info: &Value) -> Option<BackendNotice> {
        let reset_at = moment(info.get("resetsAt"));
        match text(info, "status") {
            Some("rejected") => {
                self.meet(reset_at);
                Some(BackendNotice::Limit { reset_at })
            }
            Some("allowed_warning") => Some(BackendNotice::LimitNear { reset_at }),
            _ => None,
        }
    }

    /// Reads the HTTP status of one of the agent's model calls.
    pub fn status(&mut self, status: Option<u16>) {
        if status == Some(TOO_MANY_REQUESTS) {
            self.meet(None);
        }
    }

    /// Reads Codex's usage windows: which are exhausted and when they reset.
    pub fn windows(&mut self, limits: &Value) {
        let windows = ["primary", "secondary"]
            .iter()
            .filter_map(|name| limits.get(name));
        let used_up = windows.filter(|window| {
            let used = window.get("usedPercent").and_then(Value::as_f64);
            used.is_some_and(|used| used >= 100.0)
        });
        // All exhausted windows have to reset.
        self.window = used_up
            .filter_map(|window| moment(window.get("resetsAt")))
            .max();
    }

    /// Reads Codex's error information: a string, or an object with one key.
    pub fn codex_error(&mut self, info: &Value) {
        let met = info.as_str() == Some("usageLimitExceeded")
            || codex_status(info) == Some(TOO_MANY_REQUESTS);
        if met {
            self.meet(self.window);
        }
    }

    /// Records a limit. A known reset time is preserved.
    pub fn meet(&mut self, reset_at: Option<DateTime<Utc>>) {
        let known = self.met.and_then(|limit| limit.reset_at);
        let reset_at = reset_at.or(known);
        self.met = Some(Limit { reset_at });
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
fn moment(seconds: Option<&Value>) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(seconds?.as_i64()?, 0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_rejection_is_a_limit() {
        let reset_at = DateTime::from_timestamp(1_800_000_000, 0);
        let info = |status: &str| json!({"status": status, "resetsAt": 1_800_000_000});
        let mut limits = Limits::default();
        assert_eq!(limits.window_event(&info("allowed")), None);
        let near = limits.window_event(&info("allowed_warning"));
        assert_eq!(near, Some(BackendNotice::LimitNear { reset_at }));
        assert_eq!(limits.met(), None);
        limits.window_event(&info("rejected"));
        // The status that follows does not clear the reset time.
        limits.status(Some(429));
        assert_eq!(limits.met(), Some(Limit { reset_at }));
        limits.begin_turn();
        limits.status(Some(500));
        assert_eq!(limits.met(), None);
        limits.status(Some(429));
        assert_eq!(limits.met(), Some(Limit { reset_at: None }));
        limits.window_event(&json!({"status": "rejected", "resetsAt": i64::MAX}));
        assert_eq!(limits.met(), Some(Limit { reset_at: None }));
    }
}
