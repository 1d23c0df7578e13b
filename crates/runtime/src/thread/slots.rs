//! The slots of all threads, and their eviction from memory.
//!
//! An idle thread costs the memory of its whole conversation. With a journal on disk, the threads that were idle longest are evicted: the next caller
//! gets a new slot, whose thread is loaded from the journal, as after a restart. A slot with other references stays: a running or parked turn, a queued input
//! and a caller in flight each reference theirs.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};

use chrono::{DateTime, Utc};
use windlass_core::typed_id::SessionId;

use super::Slot;
use crate::secrets::KnownSecrets;
use windlass_core::lock::lock;

/// Maximum number of referenced slots that one eviction pass skips. The next pass continues after them, so the cost of a pass does not grow with the
/// number of busy threads.
const MAX_PASSED_OVER: usize = 16;

#[derive(Default)]
pub(crate) struct Slots(Mutex<SlotTable>);

#[derive(Default)]
struct SlotTable {
    by_session: HashMap<SessionId, LoadedSlot>,
    /// The sessions in the order of their last use.
    by_use: BTreeMap<u64, SessionId>,
    uses: u64,
    /// Sum over `by_session`.
    bytes: usize,
    is_swept: bool,
    is_unloading: bool,
}

struct LoadedSlot {
    slot: Arc<Slot>,
    used: u64,
    since: DateTime<Utc>,
    /// Approximate size of its conversation when it was last idle.
    bytes: usize,
}

/// Limits on the slots that stay in memory without other references.
pub(crate) struct IdleLimits {
    /// Maximum number of slots in memory, including referenced ones.
    pub(crate) count: usize,
    /// Slots that were used after this time.
    pub(crate) after: Option<DateTime<Utc>>,
    /// Maximum bytes of their conversations together.
    pub(crate) bytes: usize,
    /// Above that maximum, slots that were used after this time still stay.
    pub(crate) unload_after: DateTime<Utc>,
}

impl Slots {
    pub(crate) fn get(&self, session_id: SessionId) -> Option<Arc<Slot>> {
        let table = lock(&self.0);
        let loaded = table.by_session.get(&session_id)?;
        Some(Arc::clone(&loaded.slot))
    }

    /// Returns the slot of a session. If it is not in memory, it is created, and its secrets are registered.
    pub(crate) fn get_or_create(
        &self,
        session_id: SessionId,
        now: DateTime<Utc>,
        secrets: &KnownSecrets,
    ) -> Arc<Slot> {
        let mut table = lock(&self.0);
        if let Some(loaded) = table.by_session.get(&session_id) {
            return Arc::clone(&loaded.slot);
        }
        secrets.open_session(session_id);
        let slot = Arc::new(Slot::new(session_id));
        let loaded = LoadedSlot {
            slot: Arc::clone(&slot),
            used: 0,
            since: now,
            bytes: 0,
        };
        table.by_session.insert(session_id, loaded);
        table.note_use(session_id, now);
        slot
    }

    pub(crate) fn all(&self) -> Vec<Arc<Slot>> {
        let table = lock(&self.0);
        let places = table.by_session.values();
        places.map(|loaded| Arc::clone(&loaded.slot)).collect()
    }

    pub(crate) fn take(&self, session_id: SessionId, secrets: &KnownSecrets) -> Option<Arc<Slot>> {
        let mut table = lock(&self.0);
        secrets.forget_session(session_id);
        table.remove(session_id)
    }

    /// Records that a thread was just active, and the size of its conversation.
    pub(crate) fn note_idle(&self, session_id: SessionId, now: DateTime<Utc>, bytes: usize) {
        let mut table = lock(&self.0);
        table.note_use(session_id, now);
        let Some(loaded) = table.by_session.get_mut(&session_id) else {
            return;
        };
        let before = std::mem::replace(&mut loaded.bytes, bytes);
        table.bytes = table.bytes - before + bytes;
    }

