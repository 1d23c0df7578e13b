//! Exchanges on file: one driver writes down what was asked and answered, another plays it back, so that agents can be
//! tested without a key.
//!
//! A cassette is a file of JSON lines, one exchange each. What is written is the conversation and the pieces of the
//! answer; keys and headers are not part of either, and values that must not be on file can be named.

mod format;
mod play;
mod record;

pub use play::{CassetteDriver, CassetteError, Matching};
pub use record::RecordingDriver;
