//! A journal that counts calls and injects faults.

use windlass_store::conformance::{HookedJournal, JournalFaults};

pub(crate) type SpyJournal = HookedJournal<JournalFaults>;
