//! Time and chance as inputs.

use std::time::Duration;

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use uuid::Uuid;

/// The longest sleep at a stretch: a wall clock that was set forward, or a machine that slept, is noticed after it.
const LOOK_AGAIN: Duration = Duration::from_secs(15);

/// Where time and new ids come from.
#[async_trait]
pub trait Clock: Send + Sync {
    /// The time that is written down.
    fn now(&self) -> DateTime<Utc>;

    /// A new id that sorts after the earlier ones.
    fn uuid(&self) -> Uuid;

    /// Returns once a time has come. It may return earlier: whoever waits looks again.
    async fn wait_until(&self, at: DateTime<Utc>);
}

/// The clock of the system.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

#[expect(
    clippy::disallowed_methods,
    reason = "this is where time and chance come from"
)]
#[async_trait]
impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn uuid(&self) -> Uuid {
        Uuid::now_v7()
    }

    async fn wait_until(&self, at: DateTime<Utc>) {
        let left = (at - self.now()).to_std().unwrap_or_default();
        tokio::time::sleep(left.min(LOOK_AGAIN)).await;
    }
}
