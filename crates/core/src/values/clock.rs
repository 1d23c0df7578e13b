//! Time and new IDs as inputs, so that tests control them.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};
use tokio::sync::watch;
use uuid::Uuid;

/// A pending wait of a [`Clock`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// The longest single sleep until a wall-clock time: a changed wall clock, or a suspended machine, is noticed after it.
const MAX_WALL_CLOCK_SLEEP: Duration = Duration::from_secs(15);

/// Source of time and of new ids.
pub trait Clock: Send + Sync {
    /// Returns the wall-clock time, which records contain. It may go back.
    fn now(&self) -> DateTime<Utc>;

    /// Returns the time since a fixed point of the process. It never goes back: measure leases and windows with it.
    fn elapsed(&self) -> Duration;

    /// Returns a new UUIDv7, which sorts after those of earlier milliseconds.
    fn uuid(&self) -> Uuid;

    /// Completes after a span of time.
    fn sleep(&self, span: Duration) -> Sleep;

    /// Completes once the wall clock reaches a time, or earlier: callers check the time and wait again.
    fn sleep_until(&self, at: DateTime<Utc>) -> Sleep {
        let left = (at - self.now()).to_std().unwrap_or_default();
        self.sleep(left.min(MAX_WALL_CLOCK_SLEEP))
    }
}

/// The clock of the machine, with random ids.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }
    fn elapsed(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        START.elapsed()
    }
    fn uuid(&self) -> Uuid {
        Uuid::now_v7()
    }
    fn sleep(&self, span: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(span))
    }
}

/// A clock for tests: time moves only when a test moves it, and ids count up and repeat from run to run. Clones share the time.
#[derive(Debug, Clone)]
pub struct ManualClock {
    time: Arc<watch::Sender<Time>>,
    uuids: Arc<AtomicU64>,
}

#[derive(Debug, Clone, Copy)]
struct Time {
    now: DateTime<Utc>,
    elapsed: Duration,
}

impl ManualClock {
    /// Creates a clock that is set to a time.
    #[must_use]
    pub fn at(now: DateTime<Utc>) -> Self {
        let elapsed = Duration::ZERO;
        Self {
            time: Arc::new(watch::Sender::new(Time { now, elapsed })),
            uuids: Arc::default(),
        }
    }

    /// Advances the time and completes the waits that have ended.
    pub fn advance(&self, span: Duration) {
        self.time.send_modify(|time| {
            time.now += TimeDelta::from_std(span).unwrap_or(TimeDelta::MAX);
            time.elapsed += span;
        });
    }

    /// Sets only the wall clock, like an operator; [`Clock::elapsed`] does not change.
    pub fn set(&self, now: DateTime<Utc>) {
        self.time.send_modify(|time| time.now = now);
    }

    /// Returns the number of pending waits.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        self.time.receiver_count()
    }

    fn wait_for(&self, is_over: impl Fn(&Time) -> bool + Send + Sync + 'static) -> Sleep {
        let mut time = self.time.subscribe();
        Box::pin(async move {
            // Once the last clone of the clock is dropped, nothing can move its time.
            if time.wait_for(|time| is_over(time)).await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }
}

impl Clock for ManualClock {
    fn now(&self) -> DateTime<Utc> {
        self.time.borrow().now
    }
    fn elapsed(&self) -> Duration {
        self.time.borrow().elapsed
    }
    fn uuid(&self) -> Uuid {
        let count = self.uuids.fetch_add(1, Ordering::Relaxed) + 1;
        let millis = u128::try_from(self.now().timestamp_millis()).unwrap_or_default();
        Uuid::from_u128((millis << 80) | (0x7 << 76) | (0b10 << 62) | u128::from(count))
    }
    fn sleep(&self, span: Duration) -> Sleep {
        let end = self.elapsed().checked_add(span);
        self.wait_for(move |time| end.is_some_and(|end| time.elapsed >= end))
    }
    fn sleep_until(&self, at: DateTime<Utc>) -> Sleep {
        self.wait_for(move |time| time.now >= at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn setting_the_wall_clock_ends_waits_for_a_time_but_not_for_a_span() {
        let clock = ManualClock::at(DateTime::UNIX_EPOCH);
        let day = Duration::from_secs(86_400);
        let at = DateTime::UNIX_EPOCH + day;
        let (span, until) = (clock.sleep(day), clock.sleep_until(at));
        clock.set(at);
        until.await;
        assert_eq!((clock.now(), clock.elapsed()), (at, Duration::ZERO));
        assert_eq!(clock.sleepers(), 1);
        clock.advance(day);
        span.await;
        assert_eq!(clock.elapsed(), day);
    }

    #[test]
    fn ids_of_a_manual_clock_are_reproducible() {
        let ids = || {
            let clock = ManualClock::at(DateTime::UNIX_EPOCH);
            [clock.uuid(), clock.uuid()]
        };
        assert_eq!(ids(), ids());
        assert!(ids()[0] < ids()[1]);
    }
}
