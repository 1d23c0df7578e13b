//! A manual clock that reports which waits were begun.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::sync::watch;
use uuid::Uuid;
use windlass_runtime::{Clock, ManualClock, Sleep};

use super::soon;

/// A clock whose time moves only when a test moves it, and that knows which waits were begun.
#[derive(Debug, Clone)]
pub(crate) struct TestClock {
    manual: ManualClock,
    begun: Arc<watch::Sender<Vec<Duration>>>,
}

impl Default for TestClock {
    fn default() -> Self {
        Self {
            manual: ManualClock::at(DateTime::from_timestamp(1_800_000_000, 0).expect("a time")),
            begun: Arc::new(watch::Sender::new(Vec::new())),
        }
    }
}

impl TestClock {
    pub(crate) fn advance(&self, span: Duration) {
        self.manual.advance(span);
    }

    /// Waits until a task sleeps for this long.
    #[track_caller]
    pub(crate) fn asleep_for(&self, span: Duration) -> impl Future<Output = ()> {
        let mut begun = self.begun.subscribe();
        soon(async move {
            let _ = begun.wait_for(|spans| spans.contains(&span)).await;
        })
    }

    /// Waits until a task begins a sleep that matches, and returns its length.
    #[track_caller]
    pub(crate) fn asleep(&self, fits: impl Fn(Duration) -> bool) -> impl Future<Output = Duration> {
        let mut begun = self.begun.subscribe();
        soon(async move {
            let spans = begun
                .wait_for(|spans| spans.iter().any(|span| fits(*span)))
                .await;
            let spans = spans.expect("the clock is there");
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

impl Clock for TestClock {
    fn now(&self) -> DateTime<Utc> {
        self.manual.now()
    }
    fn elapsed(&self) -> Duration {
        self.manual.elapsed()
    }
    fn uuid(&self) -> Uuid {
        self.manual.uuid()
    }
    fn sleep(&self, span: Duration) -> Sleep {
        // The sleep is registered before it is announced, because a test may advance the clock immediately.
        let sleep = self.manual.sleep(span);
        self.begun.send_modify(|spans| spans.push(span));
        sleep
    }
}
