//! A journal in memory: events are shared, never serialised.

mod feed;
pub(crate) mod rows;
mod shared;
pub(crate) mod stream;

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use chrono::Utc;
use tokio::sync::watch;
use uuid::Uuid;
use windlass_core::events::Event;

use super::fork::{HAS_RECORDS, OpenInputs, TOO_SHORT, own_records, refused};
use super::{Batch, Claim, FeedPage, Journal, JournalError, Page, StreamKey, StreamStatus};
use crate::cursor::Cursors;
use crate::host_records::MemoryHostRecords;
use crate::ledger::MemoryLedger;
use crate::queries::usage::{RetainedUsage, TurnUsage};
use feed::Feed;
use rows::RunPositions;
use stream::MemoryStream;
use windlass_core::lock::{Shared, lock};
use windlass_macros::OpaqueDebug;

/// Receives the events that retention removes.
pub trait EventSink: Send + Sync {
    /// Called with the events, in order, before they are removed.
    fn retire(&self, events: &[Arc<Event>]);
}

/// The retention limit of each stream.
#[derive(OpaqueDebug, Clone, Default)]
pub struct Retention {
    /// The number of events that a stream retains; `None` retains all. Open turns are always retained whole.
    pub max_events: Option<usize>,
    /// Receives the removed events.
    pub sink: Option<Arc<dyn EventSink>>,
}

/// A journal in memory.
#[derive(Debug)]
pub struct MemoryJournal {
    retention: Retention,
    cursors: Cursors,
    feed: Feed,
    host_records: Arc<MemoryHostRecords>,
    ledger: Arc<MemoryLedger>,
    run_positions: RunPositions,
    streams: Shared<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    by_key: HashMap<StreamKey, u64>,
    by_number: HashMap<u64, Arc<Mutex<MemoryStream>>>,
    /// The usage of removed streams.
    retained: RetainedUsage,
}

impl Default for MemoryJournal {
    fn default() -> Self {
        Self::new()
    }
}

impl MemoryJournal {
    /// Creates an empty journal that retains everything.
    #[must_use]
    pub fn new() -> Self {
        Self::with_retention(Retention::default())
    }

    /// Creates an empty journal with a retention limit.
    #[must_use]
    pub fn with_retention(retention: Retention) -> Self {
        Self {
            retention,
            cursors: Cursors::new(*Uuid::now_v7().as_bytes()),
            feed: Feed::default(),
            host_records: Arc::default(),
            ledger: Arc::default(),
            run_positions: RunPositions::default(),
            streams: Shared::default(),
        }
    }

    /// Returns the host records that appends write to.
    #[must_use]
    pub fn host_records(&self) -> Arc<MemoryHostRecords> {
        Arc::clone(&self.host_records)
    }

    /// Returns the ledger that its appends settle in.
    #[must_use]
    pub fn ledger(&self) -> Arc<MemoryLedger> {
        Arc::clone(&self.ledger)
    }

    fn stream(&self, key: &StreamKey) -> Option<Arc<Mutex<MemoryStream>>> {
        let streams = self.streams.read();
        streams.by_number.get(streams.by_key.get(key)?).cloned()
    }

    /// Visits each stream.
    pub(crate) fn each_stream(&self, mut look: impl FnMut(u64, &mut MemoryStream)) {
        let streams: Vec<_> = {
            let streams = self.streams.read();
            let numbered = streams.by_number.iter();
            numbered
                .map(|(number, stream)| (*number, Arc::clone(stream)))
                .collect()
        };
        for (number, stream) in streams {
            look(number, &mut lock(&stream));
        }
    }

    /// Visits the usage of all ended turns, including those of removed streams.
    pub(crate) fn each_usage(&self, mut look: impl FnMut(&TurnUsage)) {
        let streams: Vec<_> = {
            let streams = self.streams.read();
            streams.retained.turns().for_each(&mut look);
            streams.by_number.values().cloned().collect()
        };
        for stream in streams {
            lock(&stream).each_usage(&mut look);
        }
    }

    /// Runs a closure on one stream.
    pub(crate) fn look_at<T>(
        &self,
        key: &StreamKey,
        look: impl FnOnce(&mut MemoryStream) -> T,
    ) -> Option<T> {
        let stream = self.stream(key)?;
        let mut stream = lock(&stream);
        Some(look(&mut stream))
    }

    /// Returns the position of the newest record; 0 without one.
    pub(crate) fn position(&self) -> u64 {
        self.feed.newest()
    }

    pub(crate) fn cursors(&self) -> &Cursors {
        &self.cursors
    }

