//! Where Windlass keeps things: the journal of events, files, keys and secrets.

pub mod journal;

pub use journal::{
    Batch, Claim, EventSink, Journal, JournalError, MemoryJournal, Page, Retention, StreamKey,
};