    /// Evicts unreferenced slots, least recently used first, together with the secrets of their sessions.
    pub(crate) fn trim(&self, keep: &IdleLimits, now: DateTime<Utc>, secrets: &KnownSecrets) {
        let mut gone = Vec::new();
        let mut passed_over = 0;
        {
            let mut table = lock(&self.0);
            let newest = table.uses;
            while passed_over < MAX_PASSED_OVER
                && let Some((&used, &session_id)) = table.by_use.first_key_value()
            {
                let Some(loaded) = table.by_session.get(&session_id) else {
                    table.by_use.remove(&used);
                    continue;
                };
                let is_old = keep.after.is_some_and(|after| loaded.since <= after);
                let is_too_much = table.bytes > keep.bytes && loaded.since <= keep.unload_after;
                let is_too_many = table.by_session.len() > keep.count;
                if used > newest || !(is_old || is_too_many || is_too_much) {
                    break;
                }
                // References are handed out only under this lock, so no caller can acquire a slot that only the table references.
                if Arc::strong_count(&loaded.slot) == 1 {
                    gone.extend(table.remove(session_id));
                    // Done under the lock, because a session that is loaded again registers its secrets.
                    secrets.forget_session(session_id);
                } else {
                    table.note_use(session_id, now);
                    passed_over += 1;
                }
            }
        }
        // A conversation can be long, so it is freed without the lock.
        drop(gone);
    }

    /// Returns whether the caller must start the periodic eviction, and records that it does.
    pub(crate) fn begin_sweep(&self) -> bool {
        !std::mem::replace(&mut lock(&self.0).is_swept, true)
    }

    /// Ends the periodic eviction if no slot is left.
    pub(crate) fn end_sweep(&self) -> bool {
        let mut table = lock(&self.0);
        table.is_swept = !table.by_session.is_empty();
        !table.is_swept
    }

    /// Returns whether the caller must start to unload sessions, and records that it does.
    pub(crate) fn begin_unloading(&self, idle_bytes: usize) -> bool {
        let mut table = lock(&self.0);
        table.bytes > idle_bytes && !std::mem::replace(&mut table.is_unloading, true)
    }

    /// Ends the unloading once conversations are within the limit.
    pub(crate) fn end_unloading(&self, idle_bytes: usize) -> bool {
        let mut table = lock(&self.0);
        table.is_unloading = table.bytes > idle_bytes;
        !table.is_unloading
    }

    pub(crate) fn len(&self) -> usize {
        lock(&self.0).by_session.len()
    }
}

impl SlotTable {
    fn note_use(&mut self, session_id: SessionId, now: DateTime<Utc>) {
        if let Some(loaded) = self.by_session.get_mut(&session_id) {
            self.by_use.remove(&loaded.used);
            self.uses += 1;
            (loaded.used, loaded.since) = (self.uses, now);
            self.by_use.insert(self.uses, session_id);
        }
    }

    fn remove(&mut self, session_id: SessionId) -> Option<Arc<Slot>> {
        let loaded = self.by_session.remove(&session_id)?;
        self.by_use.remove(&loaded.used);
        self.bytes -= loaded.bytes;
        Some(loaded.slot)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eviction_pass_skips_few_referenced_slots_and_the_next_continues() {
        let (slots, secrets) = (Slots::default(), KnownSecrets::default());
        let now = DateTime::UNIX_EPOCH;
        let held: Vec<_> = (0..3 * MAX_PASSED_OVER)
            .map(|number| slots.get_or_create(SessionId::from_seed(number as u128), now, &secrets))
            .collect();
        let rests = SessionId::from_seed(1_000_000);
        drop(slots.get_or_create(rests, now, &secrets));
        let keep = IdleLimits {
            count: 1,
            after: None,
            bytes: usize::MAX,
            unload_after: now,
        };
        for _ in 0..3 {
            slots.trim(&keep, now, &secrets);
            assert!(slots.get(rests).is_some());
        }
        slots.trim(&keep, now, &secrets);
        assert!(slots.get(rests).is_none());
        assert_eq!(slots.len(), held.len());
        drop(held);
        slots.trim(&keep, now, &secrets);
        assert_eq!(slots.len(), 1);
    }
}
