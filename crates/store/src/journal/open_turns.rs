//! The turns of a stream that have not ended.

use windlass_core::events::{Event, EventData};
use windlass_core::typed_id::TurnId;

/// The effect of an event on the set of open turns.
#[derive(Debug, Clone, Copy)]
pub enum TurnChange {
    Opens(TurnId),
    Ends(TurnId),
}

impl TurnChange {
    /// A waiting input opens its turn, because it must not be pruned.
    pub fn of(event: &Event) -> Option<Self> {
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

/// Open turns and their first records. There are few at a time, and mostly none.
#[derive(Debug, Clone, Default)]
pub struct OpenTurns(Vec<(TurnId, u64)>);

impl OpenTurns {
    pub fn apply(&mut self, seq: u64, change: Option<TurnChange>) {
        match change {
            Some(TurnChange::Opens(turn)) if self.0.iter().all(|(open, _)| *open != turn) => {
                self.0.push((turn, seq));
            }
            Some(TurnChange::Ends(turn)) => self.0.retain(|(open, _)| *open != turn),
            _ => {}
        }
    }

    /// Returns the first record of the oldest open turn.
    pub fn first(&self) -> Option<u64> {
        self.0.iter().map(|(_, seq)| *seq).min()
    }
}
