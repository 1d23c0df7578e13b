//! The stores of Windlass: the journal of events, files, keys, secrets and sessions, each with rules and a conformance suite.

pub mod conformance;
mod cursor;
#[cfg(feature = "durable")]
pub mod durable;
pub mod files;
pub mod host_records;
pub mod journal;
pub mod ledger;
mod maintenance;
pub mod queries;
mod recently_used;
mod records;
pub mod runs;
pub mod sessions;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod storage;

pub use cursor::{CursorError, CursorKind, Cursors};
pub use files::*;
pub use host_records::{HostRecord, HostRecords, MemoryHostRecords, RowWrite};
pub use journal::{
    Batch, ChainCheck, Claim, EventSink, FeedEntry, FeedPage, Journal, JournalError, MemoryJournal,
    Page, Retention, StreamKey, StreamStatus,
};
pub use ledger::{
    LedgerError, MemoryLedger, OwnerSpending, Reservation, Settlement, SpendingLedger,
};
pub use maintenance::{Maintenance, MaintenanceReport, OverLimit};
pub use queries::{
    Listed, MemoryQueries, Queries, QueryError, RunRow, ThreadQuery, ThreadRow, TurnRow, TurnRun,
};
pub use recently_used::RecentlyUsed;
pub use records::Records;
pub use runs::{BeginOutcome, MemoryRunLog, RunFilter, RunKind, RunLog, RunPage, StoredRun};
pub use sessions::InMemorySessionStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteError, SqliteJournal, SqliteOptions, SqliteStore};
pub use storage::InMemorySessionStorageStore;
