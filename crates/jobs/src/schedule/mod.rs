//! Schedules: rules in a time zone, evaluated to points in time.

mod cron;
mod due;
mod rule;
mod zone;

use chrono::{DateTime, Utc};
use jiff::tz::TimeZone;

pub use rule::{RuleError, ScheduleRule};
pub use zone::check_zone;

/// A rule in a time zone.
#[derive(Debug, Clone)]
pub struct Schedule {
    rule: ScheduleRule,
    zone: TimeZone,
    /// Start of the count of `INTERVAL`.
    start: DateTime<Utc>,
}

impl Schedule {
    /// Combines a rule with a time zone. `start` is the time at which the rule was set: `INTERVAL` counts hours from it, and its hour
    /// and minute are the defaults of `BYHOUR` and `BYMINUTE`.
    pub fn new(rule: ScheduleRule, zone: &str, start: DateTime<Utc>) -> Result<Self, RuleError> {
        Ok(Self {
            rule,
            zone: zone::find(zone)?,
            start,
        })
    }

    /// Returns the rule's first time, or an error if it never fires.
    pub fn check(&self, now: DateTime<Utc>) -> Result<DateTime<Utc>, RuleError> {
        self.next(now).ok_or(RuleError::NeverFires)
    }
}
