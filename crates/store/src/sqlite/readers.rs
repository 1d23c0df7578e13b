//! Connections that only read.
//!
//! A reader sees the database as it was when its query began and never waits for the writer. Reads are short pages, so
//! that no reader keeps the write-ahead log from being emptied.

use std::sync::{Arc, Mutex, PoisonError};

use rusqlite::Connection;
use tokio::sync::Semaphore;

use super::connect::{Location, has_stand_ins};
use super::error::Fault;

/// How many reads run at a time; more of them wait without a thread.
const MAX_READERS: usize = 4;

/// A pool of connections.
#[derive(Debug)]
pub(crate) struct Readers {
    location: Location,
    permits: Semaphore,
    idle: Mutex<Vec<Connection>>,
}

impl Readers {
    /// Makes a pool; a connection that is open already need not be opened again.
    pub(crate) fn new(location: Location, open: Option<Connection>) -> Arc<Self> {
        let readers = Self {
            location,
            permits: Semaphore::new(MAX_READERS),
            idle: Mutex::default(),
        };
        open.into_iter().for_each(|open| readers.put(open));
        Arc::new(readers)
    }

    pub(crate) fn location(&self) -> &Location {
        &self.location
    }

    /// Runs a short read on a thread that may block.
    pub(crate) async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Connection) -> Result<T, Fault> + Send + 'static,
    ) -> Result<T, Fault> {
        let _permit = self.permits.acquire().await.map_err(closed)?;
        let readers = Arc::clone(self);
        let done = tokio::task::spawn_blocking(move || {
            let connection = readers.take()?;
            let result = work(&connection);
            readers.put(connection);
            result
        });
        done.await
            .map_err(|error| Fault::unavailable(format!("a read was cut off: {error}")))?
    }

    /// Returns a connection for a long read on the caller's own thread.
    pub(crate) fn take(&self) -> Result<Connection, Fault> {
        let idle = self.lock().pop();
        match idle {
            Some(connection) => Ok(connection),
            None => self.location.connect_to_read(),
        }
    }

    /// Keeps a connection for the next read, unless it shows a database of an earlier version as one of this: it may have become
    /// one by then.
    fn put(&self, connection: Connection) {
        if self.permits.is_closed() || has_stand_ins(&connection) {
            return;
        }
        let mut idle = self.lock();
        if idle.len() < MAX_READERS {
            idle.push(connection);
        }
    }

    /// Ends all connections that nobody uses, and lets nobody open one again.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.lock().clear();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed(_: tokio::sync::AcquireError) -> Fault {
    Fault::unavailable("it was closed")
}
