//! Records as rows.

use rusqlite::{Connection, OptionalExtension, Row};

use super::numbers::uint;
use crate::durable::record::Stored;

/// The columns that [`Stored::from_row`] reads.
pub(crate) const STORED_COLUMNS: &str = "seq, version, form, chain, body";

impl<'a> Stored<'a> {
    /// Reads a row. The buffer holds the bytes that are not in it as such; what it held before is gone.
    pub(crate) fn from_row(
        connection: &Connection,
        row: &'a Row<'_>,
        buffer: &'a mut Vec<u8>,
    ) -> rusqlite::Result<Self> {
        // A link of another length fits nothing, like a wrong one.
        let chain = row.get_ref(3)?.as_blob()?.try_into().unwrap_or_default();
        let head = (uint(row, 0)?, row.get(1)?, chain);
        let body = (row.get(2)?, row.get_ref(4)?.as_blob()?);
        Self::new(head, body, buffer, |name| blob(connection, name))
    }
}

fn blob(connection: &Connection, name: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
    connection
        .prepare_cached("SELECT bytes FROM blobs WHERE hash = ?1")?
        .query_row([name], |row| row.get(0))
        .optional()
}
