//! What is to be told to the reader of a turn. A slow reader holds up the agent, and nobody else.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use windlass_core::backend::{BackendEvent, BackendNotice};

use crate::json::bytes;

/// How much waits to be told before the agent is no longer read.
const MAX_WAITING: usize = 256;
const MAX_WAITING_BYTES: usize = 16 * 1024 * 1024;

/// What is to be told.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<BackendEvent>,
    /// About how many bytes wait.
    bytes: usize,
    reader: Option<mpsc::Sender<BackendEvent>>,
    /// Whether the agent is being ended: then it is read on, and what has no room is not told.
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
        let holds_up = self.reader.is_some() && !self.is_ending;
        if holds_up || !self.is_full() {
            self.bytes += size(&event);
            self.waiting.push_back(event);
        } else {
            tracing::debug!(?event, "an event of an agent is not told: nobody reads");
        }
    }

    /// Tells whether the agent may say more.
    pub(super) fn has_room(&self) -> bool {
        self.reader.is_none() || self.is_ending || !self.is_full()
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= MAX_WAITING || self.bytes >= MAX_WAITING_BYTES
    }

    /// Tells whether there is somebody to tell something to.
    pub(super) fn can_tell(&self) -> bool {
        self.reader.is_some() && !self.waiting.is_empty()
    }

    /// Tells one event when the reader has room. Nothing is lost when the future is dropped.
    pub(super) async fn tell(&mut self) {
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
            // Nobody reads any more; the turn goes on.
            Err(_) => {
                self.waiting.clear();
                self.bytes = 0;
            }
        }
    }

    /// Tells what the reader has room for.
    pub(super) fn tell_rest(&mut self) {
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

/// Returns about how many bytes an event takes.
fn size(event: &BackendEvent) -> usize {
    match event {
        BackendEvent::Text { text, .. }
        | BackendEvent::Thinking { text, .. }
        | BackendEvent::ToolOutput { text, .. } => text.len(),
        BackendEvent::ToolStarted(call) => bytes(&call.arguments),
        BackendEvent::ToolCompleted(result) => bytes(&result.output),
        BackendEvent::Permission(request) => bytes(&request.arguments),
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
    fn a_few_large_events_fill_it_as_many_small_ones_do() {
        let (reader, mut told) = mpsc::channel(1);
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
            outbox.tell_rest();
            assert!(outbox.has_room(), "{bytes}");
            told.try_recv().unwrap();
        }
    }
}
