//! Files of sessions: in memory, in a directory of the host, and with guards around either.

mod content;
mod memory;
mod path;
mod quota;
mod rules;
mod search;

pub use memory::{InMemorySessionFileStore, InMemorySessionFileSystemFactory};
pub use path::MAX_DEPTH;
pub use quota::FileQuota;
pub use search::{MAX_HITS, MAX_LINE_CHARS, MAX_PATTERN_BYTES, MAX_SEARCHED_BYTES};
