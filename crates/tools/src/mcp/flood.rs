//! Rate limits for the messages of a server.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::watch;

use crate::lock::lock;

/// Burst size and sustained rate per second of messages.
const MESSAGES: (f64, f64) = (2_000.0, 500.0);
/// Burst size and sustained rate per second of bytes.
const BYTES: (f64, f64) = (128.0 * 1024.0 * 1024.0, 16.0 * 1024.0 * 1024.0);

/// Counts a server's messages, and records why the connection ended.
pub(super) struct Flood {
    counted: Mutex<Counted>,
    /// The reason why the connection ended, if it has.
    over: watch::Sender<Option<String>>,
}

/// Ends a connection whose initialization is cancelled: its tasks would otherwise run as long as the server sends.
pub(super) struct Attempt(Option<Arc<Flood>>);

impl Attempt {
    pub(super) fn new(flood: &Arc<Flood>) -> Self {
        Self(Some(Arc::clone(flood)))
    }

    pub(super) fn succeeded(mut self) {
        self.0 = None;
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        if let Some(flood) = &self.0 {
            flood.end("it was not reached");
        }
    }
}

struct Counted {
    messages: f64,
    bytes: f64,
    at: Instant,
}

impl Flood {
    pub(super) fn new() -> Self {
        Self {
            counted: Mutex::new(Counted {
                messages: MESSAGES.0,
                bytes: BYTES.0,
                at: Instant::now(),
            }),
            over: watch::Sender::default(),
        }
    }

    /// Counts a message. Returns whether it is within the limits.
    pub(super) fn admits(&self, bytes: usize) -> bool {
        self.admits_at(1.0, bytes, Instant::now())
    }

    /// Counts bytes of a message that may still be incomplete.
    pub(super) fn admits_bytes(&self, bytes: usize) -> bool {
        self.admits_at(0.0, bytes, Instant::now())
    }

    fn admits_at(&self, messages: f64, bytes: usize, now: Instant) -> bool {
        let mut counted = lock(&self.counted);
        let passed = now.saturating_duration_since(counted.at).as_secs_f64();
        counted.at = now;
        #[expect(clippy::cast_precision_loss, reason = "bytes of one message")]
        let bytes = bytes as f64;
        counted.messages = (counted.messages + passed * MESSAGES.1).min(MESSAGES.0) - messages;
        counted.bytes = (counted.bytes + passed * BYTES.1).min(BYTES.0) - bytes;
        if counted.messages < 0.0 || counted.bytes < 0.0 {
            self.end("it sent more than anybody could read, and was cut off");
        }
        self.over.borrow().is_none()
    }

    /// Ends the connection.
    pub(super) fn end(&self, why: impl Into<String>) {
        self.over.send_modify(|over| {
            over.get_or_insert_with(|| why.into());
        });
    }

    /// Waits until the connection has ended.
    pub(super) async fn ended(&self) {
        // `self` owns the sender, so the channel cannot be closed.
        let _ = self.over.subscribe().wait_for(Option::is_some).await;
    }

    /// Returns why the connection ended, if it has.
    pub(super) fn over(&self) -> Option<String> {
        self.over.borrow().clone()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_flood_is_cut_off_and_a_stream_is_not() {
        let now = Instant::now();
        let flood = Flood::new();
        let mut told =
            (0..10_000).map(|n| flood.admits_at(1.0, 10, now + Duration::from_millis(n * 10)));
        assert!(told.all(|admitted| admitted));
        let flood = Flood::new();
        let admitted = (0..10_000)
            .take_while(|_| flood.admits_at(1.0, 10, now))
            .count();
        assert_eq!(admitted, 2_000);
        assert!(flood.over().unwrap().contains("cut off"));
        assert!(!flood.admits_at(1.0, 1, now + Duration::from_secs(60)));
        assert!(!Flood::new().admits_bytes(256 * 1024 * 1024));
    }
}
