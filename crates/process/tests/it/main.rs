//! Programs that are started, fed, confined and ended, in every world that this machine has.

mod alone;
mod confined;
mod errors;
mod host;
mod ladder;
mod pipes;
mod records;
mod support;
mod trees;
