//! What is to be told to the reader of a turn. A slow reader holds up the agent, and nobody else.

use std::collections::VecDeque;

use tokio::sync::mpsc;
use windlass_core::backend::BackendEvent;

/// How much waits to be told before the agent is no longer read.
const MAX_WAITING: usize = 256;

/// What is to be told.
#[derive(Default)]
pub(super) struct Outbox {
    waiting: VecDeque<BackendEvent>,
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
        if holds_up || self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(event);
        } else {
            tracing::debug!(?event, "an event of an agent is not told: nobody reads");
        }
    }

    /// Tells whether the agent may say more.
    pub(super) fn has_room(&self) -> bool {
        self.reader.is_none() || self.is_ending || self.waiting.len() < MAX_WAITING
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
                    room.send(event);
                }
            }
            // Nobody reads any more; the turn goes on.
            Err(_) => self.waiting.clear(),
        }
    }

    /// Tells what the reader has room for.
    pub(super) fn tell_rest(&mut self) {
        let Some(reader) = &self.reader else {
            return;
        };
        for event in self.waiting.drain(..) {
            if reader.try_send(event).is_err() {
                break;
            }
        }
    }
}
