//! Limits how many subagents of one turn run at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use tokio::sync::Semaphore;
use windlass_core::typed_id::TurnId;

use windlass_core::lock::lock;

/// State shared by the calls of one turn that start subagents.
pub(crate) struct TurnSlots {
    /// Limits the subagents that run at once.
    pub(super) working: Semaphore,
    /// Held while one more subagent is counted and recorded.
    pub(super) beginning: tokio::sync::Mutex<()>,
}

/// Turns with calls that are starting subagents.
#[derive(Default)]
pub(crate) struct ChildSlots(Mutex<HashMap<TurnId, Weak<TurnSlots>>>);

impl ChildSlots {
    /// Returns the shared state of a turn's calls. It is dropped with the last call that uses it.
    pub(super) fn for_turn(&self, turn_id: TurnId, at_once: usize) -> Arc<TurnSlots> {
        let mut turns = lock(&self.0);
        if let Some(slots) = turns.get(&turn_id).and_then(Weak::upgrade) {
            return slots;
        }
        turns.retain(|_, slots| slots.strong_count() > 0);
        let slots = Arc::new(TurnSlots {
            working: Semaphore::new(at_once.clamp(1, Semaphore::MAX_PERMITS)),
            beginning: tokio::sync::Mutex::default(),
        });
        turns.insert(turn_id, Arc::downgrade(&slots));
        slots
    }
}
