//! Keys and secrets of sessions.

mod memory;

pub use memory::InMemorySessionStorageStore;
