//! Events in wire form, encoded once for all readers.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use windlass_core::events::Event;
use windlass_core::typed_id::TurnId;
use windlass_protocol::RuntimeEventEnvelope;

use crate::view::{self, Include};

/// Capacity of the cache in bytes.
const CACHE_BYTES: usize = 4 * 1024 * 1024;
/// Overhead of an entry in addition to its text.
const ENTRY_BYTES: usize = 256;

/// One record of a thread.
pub(crate) struct WireRecord {
    pub(crate) seq: u64,
    pub(crate) turn_id: Option<TurnId>,
    /// `None` for a record that is not visible on the wire.
    pub(crate) shown: Option<WireEvent>,
}

/// An event as JSON, without its link to the previous event.
pub(crate) struct WireEvent {
    pub(crate) name: String,
    /// The envelope up to its closing brace.
    pub(crate) json: Bytes,
}

impl WireRecord {
    pub(crate) fn new(event: &Event, include: Include) -> Self {
        let shown = view::view(event, include).and_then(|envelope| {
            let mut json = serde_json::to_vec(&envelope).ok()?;
            json.pop();
            Some(WireEvent {
                name: envelope.payload.name().to_owned(),
                json: json.into(),
            })
        });
        Self {
            seq: event.seq(),
            turn_id: event.context.turn_id,
            shown,
        }
    }

    fn bytes(&self) -> usize {
        ENTRY_BYTES + self.shown.as_ref().map_or(0, |shown| shown.json.len())
    }
}

impl WireEvent {
    /// Parses the envelope, for the few readers that need its fields.
    pub(crate) fn envelope(&self) -> Option<RuntimeEventEnvelope> {
        let json = [&self.json[..], b"}"].concat();
        serde_json::from_slice(&json).ok()
    }
}

/// Key of an entry: the fan-out, the record, and the event kinds that its readers include.
type Key = (u64, u64, Include);

/// The newest entries within a byte limit. The oldest is evicted first.
#[derive(Default)]
pub(crate) struct WireCache(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    records: HashMap<Key, Arc<WireRecord>>,
    order: VecDeque<Key>,
    bytes: usize,
}

impl WireCache {
    pub(super) fn get(&self, key: Key) -> Option<Arc<WireRecord>> {
        self.0.lock().records.get(&key).cloned()
    }

    pub(super) fn add(&self, key: Key, record: Arc<WireRecord>) {
        let mut entries = self.0.lock();
        let entries = &mut *entries;
        entries.bytes += record.bytes();
        match entries.records.insert(key, record) {
            Some(previous) => entries.bytes -= previous.bytes(),
            None => entries.order.push_back(key),
        }
        while entries.bytes > CACHE_BYTES {
            let Some(oldest) = entries.order.pop_front() else {
                break;
            };
            if let Some(record) = entries.records.remove(&oldest) {
                entries.bytes -= record.bytes();
            }
        }
    }
}
