//! Deletes the rows of removed streams, step by step.
//!
//! One small commit removes a stream for all clients: it leaves the table of streams. Its remaining rows are deleted in steps, each a commit of its
//! own, so that other writers wait only briefly. After a crash the writer continues with them (`committer.rs`).

use rusqlite::Connection;

use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::shared_records::drop_blobs;
use crate::sqlite::journal::spans::{self, NEWEST_FIRST, between};
use crate::sqlite::numbers::{first_number, first_value, int, uint};
use crate::sqlite::queries;
use crate::sqlite::write::writer::WriteContext;

/// The number of rows that one step deletes.
const STEP: u64 = 128;

/// The remaining rows of a removed stream.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Leftover {
    pub(crate) stream: u64,
    /// Records after this one are deleted; those up to it are shared with forks.
    pub(crate) after: u64,
    /// The newest record that was not examined.
    next: u64,
}

impl Leftover {
    /// Returns the rows of a stream after a record.
    pub(crate) fn after(work: &WriteContext<'_>, stream: u64, after: u64) -> DbResult<Self> {
        Ok(Self {
            stream,
            after,
            next: spans::newest(work.db, stream)?,
        })
    }

    /// Runs the first step, and stores the rest for later steps.
    pub(crate) fn begin_to_remove(self, work: &mut WriteContext<'_>) -> DbResult<()> {
        let (left, _) = self.delete_rows(work, STEP)?;
        if let Some(left) = left {
            left.note(work.db)?;
            work.state.is_removing = true;
        }
        Ok(())
    }

    /// Deletes everything at once.
    pub(crate) fn remove_whole(self, work: &mut WriteContext<'_>) -> DbResult<()> {
        self.delete_rows(work, u64::MAX).map(drop)
    }

    /// Deletes rows up to a limit; returns the rest, and the unused part of the limit.
    fn delete_rows(
        mut self,
        work: &mut WriteContext<'_>,
        mut budget: u64,
    ) -> DbResult<(Option<Self>, u64)> {
        while self.next > 0 {
            if budget == 0 {
                return Ok((Some(self), 0));
            }
            let removed = self.delete_records(work, budget.min(STEP))?;
            budget -= removed;
        }
        let db = work.db;
        let (stream, after) = (self.stream, self.after);
        for remove in [remove_gaps, queries::trim] {
            budget -= remove(db, (stream, after), budget)?;
            if budget == 0 {
                return Ok((Some(self), 0));
            }
        }
        Ok((None, budget))
    }

    /// Deletes the newest remaining records first, so that the others always form a valid chain.
    fn delete_records(&mut self, work: &mut WriteContext<'_>, limit: u64) -> DbResult<u64> {
        let db = work.db;
        let numbers = newest(db, self.stream, self.next, limit)?;
        let count = numbers.len() as u64;
        let Some(&first) = numbers.last() else {
            self.next = 0;
            return Ok(0);
        };
        let from = first.max(self.after + 1);
        if from <= self.next {
            let blobs = blobs(db, self.stream, from, self.next)?;
            spans::remove(db, self.stream, from, self.next)?;
            drop_blobs(db, &blobs)?;
            work.state.lost_records = true;
        }
        self.next = first - 1;
        Ok(count)
    }

    fn note(&self, db: &Connection) -> DbResult<()> {
        db.execute_cached(
            "REPLACE INTO removing (stream, after, next) VALUES (?1, ?2, ?3)",
            [self.stream, self.after, self.next].map(int),
        )?;
        Ok(())
    }
}

/// Runs one step if a removed stream has rows; returns whether there may be more.
pub(crate) fn step(work: &mut WriteContext<'_>) -> DbResult<bool> {
    let db = work.db;
    let mut budget = STEP;
    while budget > 0 {
        let Some(leftover) = oldest(db)? else {
            work.state.is_removing = false;
            return Ok(false);
        };
        let (left, unused) = leftover.delete_rows(work, budget)?;
        match left {
            Some(left) => left.note(db)?,
            None => forget(db, leftover.stream)?,
        }
        budget = unused;
    }
    Ok(true)
}

/// Returns whether a stream is being deleted.
pub(crate) fn is_being_removed(db: &Connection, stream: u64) -> DbResult<bool> {
    Ok(db.has_rows("SELECT 1 FROM removing WHERE stream = ?1", [int(stream)])?)
}

/// Returns whether any removed stream has rows.
pub(crate) fn is_any_left(db: &Connection) -> DbResult<bool> {
    Ok(oldest(db)?.is_some())
}

