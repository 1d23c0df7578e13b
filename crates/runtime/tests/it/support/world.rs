//! A clock that is moved by hand and tells who waits.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::watch;
use uuid::Uuid;
use windlass_runtime::{ManualWorld, Sleep, World};

use super::soon;

/// A world whose time moves only when a test moves it, and that knows which waits were begun.
#[derive(Debug, Clone)]
pub(crate) struct TestWorld {
    manual: ManualWorld,
    begun: Arc<watch::Sender<Vec<Duration>>>,
}

impl Default for TestWorld {
    fn default() -> Self {
        Self {
            manual: ManualWorld::at(DateTime::from_timestamp(1_800_000_000, 0).expect("a time")),
            begun: Arc::new(watch::Sender::new(Vec::new())),
        }
    }
}

impl TestWorld {
    pub(crate) fn advance(&self, span: Duration) {
        self.manual.advance(span);
    }

    /// Waits until somebody has begun to wait for so long.
    #[track_caller]
    pub(crate) fn asleep_for(&self, span: Duration) -> impl Future<Output = ()> {
        let mut begun = self.begun.subscribe();
        soon(async move {
            let _ = begun.wait_for(|spans| spans.contains(&span)).await;
        })
    }

    /// Waits until somebody has begun a wait that fits, and returns how long it is to be.
    #[track_caller]
    pub(crate) fn asleep(&self, fits: impl Fn(Duration) -> bool) -> impl Future<Output = Duration> {
        let mut begun = self.begun.subscribe();
        soon(async move {
            let spans = begun
                .wait_for(|spans| spans.iter().any(|span| fits(*span)))
                .await;
            let spans = spans.expect("the world is there");
            spans
                .iter()
                .copied()
                .find(|span| fits(*span))
                .expect("it was just there")
        })
    }

    /// Forgets which waits were begun.
    pub(crate) fn forget(&self) {
        self.begun.send_replace(Vec::new());
    }
}

impl World for TestWorld {
    fn now(&self) -> DateTime<Utc> {
        self.manual.now()
    }
    fn uuid(&self) -> Uuid {
        self.manual.uuid()
    }
    fn sleep(&self, span: Duration) -> Sleep {
        // First the wait, then the news of it: whoever hears of it may move the clock at once.
        let sleep = self.manual.sleep(span);
        self.begun.send_modify(|spans| spans.push(span));
        sleep
    }
}
