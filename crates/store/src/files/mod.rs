//! Files of sessions: in memory, in a directory of the host, and with guards around either.

mod approval;
mod blocklist;
pub(crate) mod content;
mod memory;
pub(crate) mod path;
pub(crate) mod quota;
#[cfg(feature = "real-disk")]
mod real_disk;
pub(crate) mod rules;
pub(crate) mod search;
pub(crate) mod view;
pub(crate) mod writer;

pub use approval::{ApprovalGatingFileStore, FileApprovalGate};
pub use blocklist::{DEFAULT_WRITE_BLOCKLIST, WriteBlocklistFileStore};
pub use memory::{InMemorySessionFileStore, InMemorySessionFileSystemFactory};
pub use path::MAX_DEPTH;
pub use quota::FileQuota;
#[cfg(feature = "real-disk")]
pub use real_disk::{MAX_READ_BYTES, RealDiskFileStore, RealDiskSessionFileSystemFactory};
pub use search::{MAX_HITS, MAX_LINE_CHARS, MAX_PATTERN_BYTES, MAX_SEARCHED_BYTES};
