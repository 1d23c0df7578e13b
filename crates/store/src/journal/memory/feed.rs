//! The feed of a journal in memory. Positions are assigned under its lock, so they become visible in their order.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use windlass_core::events::Event;

use super::super::{FeedEntry, FeedPage, JournalError, StreamKey};
use super::stream::MemoryRecord;
use crate::cursor::{CursorKind, Cursors};
use windlass_core::lock::lock;

/// The records of all streams by position.
#[derive(Debug, Default)]
pub(super) struct Feed {
    records: Mutex<FeedRecords>,
    watchers: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct FeedRecords {
    newest: u64,
    by_position: BTreeMap<u64, (StreamKey, Arc<Event>)>,
}

impl Feed {
    /// Assigns positions to records. Watchers are notified once the stream contains them: [`Self::notify`].
    pub(super) fn add(&self, stream: &StreamKey, events: Vec<Arc<Event>>) -> Vec<MemoryRecord> {
        let mut records = lock(&self.records);
        let placed = events.into_iter().map(|event| {
            records.newest += 1;
            let position = records.newest;
            records
                .by_position
                .insert(position, (stream.clone(), Arc::clone(&event)));
            MemoryRecord { position, event }
        });
        placed.collect()
    }

    /// Removes records that were removed from their streams.
    pub(super) fn remove(&self, gone: impl IntoIterator<Item = u64>) {
        let mut records = lock(&self.records);
        for position in gone {
            records.by_position.remove(&position);
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

    /// Returns the position of the newest record; 0 without one.
    pub(super) fn newest(&self) -> u64 {
        lock(&self.records).newest
    }

    pub(super) fn read(
        &self,
        cursors: &Cursors,
        after: Option<&str>,
        limit: usize,
    ) -> Result<FeedPage, JournalError> {
        let records = lock(&self.records);
        let position = after.map(|cursor| cursors.read(CursorKind::Feed, records.newest, cursor));
        let (_, position) = position.transpose()?.unwrap_or_default();
        let mut remaining = records.by_position.range(position.saturating_add(1)..);
        let found: Vec<_> = remaining.by_ref().take(limit).collect();
        let position = found.last().map_or(position, |(position, _)| **position);
        let entries = found.into_iter().map(|(_, (stream, event))| FeedEntry {
            stream: stream.clone(),
            seq: event.seq(),
            event: Ok(Arc::clone(event)),
        });
        Ok(FeedPage {
            entries: entries.collect(),
            next: cursors.write(CursorKind::Feed, records.newest, (0, position)),
            is_end: remaining.next().is_none(),
        })
    }
}
