//! Conversion of numbers to SQLite's signed integers.

/// Converts a count; larger values become `i64::MAX`.
pub(crate) fn int(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// Reads a count; one below zero is an error that names the column.
pub(crate) fn uint(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u64> {
    let value: i64 = row.get(column)?;
    u64::try_from(value).map_err(|_| rusqlite::Error::IntegralValueOutOfRange(column, value))
}

/// Reads a count in the first column.
pub(crate) fn first_number(row: &rusqlite::Row<'_>) -> rusqlite::Result<u64> {
    uint(row, 0)
}

pub(crate) fn first_value<T: rusqlite::types::FromSql>(
    row: &rusqlite::Row<'_>,
) -> rusqlite::Result<T> {
    row.get(0)
}
