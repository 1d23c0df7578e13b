//! Events for the reader of a turn. A slow reader delays only its own agent.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use windlass_core::backend::{BackendEvent, BackendNotice};
use windlass_core::bounds::json_bytes;

/// Maximum events that wait for delivery before the agent is no longer read.
const MAX_WAITING: usize = 256;
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;

#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<BackendEvent>,
    /// Approximate size of the waiting events in bytes.
    bytes: usize,
    reader: Option<mpsc::Sender<BackendEvent>>,
    /// Whether the agent is being ended: it is still read, and events beyond the limit are dropped.
    is_ending: bool,
}

impl Outbox {
    pub(super) fn begin_turn(&mut self, reader: mpsc::Sender<BackendEvent>) {
        self.reader = Some(reader);
    }

    pub(super) fn end_turn(&mut self) {
        self.reader = None;
    }

    pub(super) fn begin_ending(&mut self) {
        self.is_ending = true;
    }

    pub(super) fn push(&mut self, event: BackendEvent) {
        let is_lossless = self.reader.is_some() && !self.is_ending;
        if is_lossless || !self.is_full() {
            self.bytes += size(&event);
            self.waiting.push_back(event);
        } else {
            tracing::debug!(?event, "event dropped: the turn has no reader");
        }
    }

    /// Returns whether more events fit.
    pub(super) fn has_room(&self) -> bool {
        self.reader.is_none() || self.is_ending || !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING || self.bytes >= MAX_WAITING_BYTES
    }

    /// Returns whether there is an event to deliver and a reader for it.
    pub(super) fn can_deliver(&self) -> bool {
        self.reader.is_some() && !self.waiting.is_empty()
    }

    /// Delivers one event as soon as the reader has room. Cancel safe: a dropped future loses nothing.
    pub(super) async fn deliver(&mut self) {
        let Some(reader) = &self.reader else {
            return std::future::pending().await;
        };
        match reader.reserve().await {
            Ok(room) => {
                if let Some(event) = self.waiting.pop_front() {
                    self.bytes = self.bytes.saturating_sub(size(&event));
                    room.send(event);
                }
            }
            // The reader is gone; the turn continues.
            Err(_) => {
                self.waiting.clear();
                self.bytes = 0;
            }
        }
    }

    /// Delivers as many events as the reader has room for.
    pub(super) fn deliver_rest(&mut self) {
        let Some(reader) = &self.reader else {
            return;
        };
        self.bytes = 0;
        for event in self.waiting.drain(..) {
            if reader.try_send(event).is_err() {
                break;
            }
        }
    }
}

/// Returns the approximate size of an event in bytes.
fn size(event: &BackendEvent) -> usize {
    match event {
        BackendEvent::Text { text, .. }
        | BackendEvent::Thinking { text, .. }
        | BackendEvent::ToolOutput { text, .. } => text.len(),
        BackendEvent::ToolStarted(call) => json_bytes(&call.arguments),
        BackendEvent::ToolCompleted(result) => json_bytes(&result.output),
        BackendEvent::Permission(request) => json_bytes(&request.arguments),
        BackendEvent::Notice(BackendNotice::Raw { line, .. }) => line.len(),
        BackendEvent::Started { .. }
        | BackendEvent::PermissionWithdrawn { .. }
        | BackendEvent::Usage(_)
        | BackendEvent::Notice(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outbox_is_limited_in_bytes_and_events() {
        let (reader, mut received) = mpsc::channel(1);
        for (bytes, count) in [(1, MAX_WAITING), (8 * 1024 * 1024, 2)] {
            let mut outbox = Outbox::default();
            outbox.begin_turn(reader.clone());
            for number in 0..count {
                assert!(outbox.has_room(), "{bytes}: {number}");
                outbox.push(BackendEvent::Text {
                    text: "x".repeat(bytes),
                    message: None,
                    parent: None,
                });
            }
            assert!(!outbox.has_room(), "{bytes}");
            outbox.deliver_rest();
            assert!(outbox.has_room(), "{bytes}");
            received.try_recv().unwrap();
        }
    }
}
