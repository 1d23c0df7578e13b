//! Locks by name. An unused name takes no memory.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

type LockTable = HashMap<String, Arc<tokio::sync::Mutex<()>>>;

/// Locks by name.
#[derive(Debug, Clone, Default)]
pub struct Locks(Arc<Mutex<LockTable>>);

impl Locks {
    /// Waits for the lock and acquires it.
    pub async fn lock(&self, name: &str) -> NamedLock {
        let mut lock = NamedLock {
            locks: self.clone(),
            name: name.to_owned(),
            guard: None,
        };
        let mutex = Arc::clone(self.0.lock().entry(name.to_owned()).or_default());
        lock.guard = Some(mutex.lock_owned().await);
        lock
    }
}

/// One named lock, acquired or waited for; released on drop.
pub struct NamedLock {
    locks: Locks,
    name: String,
    guard: Option<OwnedMutexGuard<()>>,
}

impl Drop for NamedLock {
    fn drop(&mut self) {
        self.guard = None;
        let mut table = self.locks.0.lock();
        // Only the table refers to it: there is no other waiter.
        if table
            .get(&self.name)
            .is_some_and(|lock| Arc::strong_count(lock) == 1)
        {
            table.remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lock_has_one_holder_and_is_removed_after_its_last_waiter() {
        let locks = Locks::default();
        let first = locks.lock("a").await;
        let other = locks.lock("b").await;
        let mut second = Box::pin(locks.lock("a"));
        assert!(futures_util::poll!(&mut second).is_pending());
        drop(first);
        drop(second.await);
        let mut cancelled = Box::pin(locks.lock("b"));
        assert!(futures_util::poll!(&mut cancelled).is_pending());
        drop(cancelled);
        drop(other);
        assert!(locks.0.lock().is_empty());
    }
}
