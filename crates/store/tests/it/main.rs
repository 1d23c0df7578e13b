//! The stores, put through their rules.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod guards;
mod host_records;
mod journal;
mod ledger;
#[cfg(target_os = "linux")]
mod memory_scan;
mod queries;
mod quota;
mod rules;
mod runs;
mod sessions;
#[cfg(feature = "sqlite")]
mod sqlite;
mod storage;
mod support;

#[cfg(all(feature = "real-disk", unix))]
mod agreement;
#[cfg(all(feature = "real-disk", unix))]
mod descriptors;
#[cfg(all(feature = "real-disk", unix))]
mod race;
#[cfg(all(feature = "real-disk", unix))]
mod real_disk;
