//! Time as an input.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};

/// Where the time comes from.
pub trait Clock: Send + Sync {
    /// The time that is written down.
    fn now(&self) -> DateTime<Utc>;

    /// How long the clock has been running. Windows and leases are measured with it: it never goes back.
    fn elapsed(&self) -> Duration;
}

/// The clock of the system.
#[derive(Debug)]
pub struct SystemClock(Instant);

impl Default for SystemClock {
    fn default() -> Self {
        Self(Instant::now())
    }
}

impl Clock for SystemClock {
    fn now(&self) -> DateTime<Utc> {
        Utc::now()
    }

    fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }
}
