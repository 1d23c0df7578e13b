//! Wakes those who wait for records of a stream. It works inside of one process.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::watch;

use crate::journal::StreamKey;

/// What happened to a stream.
#[derive(Debug)]
pub(crate) enum Ring {
    Head(StreamKey, u64),
    Removed(StreamKey),
}

/// One bell for each stream that somebody watches.
#[derive(Debug, Default)]
pub(crate) struct Doorbells {
    bells: Mutex<HashMap<StreamKey, watch::Sender<u64>>>,
}

impl Doorbells {
    pub(crate) fn watch(&self, stream: &StreamKey) -> watch::Receiver<u64> {
        let mut bells = self.lock();
        if bells.len().is_power_of_two() {
            // Now and then, those that nobody listens to any more are taken down.
            bells.retain(|_, bell| bell.receiver_count() > 0);
        }
        bells
            .entry(stream.clone())
            .or_insert_with(|| watch::channel(0).0)
            .subscribe()
    }

    /// Shows a head to those who watch, unless they have seen a newer one.
    pub(crate) fn show(&self, stream: &StreamKey, head: u64) {
        self.ring(Ring::Head(stream.clone(), head));
    }

    pub(crate) fn ring(&self, ring: Ring) {
        let mut bells = self.lock();
        match ring {
            Ring::Head(stream, head) => {
                let Some(bell) = bells.get(&stream) else {
                    return;
                };
                if bell.receiver_count() == 0 {
                    bells.remove(&stream);
                } else {
                    bell.send_if_modified(|shown| {
                        let is_newer = head > *shown;
                        *shown = head.max(*shown);
                        is_newer
                    });
                }
            }
            // Dropping the bell tells the watchers.
            Ring::Removed(stream) => drop(bells.remove(&stream)),
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<StreamKey, watch::Sender<u64>>> {
        self.bells.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
