//! Conversion of times to microseconds since the Unix epoch.

use chrono::{DateTime, Utc};

pub(crate) fn now() -> i64 {
    Utc::now().timestamp_micros()
}

/// Reads a time; one that no calendar has becomes the beginning of 1970.
pub(crate) fn time(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<DateTime<Utc>> {
    Ok(DateTime::from_timestamp_micros(row.get(column)?).unwrap_or(DateTime::UNIX_EPOCH))
}
