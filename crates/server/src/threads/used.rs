//! What the turns of a thread used. It grows with them, so it is read when somebody asks.

use chrono::{DateTime, Utc};
use windlass_core::events::{Event, TokenUsage};
use windlass_core::items::{Change, change};

use crate::view;

/// What a turn used.
#[derive(Debug, Clone)]
pub(crate) struct Ended {
    pub(crate) at: DateTime<Utc>,
    pub(crate) model: String,
    pub(crate) provider: String,
    pub(crate) usage: TokenUsage,
}

/// What the turns of a thread used, up to a number.
#[derive(Debug, Default)]
pub(crate) struct Used {
    pub(crate) seq: u64,
    pub(crate) ended: Vec<Ended>,
}

impl Used {
    /// Moves on by one event; one that was seen before changes nothing.
    pub(crate) fn apply(&mut self, event: &Event) {
        if event.seq() <= self.seq {
            return;
        }
        self.seq = event.seq();
        if let Some(Change::TurnEnded(turn)) = change(event) {
            let shown = view::turn(&turn);
            self.ended.push(Ended {
                at: event.ts,
                model: shown.effective_model.unwrap_or_default(),
                provider: shown.effective_provider.unwrap_or_default(),
                usage: turn.usage.unwrap_or_default(),
            });
        }
    }
}
