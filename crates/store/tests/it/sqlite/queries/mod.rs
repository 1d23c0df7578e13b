//! Conformance of the read model in a database, and tests specific to it.

mod behind;
mod cursors;
mod differences;
mod forks;
mod play;
mod pruned_rows;
mod retained;
mod rules;
mod runs;
mod same;
mod shown;
