//! A journal in memory: events are shared, never serialised.

mod shared;
mod stream;

use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use async_trait::async_trait;
use tokio::sync::watch;
use windlass_core::events::Event;
use windlass_core::typed_id::TurnId;

use super::fork::{TAKEN, TOO_SHORT, Waiting, own_records, refused};
use super::memory_runs::Places;
use super::search::TurnSearch;
use super::turn_runs::newest_rows;
use super::{
    Batch, Claim, Journal, JournalError, Listed, Page, Standing, StreamKey, ThreadCursor,
    ThreadEntry, ThreadFilter, TurnRun, Window,
};
use crate::runs::RunFilter;
use stream::Stream;

/// Takes the events that retention removes.
pub trait EventSink: Send + Sync {
    /// Gets events in order, before they are gone.
    fn retire(&self, events: &[Arc<Event>]);
}

/// How much of each stream is kept.
#[derive(Clone, Default)]
pub struct Retention {
    /// How many events a stream keeps; `None` is all of them. Open turns are always kept whole.
    pub max_events: Option<usize>,
    /// Who gets the older ones.
    pub sink: Option<Arc<dyn EventSink>>,
}

impl fmt::Debug for Retention {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Retention")
            .field("max_events", &self.max_events)
            .field("sink", &self.sink.is_some())
            .finish()
    }
}

/// A journal in memory.
#[derive(Debug, Default)]
pub struct MemoryJournal {
    retention: Retention,
    position: AtomicU64,
    /// Where turns stand among all runs.
    places: Places,
    streams: RwLock<Streams>,
}

#[derive(Debug, Default)]
struct Streams {
    next: u64,
    by_key: HashMap<StreamKey, u64>,
    by_number: HashMap<u64, Arc<Mutex<Stream>>>,
}

/// A panic elsewhere leaves whole records behind, so a poisoned lock is still good.
fn lock(stream: &Mutex<Stream>) -> MutexGuard<'_, Stream> {
    stream.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MemoryJournal {
    /// Makes an empty journal that keeps everything.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty journal that keeps only so much.
    #[must_use]
    pub fn with_retention(retention: Retention) -> Self {
        Self {
            retention,
            ..Self::default()
        }
    }

    fn stream(&self, key: &StreamKey) -> Option<Arc<Mutex<Stream>>> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        streams.by_number.get(streams.by_key.get(key)?).cloned()
    }

    /// Returns all streams with their names and numbers.
    fn numbered(&self) -> Vec<(StreamKey, u64, Arc<Mutex<Stream>>)> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let numbered = streams.by_key.iter().filter_map(|(key, number)| {
            let stream = streams.by_number.get(number)?;
            Some((key.clone(), *number, Arc::clone(stream)))
        });
        numbered.collect()
    }

    fn open(&self, key: &StreamKey) -> (u64, Arc<Mutex<Stream>>) {
        let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
        let streams = &mut *streams;
        let number = *streams.by_key.entry(key.clone()).or_insert_with(|| {
            streams.next += 1;
            streams.next
        });
        (
            number,
            Arc::clone(streams.by_number.entry(number).or_default()),
        )
    }
}

