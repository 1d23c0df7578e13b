//! Connections that only read.
//!
//! A reader sees the database at the start of its query and never waits for the writer. Reads are short pages, so that no reader prevents the
//! write-ahead log from restarting.

use std::sync::{Arc, Mutex};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::read_threads::ReadThreads;
use crate::sqlite::error::{DbError, DbResult};
use crate::sqlite::open::connect::{Freshness, Location};
use windlass_core::lock::lock;

/// How many reads run at a time; more of them wait without a thread.
const MAX_READERS: usize = 4;

/// A pool of connections.
#[derive(Debug)]
pub(crate) struct Readers {
    location: Location,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Connection>>,
    threads: ReadThreads,
}

impl Readers {
    /// Creates a pool; it reuses a connection that is already open.
    pub(crate) fn new(location: Location, open: Option<(Connection, Freshness)>) -> Arc<Self> {
        let readers = Self {
            location,
            permits: Arc::new(Semaphore::new(MAX_READERS)),
            idle: Mutex::default(),
            threads: ReadThreads::default(),
        };
        open.into_iter()
            .for_each(|(open, sees)| readers.put(open, sees));
        Arc::new(readers)
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Runs a short read on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> DbResult<T> + Send + 'static,
    ) -> DbResult<T> {
        let permit = Arc::clone(&self.permits).acquire_owned().await;
        let permit = permit.map_err(closed)?;
        let readers = Arc::clone(self);
        // A cancelled caller does not end the read, so the read owns the permit.
        let done = self.threads.run(permit, move || {
            let (db, sees) = readers.take()?;
            let result = work(&db);
            readers.put(db, sees);
            result
        });
        let done =
            done.map_err(|error| DbError::unavailable(format!("no read can run: {error}")))?;
        done.await
            .map_err(|_| DbError::unavailable("a read panicked"))?
    }

    fn take(&self) -> DbResult<(Connection, Freshness)> {
        let idle = lock(&self.idle).pop();
        match idle {
            Some(db) => Ok((db, Freshness::Changes)),
            None => self.location.connect_to_look(),
        }
    }

    /// Returns a connection to the pool, unless it opened the database as immutable.
    fn put(&self, db: Connection, sees: Freshness) {
        if self.permits.is_closed() || sees != Freshness::Changes {
            return;
        }
        let mut idle = lock(&self.idle);
        if idle.len() < MAX_READERS {
            idle.push(db);
        }
    }

    /// Closes all idle connections and rejects further reads.
    pub(crate) fn close(&self) {
        self.permits.close();
        lock(&self.idle).clear();
    }
}

fn closed(_: tokio::sync::AcquireError) -> DbError {
    DbError::unavailable("it was closed")
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::sqlite::open::owner::DirectoryLock;
    use crate::sqlite::open::schema;

    fn readers(directory: &std::path::Path) -> Arc<Readers> {
        let location = Location::new(directory);
        let _owner = DirectoryLock::take(&location).unwrap();
        let mut writer = location.connect_to_write(None).unwrap();
        schema::migrate(&mut writer, &location).unwrap();
        Readers::new(location, None)
    }

    #[tokio::test]
    async fn cancelled_read_holds_its_permit() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(directory.path());
        let (begun, begins) = mpsc::channel();
        let mut gates = Vec::new();
        for _ in 0..MAX_READERS {
            let (open, gate) = mpsc::channel::<()>();
            gates.push(open);
            let (readers, begun) = (Arc::clone(&readers), begun.clone());
            let read = tokio::spawn(async move {
                let work = move |_: &Connection| {
                    begun.send(()).unwrap();
                    // Ends when the test drops the sender.
                    let _ = gate.recv();
                    Ok(())
                };
                readers.read(work).await
            });
            tokio::task::yield_now().await;
            begins.recv().unwrap();
            read.abort();
            assert!(read.await.is_err(), "the caller has given up");
        }
        assert_eq!(readers.permits.available_permits(), 0);
        drop(gates);
        readers.read(|_| Ok(())).await.unwrap();
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn consecutive_reads_run_on_one_thread() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(directory.path());
        let mut threads = std::collections::HashSet::new();
        for _ in 0..100 {
            let thread = readers.read(|_| Ok(std::thread::current().id()));
            threads.insert(thread.await.unwrap());
        }
        assert_eq!(threads.len(), 1);
    }

    #[tokio::test]
    async fn connection_without_later_changes_is_used_once() {
        let directory = tempfile::tempdir().unwrap();
        let readers = readers(directory.path());
        let unchanged = || readers.location.connect_to_read().unwrap();
        readers.put(unchanged(), Freshness::NoChanges);
        assert!(lock(&readers.idle).is_empty());
        readers.put(unchanged(), Freshness::Changes);
        assert_eq!(lock(&readers.idle).len(), 1);
    }
}
