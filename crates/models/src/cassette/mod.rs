//! Recorded exchanges: one driver records requests and answers, another plays them back, so that agents can be
//! tested without a key.
//!
//! A cassette is a file of JSON lines with one exchange each. It contains the conversation and the chunks of the
//! answer, without keys and headers; further values to mask can be named.

mod format;
mod play;
mod record;

pub use play::{CassetteDriver, CassetteError, Matching};
pub use record::RecordingDriver;
