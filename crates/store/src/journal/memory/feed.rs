//! The feed of a journal in memory. Positions are given out under its lock, so they become visible in their order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass_core::events::Event;

use super::super::{FeedEntry, FeedPage, JournalError, StreamKey};
use super::stream::Record;
use crate::cursor::{Cursors, List};

/// The records of all streams by position.
#[derive(Debug, Default)]
pub(super) struct Feed {
    records: Mutex<Records>,
    watchers: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Records {
    newest: u64,
    kept: BTreeMap<u64, (StreamKey, Arc<Event>)>,
}

impl Feed {
    /// A panic leaves only complete records, so a poisoned lock is usable.
    fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Assigns positions to records. Watchers are notified once the stream contains them: [`Self::notify`].
    pub(super) fn add(&self, stream: &StreamKey, events: Vec<Arc<Event>>) -> Vec<Record> {
        let mut records = self.lock();
        let placed = events.into_iter().map(|event| {
            records.newest += 1;
            let position = records.newest;
            records
                .kept
                .insert(position, (stream.clone(), Arc::clone(&event)));
            Record { position, event }
        });
        placed.collect()
    }

    /// Removes records that retention took out of their streams.
    pub(super) fn remove(&self, gone: impl IntoIterator<Item = u64>) {
        let mut records = self.lock();
        for position in gone {
            records.kept.remove(&position);
        }
    }

    pub(super) fn notify(&self) {
        let newest = self.newest();
        self.watchers.send_if_modified(|shown| {
            let is_newer = newest > *shown;
            *shown = newest.max(*shown);
            is_newer
        });
    }

    pub(super) fn watch(&self) -> watch::Receiver<u64> {
        self.watchers.subscribe()
    }

    /// Returns how many records there were so far.
    pub(super) fn newest(&self) -> u64 {
        self.lock().newest
    }

    pub(super) fn read(
        &self,
        cursors: &Cursors,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        let records = self.lock();
        let place = after.map(|cursor| cursors.read(List::Feed, records.newest, cursor));
        let (_, place) = place.transpose()?.unwrap_or_default();
        let mut behind = records.kept.range(place.saturating_add(1)..);
        let found: Vec<_> = behind.by_ref().take(limit).collect();
        let place = found.last().map_or(place, |(position, _)| **position);
        let entries = found.into_iter().map(|(_, (stream, event))| FeedEntry {
            stream: stream.clone(),
            seq: event.seq(),
            event: Ok(Arc::clone(event)),
        });
        Ok(FeedPage {
            entries: entries.collect(),
            next: cursors.write(List::Feed, records.newest, (0, place)),
            is_end: behind.next().is_none(),
        })
    }
}
