//! The stores of Windlass in a PostgreSQL database, which several processes can use at the same time.

mod error;
mod host_records;
mod journal;
mod ledger;
mod notify;
mod numbers;
mod open;
mod options;
mod store;

pub use error::PostgresError;
pub use host_records::PostgresHostRecords;
pub use journal::PostgresJournal;
pub use ledger::PostgresLedger;
pub use options::PostgresOptions;
pub use store::PostgresStore;
pub use windlass_store::durable::chain::ChainKey;
