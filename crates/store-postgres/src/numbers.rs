//! Numbers in columns: PostgreSQL has only signed ones.

/// Converts a number for a column. No stored number is larger, so a larger one compares as it should.
pub(crate) fn int(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a number of a column. The schema permits no negative ones.
pub(crate) fn uint(number: i64) -> u64 {
    u64::try_from(number).unwrap_or_default()
}
