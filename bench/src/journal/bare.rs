//! Bare SQLite as the reference: one table with one row per event, keyed by stream and number.

use std::path::Path;

use rusqlite::Connection;

/// Encoded events that become durable together.
pub type Group = Vec<Vec<u8>>;

pub struct Bare {
    connection: Connection,
    row: i64,
}

impl Bare {
    pub fn open(directory: &Path) -> rusqlite::Result<Self> {
        let connection = Connection::open(directory.join("bare.db"))?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.execute_batch(
            "CREATE TABLE events (id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, seq INTEGER NOT NULL, body BLOB NOT NULL); \
             CREATE UNIQUE INDEX events_by_stream ON events (stream, seq)",
        )?;
        Ok(Self { connection, row: 0 })
    }

    /// Makes groups durable in one commit.
    pub fn commit<'a>(
        &mut self,
        groups: impl IntoIterator<Item = &'a Group>,
    ) -> rusqlite::Result<()> {
        let connection = &self.connection;
        connection.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
        let mut insert = connection
            .prepare_cached("INSERT INTO events (id, stream, seq, body) VALUES (?1, ?2, ?3, ?4)")?;
        // Concurrent writers use separate streams.
        for (stream, group) in (1i64..).zip(groups) {
            for body in group {
                self.row += 1;
                insert.execute((self.row, stream, self.row, body))?;
            }
        }
        connection.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}
