//! How many agents of one turn work at once.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio::sync::Semaphore;
use windlass_core::typed_id::TurnId;

/// What the calls of one turn share that start agents.
pub(crate) struct TurnSlots {
    /// The agents that may work at once.
    pub(super) working: Semaphore,
    /// Held while one more agent is counted and recorded.
    pub(super) beginning: tokio::sync::Mutex<()>,
}

/// The turns whose calls start agents now.
#[derive(Default)]
pub(crate) struct ChildSlots(Mutex<HashMap<TurnId, Weak<TurnSlots>>>);

impl ChildSlots {
    /// Returns what the calls of a turn share. It is forgotten when no call uses it any more.
    pub(super) fn of(&self, turn_id: TurnId, at_once: usize) -> Arc<TurnSlots> {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
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
