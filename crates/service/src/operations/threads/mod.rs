//! Operations on threads: creating, reading, changing, forking and following them.

pub(crate) mod budget;
pub(crate) mod context;
pub(crate) mod create;
pub(crate) mod detail;
pub(crate) mod export;
pub(crate) mod follow;
pub(crate) mod fork;
pub(crate) mod journal;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod remove;
pub(crate) mod replay;
pub(crate) mod resume;
pub(crate) mod retry;
pub(crate) mod summary;
pub(crate) mod thread_record;
pub(crate) mod undo;
