//! Time and chance, so that nothing else in the runtime reads a clock or makes a random choice.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::watch;
use uuid::Uuid;

/// A wait.
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// Where a runtime gets time and chance from.
pub trait World: Send + Sync {
    /// Returns the time.
    fn now(&self) -> DateTime<Utc>;
    /// Returns a uuid that was never used before.
    fn uuid(&self) -> Uuid;
    /// Waits.
    fn sleep(&self, span: Duration) -> Sleep;
}

/// The time of the machine and its random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemWorld;

#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place that reads the clock"
)]
impl World for SystemWorld {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
    fn uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
    fn sleep(&self, span: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(span))
    }
}

/// A world whose time moves only when a test moves it.
#[derive(Debug, Clone)]
pub struct ManualWorld {
    now: Arc<watch::Sender<DateTime<Utc>>>,
    uuids: Arc<Mutex<u64>>,
}

impl ManualWorld {
    /// Makes a world that stands at a moment.
    #[must_use]
    pub fn at(now: DateTime<Utc>) -> Self {
        Self {
            now: Arc::new(watch::channel(now).0),
            uuids: Arc::default(),
        }
    }

    /// Moves time on and wakes who waited for it.
    pub fn advance(&self, span: Duration) {
        self.now
            .send_modify(|now| *now += TimeDelta::from_std(span).unwrap_or(TimeDelta::MAX));
    }

    /// Returns how many waits are under way.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.now.receiver_count()
    }
}

impl World for ManualWorld {
    fn now(&self) -> DateTime<Utc> {
        *self.now.borrow()
    }
    fn uuid(&self) -> Uuid {
        let mut count = self.uuids.lock().unwrap_or_else(PoisonError::into_inner);
        *count += 1;
        windlass_turn::derive(
            Uuid::from_u128(0x0190_0000_0000_7000_8000_0000_0000_0000),
            *count,
        )
    }
    fn sleep(&self, span: Duration) -> Sleep {
        let mut now = self.now.subscribe();
        let end = TimeDelta::from_std(span)
            .ok()
            .and_then(|span| self.now().checked_add_signed(span));
        Box::pin(async move {
            // The sender lives as long as the world; without it time stands still for ever.
            if now
                .wait_for(|now| end.is_some_and(|end| *now >= end))
                .await
                .is_err()
            {
                std::future::pending::<()>().await;
            }
        })
    }
}
