//! Time zones by name, from the system's database or, if it has none, from the built-in one.

use chrono::{DateTime, Utc};
use jiff::Timestamp;
use jiff::civil;
use jiff::tz::TimeZone;

use super::rule::RuleError;

/// Maximum length of a name in bytes.
const MAX_BYTES: usize = 64;

/// Rejects an unknown time zone.
pub fn check_zone(name: &str) -> Result<(), RuleError> {
    find(name).map(drop)
}

pub(super) fn find(name: &str) -> Result<TimeZone, RuleError> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '+' | '/');
    let unknown = || RuleError::UnknownZone(name.chars().take(MAX_BYTES).collect());
    if name.len() > MAX_BYTES || !name.chars().all(is_name) {
        return Err(unknown());
    }
    TimeZone::get(name).map_err(|_| unknown())
}

/// Schedules have a resolution of one second.
pub(super) fn stamp(time: DateTime<Utc>) -> Option<Timestamp> {
    Timestamp::from_second(time.timestamp()).ok()
}

pub(super) fn time(stamp: Timestamp) -> Option<DateTime<Utc>> {
    DateTime::from_timestamp(stamp.as_second(), 0)
}

/// Returns the local time.
pub(super) fn local(zone: &TimeZone, time: DateTime<Utc>) -> Option<civil::DateTime> {
    Some(zone.to_datetime(stamp(time)?))
}
