//! Wakes those who wait for records of a stream, and hands them the newest ones. It works inside of one process.
//!
//! Whoever is woken wants what was just written. So a bell keeps the events of the last commits, and many readers of one
//! stream read them once from memory instead of each from the database. What is older is read there.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;
use windlass_core::events::Event;

use crate::journal::{Page, StreamKey};

/// How many events a bell keeps.
const MAX_EVENTS: usize = 32;
/// How many bytes of JSON they may have together.
const MAX_BYTES: usize = 32 * 1024;

/// What happened to a stream.
#[derive(Debug)]
pub(crate) enum Wakeup {
    Head(StreamKey, u64, Vec<Written>),
    Removed(StreamKey),
}

/// An event that was written, and the size of its JSON.
pub(crate) type Written = (Arc<Event>, usize);

/// The bell of a stream that somebody watches.
#[derive(Debug)]
struct Bell {
    head: watch::Sender<u64>,
    /// The newest events, up to the head without a gap; empty where that is not known.
    newest: VecDeque<Written>,
    bytes: usize,
}

impl Default for Bell {
    fn default() -> Self {
        Self {
            head: watch::channel(0).0,
            newest: VecDeque::new(),
            bytes: 0,
        }
    }
}

impl Bell {
    fn take_in(&mut self, head: u64, written: Vec<Written>) {
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
        if self
            .newest
            .back()
            .is_some_and(|(event, _)| event.seq() != head)
        {
            self.forget();
        }
    }

    fn forget(&mut self) {
        self.newest.clear();
        self.bytes = 0;
    }

    /// Returns what lies behind a cursor, where all of it is here.
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

/// One bell for each stream that somebody watches, and one for all streams.
#[derive(Debug)]
pub(crate) struct Doorbells {
    bells: Mutex<HashMap<StreamKey, Bell>>,
    all: watch::Sender<u64>,
}

impl Default for Doorbells {
    fn default() -> Self {
        Self {
            bells: Mutex::default(),
            all: watch::channel(0).0,
        }
    }
}

impl Doorbells {
    pub(crate) fn watch(&self, stream: &StreamKey) -> watch::Receiver<u64> {
        let mut bells = self.lock();
        if bells.len().is_power_of_two() {
            // Now and then, those that nobody listens to any more are taken down.
            bells.retain(|_, bell| bell.head.receiver_count() > 0);
        }
        bells.entry(stream.clone()).or_default().head.subscribe()
    }

    pub(crate) fn watch_all(&self) -> watch::Receiver<u64> {
        self.all.subscribe()
    }

    /// Tells those who watch all streams that there was a commit.
    pub(crate) fn ring_all(&self) {
        if self.all.receiver_count() > 0 {
            self.all.send_modify(|commits| *commits += 1);
        }
    }

    /// Shows a head to those who watch, unless they have seen a newer one.
    pub(crate) fn show(&self, stream: &StreamKey, head: u64) {
        if let Some(bell) = self.lock().get(stream) {
            tell(bell, head);
        }
    }

    /// Returns what lies behind a cursor, where somebody watches the stream and all of it was written lately.
    pub(crate) fn page(&self, stream: &StreamKey, after: u64, limit: usize) -> Option<Page> {
        self.lock()
            .get(stream)?
            .page(after.min(u64::MAX - 1), limit)
    }

    pub(crate) fn ring(&self, ring: Wakeup) {
        let mut bells = self.lock();
        match ring {
            Wakeup::Head(stream, head, written) => {
                let Some(bell) = bells.get_mut(&stream) else {
                    return;
                };
                if bell.head.receiver_count() == 0 {
                    bells.remove(&stream);
                } else {
                    bell.take_in(head, written);
                    tell(bell, head);
                }
            }
            // Dropping the bell tells the watchers.
            Wakeup::Removed(stream) => drop(bells.remove(&stream)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamKey, Bell>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tell(bell: &Bell, head: u64) {
    bell.head.send_if_modified(|shown| {
        let is_newer = head > *shown;
        *shown = head.max(*shown);
        is_newer
    });
}
