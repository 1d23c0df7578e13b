//! Random inputs against the turn machine, the parsers and what hostile people write.
//!
//! A target is a plain function over bytes that panics when something that must always hold does not. The program
//! of this package feeds it from a seeded generator, the property tests from proptest, and `fuzz/cargo-fuzz` from
//! libFuzzer; so whatever one of them finds, the others repeat.

pub mod prng;
pub mod targets;
