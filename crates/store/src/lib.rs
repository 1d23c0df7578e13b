//! What Windlass keeps: the journal of events, files, keys, secrets and sessions, each with its rules and a suite
//! that checks them.

pub mod conformance;
pub mod files;
pub mod journal;
mod lock;
pub mod queries;
pub mod runs;
pub mod sessions;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod storage;

pub use files::*;
pub use journal::{
    Batch, Claim, EventSink, Journal, JournalError, MemoryJournal, Page, Retention, Standing,
    StreamKey,
};
pub use queries::{
    Listed, MemoryQueries, Queries, QueryError, RunRow, ThreadQuery, ThreadRow, TurnRow, TurnRun,
};
pub use runs::{Begun, KeptRun, MemoryRunLog, RunFilter, RunKind, RunLog, RunPage};
pub use sessions::InMemorySessionStore;
#[cfg(feature = "sqlite")]
pub use sqlite::{SqliteError, SqliteJournal, SqliteOptions, SqliteStore};
pub use storage::InMemorySessionStorageStore;