fn oldest(db: &Connection) -> DbResult<Option<Leftover>> {
    Ok(db.find_row(
        "SELECT stream, after, next FROM removing LIMIT 1",
        [],
        |row| {
            Ok(Leftover {
                stream: uint(row, 0)?,
                after: uint(row, 1)?,
                next: uint(row, 2)?,
            })
        },
    )?)
}

fn forget(db: &Connection, stream: u64) -> DbResult<()> {
    db.execute_cached("DELETE FROM removing WHERE stream = ?1", [int(stream)])?;
    Ok(())
}

/// Returns the newest numbers of records up to one, the newest first.
fn newest(db: &Connection, stream: u64, upto: u64, limit: u64) -> DbResult<Vec<u64>> {
    Ok(db.list_rows(&format!(
        "SELECT seq, last, position FROM placed WHERE stream = ?1 AND {} {NEWEST_FIRST} LIMIT ?3",
        between!("1", "?2")
    ), [stream, upto, limit].map(int), first_number)?)
}

fn blobs(db: &Connection, stream: u64, first: u64, last: u64) -> DbResult<Vec<Vec<u8>>> {
    Ok(db.list_rows(
        concat!(
            "SELECT body FROM placed WHERE stream = ?1 AND form = 1 AND ",
            between!("?2", "?3")
        ),
        [stream, first, last].map(int),
        first_value,
    )?)
}

/// Removes ranges of pruned records, up to a limit; returns how many.
fn remove_gaps(db: &Connection, (stream, after): (u64, u64), limit: u64) -> DbResult<u64> {
    let sql = "DELETE FROM pruned WHERE rowid IN \
             (SELECT rowid FROM pruned WHERE stream = ?1 AND first > ?2 LIMIT ?3)";
    let removed = db.execute_cached(sql, [stream, after, limit].map(int))?;
    Ok(removed as u64)
}

#[cfg(test)]
mod tests {
    use windlass_core::events::{CustomData, EventContext, EventRequest};
    use windlass_core::typed_id::{EventId, SessionId};

    use crate::journal::{Batch, Journal, StreamKey};
    use crate::sqlite::journal::remove;
    use crate::sqlite::{SqliteOptions, SqliteStore};

    async fn open(directory: &std::path::Path) -> SqliteStore {
        SqliteStore::open(SqliteOptions::new(directory))
            .await
            .unwrap()
    }

    async fn append(store: &SqliteStore, name: &str, count: u64) {
        let journal = store.journal();
        let claim = journal.claim(&StreamKey::new(name)).await.unwrap();
        let records = (1..=count).map(|number| {
            let data = CustomData {
                name: "test".into(),
                payload: "x".into(),
            };
            let request = EventRequest::new(SessionId::from_seed(1), EventContext::default(), data);
            let event = request.into_event(EventId::new(), Some(claim.head + number));
            event.into()
        });
        let batch = Batch {
            first_seq: claim.head + 1,
            records: records.collect(),
            ..Batch::default()
        };
        journal.append(&claim, batch).await.unwrap();
    }

    async fn left(store: &SqliteStore) -> i64 {
        let count = "SELECT (SELECT count(*) FROM records WHERE stream = 1) + (SELECT count(*) FROM removing)";
        let readers = &store.inner.readers;
        let left = readers.read(move |reader| Ok(reader.query_row(count, [], |row| row.get(0))?));
        left.await.unwrap()
    }

    #[tokio::test]
    async fn interrupted_removal_is_hidden_and_continues() {
        let directory = tempfile::tempdir().unwrap();
        let store = open(directory.path()).await;
        append(&store, "s", 1000).await;
        // The first commit of a removal, after which the process ends.
        let key = StreamKey::new("s");
        let writer = store.inner.writer().unwrap();
        assert!(writer.write(move |work| remove(work, &key)).await.unwrap());
        store.close().await;

        let store = open(directory.path()).await;
        let page = store.journal().read(&StreamKey::new("s"), 0, 10).await;
        assert_eq!(page.unwrap().head, 0);
        assert!(store.journal().streams().await.unwrap().is_empty());
        assert!(left(&store).await > 0);
        assert_eq!(store.verify().await.unwrap().findings, []);
        // Other jobs write, and a new stream takes the name.
        for _ in 0..10 {
            append(&store, "s", 1).await;
        }
        assert_eq!(store.verify().await.unwrap().findings, []);
        store.close().await;
        let store = open(directory.path()).await;
        assert_eq!(left(&store).await, 0);
        assert_eq!(store.verify().await.unwrap().findings, []);
    }
}
