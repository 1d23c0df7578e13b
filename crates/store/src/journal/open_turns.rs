//! Which turns of a stream have not ended.

use std::collections::BTreeMap;

use windlass_core::events::{
    Event, EventData, InputQueuedData, TurnCancelledData, TurnCompletedData, TurnFailedData,
    TurnStartedData,
};
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
            EventData::TurnStarted(TurnStartedData { turn_id, .. })
            | EventData::InputQueued(InputQueuedData { turn_id, .. }) => {
                Some(Self::Opens(*turn_id))
            }
            EventData::TurnCompleted(TurnCompletedData { turn_id, .. })
            | EventData::TurnFailed(TurnFailedData { turn_id, .. })
            | EventData::TurnCancelled(TurnCancelledData { turn_id, .. }) => {
                Some(Self::Ends(*turn_id))
            }
            _ => None,
        }
    }
}

/// Turns without an end, and where they began. There are few at a time.
#[derive(Debug, Clone, Default)]
pub(crate) struct OpenTurns(BTreeMap<TurnId, u64>);

impl OpenTurns {
    pub(crate) fn apply(&mut self, seq: u64, change: Option<TurnChange>) {
        match change {
            Some(TurnChange::Opens(turn)) => {
                self.0.entry(turn).or_insert(seq);
            }
            Some(TurnChange::Ends(turn)) => {
                self.0.remove(&turn);
            }
            None => {}
        }
    }

    /// Returns where the oldest one began.
    pub(crate) fn first(&self) -> Option<u64> {
        self.0.values().min().copied()
    }
}
