//! Writing: one connection, groups of jobs with one commit each, and the notification of readers.

pub(super) mod commit_thread;
pub(super) mod commit_times;
pub(super) mod committer;
pub(super) mod stream_notifier;
pub(super) mod wal;
pub(super) mod writer;
