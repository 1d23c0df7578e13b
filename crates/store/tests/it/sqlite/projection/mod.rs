//! Projections: they are what the events fold to, whatever happens to the store.

mod any_sequence;
mod batches;
mod differences;
mod forks;
mod kept;
mod lists;
mod newest;
mod play;
mod shown;
mod turn_runs;
