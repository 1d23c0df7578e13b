//! What can be fuzzed.

mod event_json;
mod turn_machine;

pub use event_json::event_json;
pub use turn_machine::turn_machine;

/// Something that bytes are thrown at.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// What the command line calls it.
    pub name: &'static str,
    /// What it checks.
    pub summary: &'static str,
    /// How many bytes are worth trying.
    pub longest_input: usize,
    /// Panics when something that must always hold does not.
    pub run: fn(&[u8]),
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "turn_machine",
        summary: "any order of inputs keeps what must always hold of turns",
        longest_input: 400,
        run: turn_machine,
    },
    Target {
        name: "event_json",
        summary: "what decodes as an event encodes and decodes to the same event",
        longest_input: 600,
        run: event_json,
    },
];
