//! Rate limits for the messages of a server.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use windlass_core::lock::lock;

/// Burst size and sustained rate per second of messages.
const MESSAGES: (f64, f64) = (2_000.0, 500.0);
/// Burst size and sustained rate per second of bytes.
const BYTES: (f64, f64) = (128.0 * 1024.0 * 1024.0, 16.0 * 1024.0 * 1024.0);

/// Counts a server's messages, and records why the connection ended.
pub(super) struct RateLimit {
    available: Mutex<RemainingRate>,
    /// The reason why the connection ended, if it has.
    end_reason: watch::Sender<Option<String>>,
}

/// Ends a connection whose initialization is cancelled: its tasks would otherwise run as long as the server sends.
pub(super) struct ConnectAttempt(Option<Arc<RateLimit>>);

impl ConnectAttempt {
    pub(super) fn new(rate_limit: &Arc<RateLimit>) -> Self {
        Self(Some(Arc::clone(rate_limit)))
    }

    pub(super) fn succeeded(mut self) {
        self.0 = None;
    }
}

impl Drop for ConnectAttempt {
    fn drop(&mut self) {
        if let Some(rate_limit) = &self.0 {
            rate_limit.end("it was not reached");
        }
    }
}

struct RemainingRate {
    messages: f64,
    bytes: f64,
    at: Instant,
}

impl RateLimit {
    pub(super) fn new() -> Self {
        Self {
            available: Mutex::new(RemainingRate {
                messages: MESSAGES.0,
                bytes: BYTES.0,
                at: Instant::now(),
            }),
            end_reason: watch::Sender::default(),
        }
    }

    /// Counts a message. Returns whether it is within the limits.
    pub(super) fn take_message(&self, bytes: usize) -> bool {
        self.take_at(1.0, bytes, Instant::now())
    }

    /// Counts bytes of a message that may still be incomplete.
    pub(super) fn take_bytes(&self, bytes: usize) -> bool {
        self.take_at(0.0, bytes, Instant::now())
    }

    fn take_at(&self, messages: f64, bytes: usize, now: Instant) -> bool {
        let mut available = lock(&self.available);
        let passed = now.saturating_duration_since(available.at).as_secs_f64();
        available.at = now;
        #[expect(clippy::cast_precision_loss, reason = "bytes of one message")]
        let bytes = bytes as f64;
        available.messages = (available.messages + passed * MESSAGES.1).min(MESSAGES.0) - messages;
        available.bytes = (available.bytes + passed * BYTES.1).min(BYTES.0) - bytes;
        if available.messages < 0.0 || available.bytes < 0.0 {
            self.end("it exceeded the message rate limit and was cut off");
        }
        self.end_reason.borrow().is_none()
    }

    /// Ends the connection.
    pub(super) fn end(&self, why: impl Into<String>) {
        self.end_reason.send_modify(|end_reason| {
            end_reason.get_or_insert_with(|| why.into());
        });
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        // `self` owns the sender, so the channel cannot be closed.
        let _ = self.end_reason.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns why the connection ended, if it has.
    pub(super) fn end_reason(&self) -> Option<String> {
        self.end_reason.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn excess_messages_end_the_connection() {
        let now = Instant::now();
        let rate_limit = RateLimit::new();
        let mut admitted =
            (0..10_000).map(|n| rate_limit.take_at(1.0, 10, now + Duration::from_millis(n * 10)));
        assert!(admitted.all(|admitted| admitted));
        let rate_limit = RateLimit::new();
        let admitted = (0..10_000)
            .take_while(|_| rate_limit.take_at(1.0, 10, now))
            .count();
        assert_eq!(admitted, 2_000);
        assert!(rate_limit.end_reason().unwrap().contains("cut off"));
        assert!(!rate_limit.take_at(1.0, 1, now + Duration::from_secs(60)));
        assert!(!RateLimit::new().take_bytes(256 * 1024 * 1024));
    }
}
