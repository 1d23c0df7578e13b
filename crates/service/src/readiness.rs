//! Readiness of the daemon: its records must reach the disk.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::error::{ApiError, Result};
use crate::store::WireStore;

/// How long a check result is cached. Any client may ask, and each check writes.
const COUNTS_FOR: Duration = Duration::from_secs(1);

/// The last check of the store.
#[derive(Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<(Instant, Option<ApiError>)>>,
    /// Only one check runs at a time; concurrent requests share its result.
    looking: tokio::sync::Mutex<()>,
}

impl Readiness {
    /// Checks that the store accepts writes.
    pub(crate) async fn check(&self, store: &dyn WireStore) -> Result<()> {
        let _alone = self.looking.lock().await;
        if let Some(known) = self.known() {
            return known.map_or(Ok(()), Err);
        }
        let found = store.check_writes().await.err();
        *self.last.lock() = Some((Instant::now(), found.clone()));
        found.map_or(Ok(()), Err)
    }

    /// Returns a recent result.
    fn known(&self) -> Option<Option<ApiError>> {
        let last = self.last.lock();
        let (at, found) = last.as_ref()?;
        (at.elapsed() < COUNTS_FOR).then(|| found.clone())
    }
}
