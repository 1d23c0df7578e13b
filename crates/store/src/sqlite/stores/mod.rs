//! The stores next to the journal: harnesses, agents and sessions; values, secrets and files; runs, host records, spending.

pub(super) mod files;
pub(super) mod host_records;
pub(super) mod ledger;
pub(super) mod records;
pub(super) mod runs;
pub(super) mod secrets;
pub(super) mod storage;