#[async_trait]
impl Journal for MemoryJournal {
    async fn claim(&self, key: &StreamKey) -> Result<Claim, JournalError> {
        let (number, stream) = self.open(key);
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
            let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
            streams
                .by_number
                .get(&claim.stream)
                .cloned()
                .ok_or(JournalError::Removed(claim.stream))?
        };
        let retired = {
            let mut stream = lock(&stream);
            check(&stream, claim, &batch)?;
            let count = batch.records.len() as u64;
            let first_position = self.position.fetch_add(count, Ordering::Relaxed);
            for (position, event) in (first_position..).zip(batch.records) {
                stream.push(position, event, &self.places);
            }
            let retired = self
                .retention
                .max_events
                .map(|max| stream.prune(max, claim.stream))
                .unwrap_or_default();
            stream.ring();
            retired
        };
        if let (Some(sink), false) = (&self.retention.sink, retired.is_empty()) {
            sink.retire(&retired);
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

    async fn read_all(&self) -> Result<Vec<Arc<Event>>, JournalError> {
        let streams: Vec<_> = {
            let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
            streams.by_number.values().cloned().collect()
        };
        let mut records = Vec::new();
        for stream in streams {
            lock(&stream).add_to(&mut records);
        }
        // What a fork has taken over came with its first own record.
        records.sort_unstable_by_key(|record| (record.position, record.event.seq()));
        Ok(records.into_iter().map(|record| record.event).collect())
    }

    async fn watch(&self, key: &StreamKey) -> Result<watch::Receiver<u64>, JournalError> {
        let (_, stream) = self.open(key);
        let mut stream = lock(&stream);
        let head = stream.head();
        Ok(stream
            .doorbell
            .get_or_insert_with(|| watch::channel(head).0)
            .subscribe())
    }

    async fn unfinished(&self) -> Result<Vec<StreamKey>, JournalError> {
        let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
        let is_open = |number: &u64| {
            let stream = streams.by_number.get(number);
            stream.is_some_and(|stream| lock(stream).open_turns.first().is_some())
        };
        let open = streams.by_key.iter().filter(|(_, number)| is_open(number));
        Ok(open.map(|(key, _)| key.clone()).collect())
    }

    async fn threads(
        &self,
        filter: ThreadFilter,
        window: Window<ThreadCursor>,
    ) -> Result<Listed<ThreadEntry, ThreadCursor>, JournalError> {
        let streams = self.numbered();
        let entries = streams.iter().filter_map(|(key, number, stream)| {
            let mut stream = lock(stream);
            stream.thread().entry(key, *number)
        });
        Ok(Listed::of_threads(entries.collect(), filter, &window))
    }

    async fn thread(&self, key: &StreamKey) -> Result<Option<ThreadEntry>, JournalError> {
        let Some(stream) = self.stream(key) else {
            return Ok(None);
        };
        let number = {
            let streams = self.streams.read().unwrap_or_else(PoisonError::into_inner);
            streams.by_key.get(key).copied().unwrap_or_default()
        };
        let mut stream = lock(&stream);
        Ok(stream.thread().entry(key, number))
    }

    async fn turn_runs(
        &self,
        filter: RunFilter,
        limit: usize,
    ) -> Result<Vec<TurnRun>, JournalError> {
        let streams = self.numbered();
        let mut rows = Vec::new();
        for (_, number, stream) in &streams {
            rows.extend(lock(stream).runs(*number).newest(&filter, limit));
        }
        let names: HashMap<u64, StreamKey> = streams
            .into_iter()
            .map(|(key, number, _)| (number, key))
            .collect();
        let rows = newest_rows(rows, limit).into_iter();
        let named =
            rows.filter_map(|row| Some(names.get(&row.stream)?.clone()).map(|key| (row, key)));
        Ok(named.map(|(row, key)| row.into_run(key)).collect())
    }

    async fn turn_run(&self, turn_id: TurnId) -> Result<Option<TurnRun>, JournalError> {
        for (key, number, stream) in self.numbered() {
            if let Some(row) = lock(&stream).runs(number).find(turn_id) {
                return Ok(Some(row.clone().into_run(key)));
            }
        }
        Ok(None)
    }

    async fn remove(&self, key: &StreamKey) -> Result<bool, JournalError> {
        let stream = {
            let mut streams = self.streams.write().unwrap_or_else(PoisonError::into_inner);
            let Some(number) = streams.by_key.remove(key) else {
                return Ok(false);
            };
            streams.by_number.remove(&number)
        };
        if let Some(stream) = stream {
            let mut stream = lock(&stream);
            stream.removed = true;
            stream.doorbell = None;
        }
        Ok(true)
    }

    async fn standing(&self, key: &StreamKey) -> Result<Standing, JournalError> {
        let stream = self.stream(key);
        Ok(stream.map_or_else(Standing::default, |stream| {
            let stream = lock(&stream);
            let mut waiting = Waiting::default();
            stream.each_event(0, |event| {
                waiting.follow(&event.data);
                ControlFlow::Continue(())
            });
            Standing {
                head: stream.head(),
                open: waiting.turns(),
            }
        }))
    }

    async fn turn_end(&self, key: &StreamKey, turn: TurnId) -> Result<Option<u64>, JournalError> {
        let mut search = TurnSearch::new(turn);
        if let Some(stream) = self.stream(key) {
            lock(&stream).each_event(0, |event| search.look(event));
        }
        Ok(search.end())
    }

    async fn fork(
        &self,
        parent: &StreamKey,
        at_seq: u64,
        child: &StreamKey,
        forked: Event,
    ) -> Result<u64, JournalError> {
        let is_taken = |stream: Arc<Mutex<Stream>>| lock(&stream).head() > 0;
        if self.stream(child).is_some_and(is_taken) {
            return Err(refused(child, 0, TAKEN));
        }
        let not_forkable = |reason| refused(parent, at_seq, reason);
        let (begins_with, waiting) = match (at_seq, self.stream(parent)) {
            (0, _) => (None, Waiting::default()),
            (_, None) => return Err(not_forkable(TOO_SHORT)),
            (_, Some(stream)) => lock(&stream).share(at_seq).map_err(not_forkable)?,
        };
        let records = own_records(&forked, at_seq, waiting);
        let (_, stream) = self.open(child);
        let mut stream = lock(&stream);
        // Somebody may have been here since.
        if stream.removed || stream.head() > 0 {
            return Err(refused(child, 0, TAKEN));
        }
        let count = records.len() as u64;
        let position = self.position.fetch_add(count, Ordering::Relaxed);
        stream.epoch += 1;
        if let Some(node) = begins_with {
            stream.begin_with(node, at_seq, forked.session_id, position);
        }
        for (position, event) in (position..).zip(records) {
            stream.push(position, event, &self.places);
        }
        stream.ring();
        Ok(stream.head())
    }
}

fn check(stream: &Stream, claim: &Claim, batch: &Batch) -> Result<(), JournalError> {
    let number = claim.stream;
    if stream.removed {
        return Err(JournalError::Removed(number));
    }
    if stream.epoch != claim.epoch {
        return Err(JournalError::Fenced {
            stream: number,
            current: stream.epoch,
            claimed: claim.epoch,
        });
    }
    let head = stream.head();
    let out_of_sequence = |first_seq| {
        Err(JournalError::OutOfSequence {
            stream: number,
            head,
            first_seq,
        })
    };
    if batch.first_seq != head + 1 {
        return out_of_sequence(batch.first_seq);
    }
    for (seq, event) in (batch.first_seq..).zip(&batch.records) {
        if event.sequence != Some(seq) {
            return out_of_sequence(event.seq());
        }
    }
    Ok(())
}
