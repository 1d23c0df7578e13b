//! Time zones by name, from the machine's data or, where it has none, from the data that is built in.

use chrono::{DateTime, Utc};
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::TimeZone;

use super::rule::RuleError;

/// The longest name.
const LONGEST: usize = 64;

/// Refuses a name that no time zone has.
pub fn check_zone(name: &str) -> Result<(), RuleError> {
    find(name).map(drop)
}

pub(super) fn find(name: &str) -> Result<TimeZone, RuleError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/');
    let unknown = || RuleError::UnknownZone(name.chars().take(LONGEST).collect());
    if name.len() > LONGEST || !name.chars().all(is_name) {
        return Err(unknown());
    }
    TimeZone::get(name).map_err(|_| unknown())
}

/// Whole seconds are all that schedules know.
pub(super) fn stamp(time: DateTime<Utc>) -> Option<Timestamp> {
    Timestamp::from_second(time.timestamp()).ok()
}

pub(super) fn time(stamp: Timestamp) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(stamp.as_second(), 0)
}

/// Returns what clocks on the wall show.
pub(super) fn local(zone: &TimeZone, time: DateTime<Utc>) -> Option<civil::DateTime> {
    Some(zone.to_datetime(stamp(time)?))
}
