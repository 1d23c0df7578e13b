//! What Windlass keeps: the journal of events, files, keys, secrets and sessions, each with its rules and a suite
//! that checks them.

pub mod conformance;
mod cursor;
#[cfg(feature = "sqlite")]
mod durable;
pub mod files;
pub mod host_records;
pub mod journal;
pub mod ledger;
mod lock;
pub mod queries;
mod recently_used;
mod records;
pub mod runs;
pub mod sessions;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod storage;
mod upkeep;

pub use cursor::CursorError;
pub use files::*;
pub use host_records::{HostRecord, HostRecords, MemoryHostRecords, Put};
pub use journal::{
    Batch, Claim, EventSink, FeedEntry, FeedPage, Journal, JournalError, MemoryJournal, Page,
    Retention, StreamKey, StreamStatus,
};
pub use ledger::{
    LedgerError, MemoryLedger, OwnerSpending, Reservation, Settlement, SpendingLedger,
};
pub use queries::{
    Listed, MemoryQueries, Queries, QueryError, RunRow, ThreadQuery, ThreadRow, TurnRow, TurnRun,
};
pub use recently_used::RecentlyUsed;
pub use records::Records;
pub use runs::{Begun, KeptRun, MemoryRunLog, RunFilter, RunKind, RunLog, RunPage};
pub use sessions::InMemorySessionStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteError, SqliteJournal, SqliteOptions, SqliteStore};
pub use storage::InMemorySessionStorageStore;
pub use upkeep::{OverLimit, Upkeep, Upkept};
