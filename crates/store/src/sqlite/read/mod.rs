//! Reading: a bounded set of connections and threads.

mod read_threads;
pub(super) mod readers;
