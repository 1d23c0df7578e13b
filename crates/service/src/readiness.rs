//! Whether the daemon can do what it is there for: what is recorded must reach the disk.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::error::{ApiError, Result};
use crate::store::WireStore;

/// How long a look counts. Anybody may ask, and each look writes.
const COUNTS_FOR: Duration = Duration::from_secs(1);

/// The last look at the store.
#[derive(Default)]
pub(crate) struct Readiness {
    last: Mutex<Option<(Instant, Option<ApiError>)>>,
    /// Only one looks at a time; the others hear what it finds.
    looking: tokio::sync::Mutex<()>,
}

impl Readiness {
    /// Tells whether the store takes what is written.
    pub(crate) async fn check(&self, store: &dyn WireStore) -> Result<()> {
        let _alone = self.looking.lock().await;
        if let Some(known) = self.known() {
            return known.map_or(Ok(()), Err);
        }
        let found = store.check_writes().await.err();
        let mut last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        *last = Some((Instant::now(), found.clone()));
        found.map_or(Ok(()), Err)
    }

    /// What was found a moment ago.
    fn known(&self) -> Option<Option<ApiError>> {
        let last = self.last.lock().unwrap_or_else(PoisonError::into_inner);
        let (at, found) = last.as_ref()?;
        (at.elapsed() < COUNTS_FOR).then(|| found.clone())
    }
}