    /// Returns a stream and its number. Creates the stream if it does not exist.
    fn find_or_create(&self, key: &StreamKey) -> (u64, Arc<Mutex<MemoryStream>>) {
        let mut streams = self.streams.write();
        let streams = &mut *streams;
        let number = *streams.by_key.entry(key.clone()).or_insert_with(|| {
            streams.next += 1;
            streams.next
        });
        let create = || Arc::new(Mutex::new(MemoryStream::new(key)));
        let stream = streams.by_number.entry(number).or_insert_with(create);
        (number, Arc::clone(stream))
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn claim(&self, key: &StreamKey) -> Result<Claim, JournalError> {
        let (number, stream) = self.find_or_create(key);
        let mut stream = lock(&stream);
        stream.epoch += 1;
        Ok(Claim {
            stream: number,
            epoch: stream.epoch,
            head: stream.head(),
        })
    }

    async fn append(&self, claim: &Claim, batch: Batch) -> Result<(), JournalError> {
        let stream = {
            let streams = self.streams.read();
            streams
                .by_number
                .get(&claim.stream)
                .cloned()
                .ok_or(JournalError::Removed(claim.stream))?
        };
        let retired = {
            let mut stream = lock(&stream);
            check(&stream, claim, &batch)?;
            if !batch.puts.is_empty() {
                let at = batch.records.last().map_or_else(Utc::now, |event| event.ts);
                self.host_records.apply(batch.puts, at);
            }
            if !batch.settlements.is_empty() {
                self.ledger.settle(&batch.settlements);
            }
            for record in self.feed.add(&stream.key, batch.records) {
                stream.push(record, &self.run_positions);
            }
            let retired = self
                .retention
                .max_events
                .map(|max| stream.prune(max))
                .unwrap_or_default();
            stream.notify();
            retired
        };
        self.feed.notify();
        self.feed
            .remove(retired.iter().map(|record| record.position));
        if let (Some(sink), false) = (&self.retention.sink, retired.is_empty()) {
            let events: Vec<_> = retired.into_iter().map(|record| record.event).collect();
            sink.retire(&events);
        }
        Ok(())
    }

    async fn read(&self, key: &StreamKey, after: u64, limit: usize) -> Result<Page, JournalError> {
        let Some(stream) = self.stream(key) else {
            return Ok(Page::default());
        };
        let page = lock(&stream).read(after, limit);
        Ok(page)
    }

    async fn read_after(
        &self,
        cursor: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        self.feed.read(&self.cursors, cursor, limit)
    }

    fn watch_all(&self) -> watch::Receiver<u64> {
        self.feed.watch()
    }

    async fn watch(&self, key: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        let (_, stream) = self.find_or_create(key);
        let mut stream = lock(&stream);
        let head = stream.head();
        Ok(stream
            .watchers
            .get_or_insert_with(|| watch::channel(head).0)
            .subscribe())
    }

    async fn open(
        &self,
        after: Option<&StreamKey>,
        limit: usize,
    ) -> Result<Vec<StreamKey>, JournalError> {
        let mut open = Vec::new();
        self.each_stream(|_, stream| {
            let is_behind = after.is_none_or(|after| stream.key > *after);
            if is_behind && stream.open_turns.first().is_some() {
                open.push(stream.key.clone());
            }
        });
        open.sort_unstable();
        open.truncate(limit);
        Ok(open)
    }

    async fn remove(&self, key: &StreamKey) -> Result<bool, JournalError> {
        let stream = {
            let mut streams = self.streams.write();
            let Some(number) = streams.by_key.remove(key) else {
                return Ok(false);
            };
            let stream = streams.by_number.remove(&number);
            if let Some(stream) = &stream {
                let usage = lock(stream).take_usage().into_iter();
                usage.for_each(|usage| streams.retained.add(usage));
            }
            stream
        };
        if let Some(stream) = stream {
            let mut stream = lock(&stream);
            stream.removed = true;
            stream.watchers = None;
            self.feed.remove(stream.own_positions());
        }
        Ok(true)
    }

    async fn status(&self, key: &StreamKey) -> Result<StreamStatus, JournalError> {
        let stream = self.stream(key);
        Ok(stream.map_or_else(StreamStatus::default, |stream| {
            let stream = lock(&stream);
            let mut waiting = OpenInputs::default();
            stream.each_event(0, |event| {
                waiting.apply(&event.data);
                ControlFlow::Continue(())
            });
            StreamStatus {
                head: stream.head(),
                open: waiting.turns(),
            }
        }))
    }

    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        let has_records = |stream: Arc<Mutex<MemoryStream>>| lock(&stream).head() > 0;
        if self.stream(child).is_some_and(has_records) {
            return Err(refused(child, 0, HAS_RECORDS));
        }
        let not_forkable = |reason| refused(parent, at_seq, reason);
        let (shared, waiting) = match (at_seq, self.stream(parent)) {
            (0, _) => (None, OpenInputs::default()),
            (_, None) => return Err(not_forkable(TOO_SHORT)),
            (_, Some(stream)) => lock(&stream).share(at_seq).map_err(not_forkable)?,
        };
        let records = own_records(&forked, at_seq, waiting);
        let (_, stream) = self.find_or_create(child);
        let mut stream = lock(&stream);
        // Another task may have created the stream meanwhile.
        if stream.removed || stream.head() > 0 {
            return Err(refused(child, 0, HAS_RECORDS));
        }
        stream.epoch += 1;
        if let Some(node) = shared {
            stream.begin_with(node, at_seq, forked.session_id);
        }
        for record in self.feed.add(child, records) {
            stream.push(record, &self.run_positions);
        }
        stream.notify();
        self.feed.notify();
        Ok(stream.head())
    }
}

fn check(stream: &MemoryStream, claim: &Claim, batch: &Batch) -> Result<(), JournalError> {
    if stream.removed {
        return Err(JournalError::Removed(claim.stream));
    }
    let numbers = batch.records.iter().map(|event| event.sequence);
    claim.check_append((stream.epoch, stream.head()), batch.first_seq, numbers)
}
