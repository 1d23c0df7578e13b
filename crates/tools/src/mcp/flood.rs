//! How much a server may say.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use tokio::sync::Notify;

/// How many messages may come at once, and how many in a second for long.
const MESSAGES: (f64, f64) = (2_000.0, 500.0);
/// The same of bytes.
const BYTES: (f64, f64) = (128.0 * 1024.0 * 1024.0, 16.0 * 1024.0 * 1024.0);

/// Counts what a server says, and why nobody listens any more.
pub(super) struct Flood {
    counted: Mutex<Counted>,
    ended: Notify,
}

/// Ends a connection that is not made to the end: what was begun for it would go on for as long as the server speaks.
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
    /// Why the connection is over.
    over: Option<String>,
}

impl Flood {
    pub(super) fn new() -> Self {
        Self {
            counted: Mutex::new(Counted {
                messages: MESSAGES.0,
                bytes: BYTES.0,
                at: Instant::now(),
                over: None,
            }),
            ended: Notify::new(),
        }
    }

    /// Counts a message, and tells whether it may be listened to.
    pub(super) fn admits(&self, bytes: usize) -> bool {
        self.admits_at(1.0, bytes, Instant::now())
    }

    /// Counts bytes of a message whose end may not have come yet.
    pub(super) fn admits_bytes(&self, bytes: usize) -> bool {
        self.admits_at(0.0, bytes, Instant::now())
    }

    fn admits_at(&self, messages: f64, bytes: usize, now: Instant) -> bool {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let passed = now.saturating_duration_since(counted.at).as_secs_f64();
        counted.at = now;
        #[expect(clippy::cast_precision_loss, reason = "bytes of one message")]
        let bytes = bytes as f64;
        counted.messages = (counted.messages + passed * MESSAGES.1).min(MESSAGES.0) - messages;
        counted.bytes = (counted.bytes + passed * BYTES.1).min(BYTES.0) - bytes;
        if counted.messages < 0.0 || counted.bytes < 0.0 {
            let why = "it sent more than anybody could read, and was cut off";
            counted.over.get_or_insert_with(|| why.to_owned());
            self.ended.notify_waiters();
        }
        counted.over.is_none()
    }

    /// Ends the connection.
    pub(super) fn end(&self, why: impl Into<String>) {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.over.get_or_insert_with(|| why.into());
        self.ended.notify_waiters();
    }

    /// Waits until the connection is over.
    pub(super) async fn ended(&self) {
        loop {
            let ended = self.ended.notified();
            tokio::pin!(ended);
            ended.as_mut().enable();
            if self.over().is_some() {
                return;
            }
            ended.await;
        }
    }

    /// Returns why the connection is over, if it is.
    pub(super) fn over(&self) -> Option<String> {
        let counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        counted.over.clone()
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
