//! Records as rows.

use rusqlite::{Connection, Row};

use super::spans::at;
use crate::durable::record::{RecordBuffer, RecordSource, StoredRecord};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::numbers::{int, uint};

/// The columns that [`StoredRecord::from_row`] reads, and with them `stream`.
pub(crate) const STORED_COLUMNS: &str = "seq, version, form, chain, body";

impl<'a> StoredRecord<'a> {
    /// Reads a row. The buffer is overwritten with bytes that the row does not contain directly.
    pub(crate) fn from_row(
        db: &Connection,
        row: &'a Row<'_>,
        buffer: &'a mut RecordBuffer,
    ) -> rusqlite::Result<Self> {
        // A link of another length is treated like a wrong one.
        let chain = row.get_ref(3)?.as_blob()?.try_into().unwrap_or_default();
        let head = (uint(row, 0)?, row.get(1)?, chain);
        let body = (row.get(2)?, row.get_ref(4)?.as_blob()?);
        Self::new(head, body, &RowSource { db, row }, buffer)
    }
}

/// The rows that a record refers to.
struct RowSource<'a, 'b> {
    db: &'a Connection,
    row: &'a Row<'b>,
}

impl RecordSource for RowSource<'_, '_> {
    type Error = rusqlite::Error;

    fn stream(&self) -> rusqlite::Result<i64> {
        self.row.get("stream")
    }

    fn blob(&self, name: &[u8]) -> rusqlite::Result<Option<Vec<u8>>> {
        self.db
            .find_row("SELECT bytes FROM blobs WHERE hash = ?1", [name], |row| {
                row.get(0)
            })
    }

    fn record(&self, seq: u64) -> rusqlite::Result<Option<(i64, Vec<u8>)>> {
        self.db.find_row(
            concat!(
                "SELECT form, body FROM placed WHERE stream = ?1 AND ",
                at!("?2")
            ),
            [self.stream()?, int(seq)],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
    }
}
