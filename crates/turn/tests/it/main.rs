//! The turn machine as a specification.

mod items;
mod spec;
mod world;
