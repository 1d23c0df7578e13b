//! Readiness of the daemon: its records must reach the disk.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{ApiError, Result};
use crate::store::WireStore;

/// How long a check result is cached. Any client may ask, and each check writes.
const CACHED_FOR: Duration = Duration::from_secs(1);

/// The last check of the store.
#[derive(Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<(Instant, Option<ApiError>)>>,
    /// Only one check runs at a time; concurrent requests share its result.
    checking: tokio::sync::Mutex<()>,
}

impl Readiness {
    /// Checks that the store accepts writes.
    pub(crate) async fn check(&self, store: &dyn WireStore) -> Result<()> {
        let _guard = self.checking.lock().await;
        if let Some(recent) = self.recent() {
            return recent.map_or(Ok(()), Err);
        }
        let checked = store.check_writes().await;
        *self.last.lock() = Some((Instant::now(), checked.clone().err()));
        checked
    }

    /// Returns the error of a recent check, if there was one.
    fn recent(&self) -> Option<Option<ApiError>> {
        let last = self.last.lock();
        let (at, error) = last.as_ref()?;
        (at.elapsed() < CACHED_FOR).then(|| error.clone())
    }
}
