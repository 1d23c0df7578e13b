//! Fan-out of a thread's events to many readers.
//!
//! A reader holds a cursor and no events. All readers of a thread share one [`Fanout`]: an event is read from the journal and encoded once, and a
//! small cache serves readers that need it at about the same time. A reader that lags reads the journal again, so its memory does not grow with its
//! lag.

mod cache;
mod text;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use windlass_core::typed_id::SessionId;
use windlass_store::{Journal, JournalError, StreamKey};

pub(crate) use cache::{WireCache, WireRecord};
pub use text::{EventText, PIECE_BYTES};

use crate::error::Result;
use crate::view::Include;

/// Records per read, and approximate stored bytes per read.
const PAGE: usize = 64;
const PAGE_BYTES: usize = 128 * 1024;
/// Delay before a failed journal read is retried.
const RETRY_DELAY: Duration = Duration::from_millis(250);

/// The threads that have readers.
#[derive(Default)]
pub(crate) struct Fanouts {
    open: Mutex<HashMap<SessionId, Weak<Fanout>>>,
    next: AtomicU64,
    cache: Arc<WireCache>,
}

/// The events of one thread, for all its readers.
pub(crate) struct Fanout {
    /// Identifies it in the cache. A thread's ID is not sufficient, because a removed thread can be created again.
    id: u64,
    session_id: SessionId,
    key: StreamKey,
    journal: Arc<dyn Journal>,
    cache: Arc<WireCache>,
    head: watch::Receiver<u64>,
    /// Lets one reader read a record that many need.
    reading: tokio::sync::Mutex<()>,
}

/// The next step of a reader.
pub(crate) enum CursorStep {
    Record(Arc<WireRecord>),
    /// Retention has removed these records.
    Pruned {
        first: u64,
        last: u64,
    },
}

impl Fanouts {
    /// Adds a reader to a thread.
    pub(crate) async fn join(
        &self,
        journal: Arc<dyn Journal>,
        session_id: SessionId,
    ) -> Result<Arc<Fanout>> {
        if let Some(open) = self.find(session_id) {
            return Ok(open);
        }
        let key = StreamKey::from(session_id);
        let head = journal.watch(&key).await?;
        let fanout = Arc::new(Fanout {
            id: self.next.fetch_add(1, Ordering::Relaxed),
            session_id,
            key,
            head,
            journal,
            cache: Arc::clone(&self.cache),
            reading: tokio::sync::Mutex::default(),
        });
        let mut open = self.open.lock();
        if open.len().is_power_of_two() {
            open.retain(|_, fanout| fanout.strong_count() > 0);
        }
        open.insert(session_id, Arc::downgrade(&fanout));
        Ok(fanout)
    }

    fn find(&self, session_id: SessionId) -> Option<Arc<Fanout>> {
        let open = self.open.lock().get(&session_id)?.upgrade()?;
        // This is an error once the thread is removed.
        open.head.has_changed().is_ok().then_some(open)
    }
}

/// The position of one reader in a thread.
pub(crate) struct Cursor {
    pub(crate) fanout: Arc<Fanout>,
    pub(crate) include: Include,
    /// Sequence number of the last record delivered.
    pub(crate) after: u64,
    head: watch::Receiver<u64>,
}

impl Cursor {
    pub(crate) fn new(fanout: Arc<Fanout>, include: Include, after: u64) -> Self {
        Self {
            head: fanout.head.clone(),
            fanout,
            include,
            after,
        }
    }

    /// Waits for the next step; `None` if the thread is removed or damaged.
    pub(crate) async fn step(&mut self) -> Option<CursorStep> {
        loop {
            let head = *self.head.borrow_and_update();
            if self.after >= head {
                self.head.changed().await.ok()?;
                continue;
            }
            match self.fanout.after(self.after, self.include).await {
                Ok(Some(CursorStep::Record(record))) => {
                    self.after = record.seq;
                    return Some(CursorStep::Record(record));
                }
                Ok(Some(CursorStep::Pruned { first, last })) => {
                    self.after = last;
                    return Some(CursorStep::Pruned { first, last });
                }
                // The head was published before the record was readable.
                Ok(None) => self.head.changed().await.ok()?,
                Err(JournalError::Unavailable(cause)) => {
                    let session = self.fanout.session_id;
                    tracing::warn!(%session, cause, "events cannot be read now and will be read again");
                    tokio::time::sleep(RETRY_DELAY).await;
                }
                Err(JournalError::Removed(_)) => return None,
                Err(error) => {
                    let session = self.fanout.session_id;
                    tracing::error!(%session, %error, "a subscription ends");
                    return None;
                }
            }
        }
    }
}

impl Fanout {
    /// Returns the record with a sequence number; `None` if it is no longer stored.
    pub(crate) async fn record(&self, seq: u64, include: Include) -> Option<Arc<WireRecord>> {
        match self.after(seq.saturating_sub(1), include).await {
            Ok(Some(CursorStep::Record(record))) => Some(record).filter(|record| record.seq == seq),
            Ok(_) => None,
            Err(error) => {
                tracing::warn!(session = %self.session_id, seq, %error, "an event cannot be read again");
                None
            }
        }
    }

    /// Returns the step after a record.
    async fn after(
        &self,
        after: u64,
        include: Include,
    ) -> Result<Option<CursorStep>, JournalError> {
        let cached = || self.cache.get((self.id, after + 1, include));
        if let Some(record) = cached() {
            return Ok(Some(CursorStep::Record(record)));
        }
        let _guard = self.reading.lock().await;
        if let Some(record) = cached() {
            return Ok(Some(CursorStep::Record(record)));
        }
        let page = self.journal.read_within(&self.key, after, PAGE, PAGE_BYTES);
        let page = page.await?;
        let mut first = None;
        for event in &page.events {
            let record = Arc::new(WireRecord::new(event, include));
            first.get_or_insert_with(|| Arc::clone(&record));
            self.cache.add((self.id, record.seq, include), record);
        }
        let gap = page.pruned.first();
        let gap = gap.filter(|gap| first.as_ref().is_none_or(|next| *gap.start() < next.seq));
        Ok(match gap {
            Some(gap) => Some(CursorStep::Pruned {
                first: *gap.start(),
                last: *gap.end(),
            }),
            None => first.map(CursorStep::Record),
        })
    }
}
