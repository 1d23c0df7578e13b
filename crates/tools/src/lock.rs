//! Locks without poisoning: the protected data is valid after each statement, even if a thread panics.

use std::sync::{Mutex, MutexGuard, PoisonError};

pub(crate) fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
