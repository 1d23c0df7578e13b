//! Copies of a store: backup and restore of a data directory, export and import of records.

pub(super) mod backup;
pub(super) mod export;
pub(super) mod import;
mod manifest;
pub(super) mod restore;
pub(super) mod staging;
