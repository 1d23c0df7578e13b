//! What Windlass keeps: files, keys, secrets and sessions, each with its rules and a suite that checks them.

pub mod conformance;
pub mod files;
mod lock;
pub mod sessions;
pub mod storage;

pub use files::*;
pub use sessions::InMemorySessionStore;
pub use storage::InMemorySessionStorageStore;
