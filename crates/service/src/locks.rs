//! Locks by name. One that nobody holds or waits for takes no room.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OwnedMutexGuard;

type Named = HashMap<String, Arc<tokio::sync::Mutex<()>>>;

/// Locks by name.
#[derive(Debug, Clone, Default)]
pub struct Locks(Arc<Mutex<Named>>);

impl Locks {
    /// Waits until nobody else holds the lock.
    pub async fn lock(&self, name: &str) -> Held {
        let mut held = Held {
            locks: self.clone(),
            name: name.to_owned(),
            guard: None,
        };
        let lock = Arc::clone(self.named().entry(name.to_owned()).or_default());
        held.guard = Some(lock.lock_owned().await);
        held
    }

    fn named(&self) -> std::sync::MutexGuard<'_, Named> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A lock that is held, or waited for; given back when dropped.
pub struct Held {
    locks: Locks,
    name: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for Held {
    fn drop(&mut self) {
        self.guard = None;
        let mut named = self.locks.named();
        // The map's alone: nobody else waits.
        if named
            .get(&self.name)
            .is_some_and(|lock| Arc::strong_count(lock) == 1)
        {
            named.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_holds_a_lock_at_a_time_and_none_stays_behind() {
        let locks = Locks::default();
        let first = locks.lock("a").await;
        let other = locks.lock("b").await;
        let mut second = Box::pin(locks.lock("a"));
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        drop(second.await);
        let given_up = Box::pin(locks.lock("b"));
        let mut given_up = given_up;
        assert!(futures_util::poll!(&mut given_up).is_pending());
        drop(given_up);
        drop(other);
        assert!(locks.named().is_empty());
    }
}
