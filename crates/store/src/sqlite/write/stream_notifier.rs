//! Notifies the watchers of a stream of new records, and caches the newest ones. It works inside one process.
//!
//! A watcher that is notified reads what was just written. So a watched stream caches the events of its last commits, and its
//! readers take them from memory instead of each from the database. Older events are read there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};

use tokio::sync::watch;
use windlass_core::events::Event;

use crate::journal::{Page, StreamKey};
use windlass_core::lock::lock;

/// How many events are cached per stream.
const MAX_EVENTS: usize = 32;
/// How many bytes of JSON they may have together.
const MAX_BYTES: usize = 32 * 1024;

/// A change of a stream.
#[derive(Debug)]
pub(crate) enum Wakeup {
    Head(StreamKey, u64, Vec<WrittenEvent>),
    Removed(StreamKey),
}

/// An event that was written, and the size of its JSON.
pub(crate) type WrittenEvent = (Arc<Event>, usize);

/// The end of a watched stream.
#[derive(Debug, Default)]
struct StreamTail {
    head: watch::Sender<u64>,
    /// The newest events, without a gap up to the head; empty if unknown.
    newest: VecDeque<WrittenEvent>,
    bytes: usize,
}

impl StreamTail {
    fn extend(&mut self, head: u64, written: Vec<WrittenEvent>) {
        let first = written.first().map(|(event, _)| event.seq());
        let last = self.newest.back().map(|(event, _)| event.seq() + 1);
        if first != last {
            self.forget();
        }
        for (event, bytes) in written {
            self.bytes += bytes;
            self.newest.push_back((event, bytes));
        }
        while self.newest.len() > MAX_EVENTS || self.bytes > MAX_BYTES {
            let Some((_, bytes)) = self.newest.pop_front() else {
                break;
            };
            self.bytes -= bytes;
        }
        if (self.newest.back()).is_some_and(|(event, _)| event.seq() != head) {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.newest.clear();
        self.bytes = 0;
    }

    /// Returns the records after a cursor, if all of them are cached.
    fn page(&self, after: u64, limit: usize) -> Option<Page> {
        let first = self.newest.front()?.0.seq();
        let head = self.newest.back()?.0.seq();
        if after + 1 < first {
            return None;
        }
        let skipped = usize::try_from(after + 1 - first).unwrap_or(usize::MAX);
        let events = self.newest.iter().skip(skipped).take(limit);
        Some(Page {
            pruned: Vec::new(),
            events: events.map(|(event, _)| Arc::clone(event)).collect(),
            head,
        })
    }
}

/// The watched streams.
#[derive(Debug, Default)]
pub(crate) struct StreamNotifier {
    tails: Mutex<HashMap<StreamKey, StreamTail>>,
    all: watch::Sender<u64>,
}

impl StreamNotifier {
    pub(crate) fn watch(&self, stream: &StreamKey) -> watch::Receiver<u64> {
        let mut tails = lock(&self.tails);
        if tails.len().is_power_of_two() {
            // From time to time, streams without watchers are removed.
            tails.retain(|_, tail| tail.head.receiver_count() > 0);
        }
        tails.entry(stream.clone()).or_default().head.subscribe()
    }

    pub(crate) fn watch_all(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    /// Notifies the watchers of all streams of a commit.
    pub(crate) fn notify_all(&self) {
        if self.all.receiver_count() > 0 {
            self.all.send_modify(|commits| *commits += 1);
        }
    }

    /// Shows a head to the watchers of a stream, unless they have seen a newer one.
    pub(crate) fn show(&self, stream: &StreamKey, head: u64) {
        if let Some(tail) = lock(&self.tails).get(stream) {
            show_head(tail, head);
        }
    }

    /// Returns the records after a cursor, if the stream is watched and all of them are cached.
    pub(crate) fn page(&self, stream: &StreamKey, after: u64, limit: usize) -> Option<Page> {
        lock(&self.tails)
            .get(stream)?
            .page(after.min(u64::MAX - 1), limit)
    }

    pub(crate) fn notify(&self, wakeup: Wakeup) {
        let mut tails = lock(&self.tails);
        match wakeup {
            Wakeup::Head(stream, head, written) => {
                let Some(tail) = tails.get_mut(&stream) else {
                    return;
                };
                if tail.head.receiver_count() == 0 {
                    tails.remove(&stream);
                } else {
                    tail.extend(head, written);
                    show_head(tail, head);
                }
            }
            // Dropping the sender notifies the watchers.
            Wakeup::Removed(stream) => drop(tails.remove(&stream)),
        }
    }
}

fn show_head(tail: &StreamTail, head: u64) {
    tail.head.send_if_modified(|shown| {
        let is_newer = head > *shown;
        *shown = head.max(*shown);
        is_newer
    });
}
