//! Conformance suites: one check per rule for every implementation of a store.
//!
//! ```
//! # use std::sync::Arc;
//! # use windlass_store::InMemorySessionFileStore;
//! # use windlass_store::conformance::{self, Sharing};
//! # tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(async {
//! conformance::files(Sharing::EachSessionItsOwn, || {
//!     Arc::new(InMemorySessionFileStore::new())
//! })
//! .await
//! .unwrap();
//! # });
//! ```

#[macro_use]
mod check;
mod files;
mod hooked_journal;
mod host_records;
mod journal;
mod ledger;
mod queries;
mod runs;
mod storage;

use std::sync::Arc;

use windlass_core::traits::{SessionFileSystem, SessionStorageStore};

use crate::journal::Journal;
use crate::runs::RunLog;

pub use check::{ConformanceCheck, Violation, Violations};
pub use files::{FILE_CHECKS, FILE_CHECKS_OF_SEPARATE_SESSIONS};
pub use hooked_journal::{HookedJournal, JournalCall, JournalFaults, JournalHooks, JournalSuccess};
pub use host_records::{HOST_RECORD_CHECKS, HostRecordStores};
pub use journal::{JOURNAL_CHECKS, gaps};
pub use ledger::{LEDGER_CHECKS, LedgerStores};
pub use queries::{QUERY_CHECKS, QueryStores};
pub use runs::RUN_CHECKS;
pub use storage::STORAGE_CHECKS;

/// Whether sessions see the same files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// Each session has separate files.
    EachSessionItsOwn,
    /// All sessions see one tree.
    OneForAll,
}

/// Checks a file system; `make` returns an empty one for each rule. Run it inside a tokio runtime.
pub async fn files(
    sharing: Sharing,
    make: impl Fn() -> Arc<dyn SessionFileSystem>,
) -> Result<(), Violations> {
    let separate = match sharing {
        Sharing::EachSessionItsOwn => FILE_CHECKS_OF_SEPARATE_SESSIONS,
        Sharing::OneForAll => &[],
    };
    let checks = FILE_CHECKS.iter().chain(separate);
    check::all(checks, make).await
}

/// Checks a store of keys and secrets; `make` returns an empty one for each rule.
pub async fn storage(make: impl Fn() -> Arc<dyn SessionStorageStore>) -> Result<(), Violations> {
    check::all(STORAGE_CHECKS.iter(), make).await
}

/// Checks a journal; `make` returns an empty one for each rule. Run it inside a tokio runtime.
pub async fn journal(make: impl AsyncFn() -> Arc<dyn Journal>) -> Result<(), Violations> {
    check::all_of(JOURNAL_CHECKS.iter(), make).await
}

/// Checks host records; `make` returns an empty store for each rule. Run it inside a tokio runtime.
pub async fn host_records(make: impl AsyncFn() -> Arc<HostRecordStores>) -> Result<(), Violations> {
    check::all_of(HOST_RECORD_CHECKS.iter(), make).await
}

/// Checks a spending ledger; `make` returns an empty store for each rule. Run it inside a tokio runtime.
pub async fn ledger(make: impl AsyncFn() -> Arc<LedgerStores>) -> Result<(), Violations> {
    check::all_of(LEDGER_CHECKS.iter(), make).await
}

/// Checks a log of runs; `make` returns an empty one for each rule. Run it inside a tokio runtime.
pub async fn runs(make: impl AsyncFn() -> Arc<dyn RunLog>) -> Result<(), Violations> {
    check::all_of(RUN_CHECKS.iter(), make).await
}

/// Checks a store's queries for threads, turns and runs; `make` returns an empty one for each rule. Run it inside a tokio runtime.
pub async fn queries(make: impl AsyncFn() -> Arc<QueryStores>) -> Result<(), Violations> {
    check::all_of(QUERY_CHECKS.iter(), make).await
}
