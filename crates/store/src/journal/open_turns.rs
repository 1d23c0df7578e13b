//! Which turns of a stream have not ended.

use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::TurnId;

/// What an event does to the set of open turns.
#[derive(Debug, Clone, Copy)]
pub(crate) enum TurnChange {
    Opens(TurnId),
    Ends(TurnId),
}

impl TurnChange {
    /// An input that waits opens its turn: nothing of it may be lost.
    pub(crate) fn of(event: &Event) -> Option<Self> {
        match &event.data {
            EventData::TurnStarted(started) => Some(Self::Opens(started.turn_id)),
            EventData::InputQueued(queued) => Some(Self::Opens(queued.turn_id)),
            EventData::TurnCompleted(end) => Some(Self::Ends(end.turn_id)),
            EventData::TurnFailed(end) => Some(Self::Ends(end.turn_id)),
            EventData::TurnCancelled(end) => Some(Self::Ends(end.turn_id)),
            _ => None,
        }
    }
}

/// Turns without an end, and where they began. There are few at a time, and mostly none.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenTurns(Vec<(TurnId, u64)>);

impl OpenTurns {
    pub(crate) fn apply(&mut self, seq: u64, change: Option<TurnChange>) {
        match change {
            Some(TurnChange::Opens(turn)) if self.0.iter().all(|(open, _)| *open != turn) => {
                self.0.push((turn, seq));
            }
            Some(TurnChange::Ends(turn)) => self.0.retain(|(open, _)| *open != turn),
            _ => {}
        }
    }

    /// Returns where the oldest one began.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.iter().map(|(_, seq)| *seq).min()
    }
}
