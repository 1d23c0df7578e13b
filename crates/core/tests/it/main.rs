//! The values and contracts of the core, seen from outside.

mod items;
