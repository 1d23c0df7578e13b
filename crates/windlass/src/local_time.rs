//! Times in the user's local time zone.

use chrono::{DateTime, Local};

/// Formats a recorded time to the minute in the local time zone, with its offset. An invalid time is returned unchanged.
pub(crate) fn minute(recorded: &str) -> String {
    formatted(recorded, "%Y-%m-%d %H:%M %:z")
}

/// The same without the offset, for a person in that time zone.
pub(crate) fn minute_here(recorded: &str) -> String {
    formatted(recorded, "%Y-%m-%d %H:%M")
}

fn formatted(recorded: &str, format: &str) -> String {
    let read = DateTime::parse_from_rfc3339(recorded);
    read.map_or_else(
        |_| recorded.to_owned(),
        |time| time.with_timezone(&Local).format(format).to_string(),
    )
}
