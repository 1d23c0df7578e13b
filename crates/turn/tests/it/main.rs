//! The turn machine as a specification.

mod spec;
mod world;
