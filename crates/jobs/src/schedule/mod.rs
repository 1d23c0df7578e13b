//! When something is due: a rule that people write, in a time zone, as points in time.

mod cron;
mod due;
mod rule;
mod zone;

use chrono::{DateTime, Utc};
use jiff::tz::TimeZone;

pub use rule::{Frequency, Rule, RuleError};
pub use zone::check_zone;

/// A rule in a time zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    rule: Rule,
    zone: TimeZone,
    /// Where the hours of `INTERVAL` are counted from.
    start: DateTime<Utc>,
}

impl Schedule {
    /// Puts a rule into a time zone. `start` is when it was made: `INTERVAL` counts hours from there, and its hour and minute
    /// apply where the rule has no `BYHOUR` or `BYMINUTE`.
    pub fn new(rule: Rule, zone: &str, start: DateTime<Utc>) -> Result<Self, RuleError> {
        Ok(Self {
            rule,
            zone: zone::find(zone)?,
            start,
        })
    }

    /// Refuses a rule that never fires.
    pub fn check(&self, now: DateTime<Utc>) -> Result<DateTime<Utc>, RuleError> {
        self.next(now).ok_or(RuleError::NeverFires)
    }
}
