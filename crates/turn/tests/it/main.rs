//! The turn machine as a specification.

mod items;
