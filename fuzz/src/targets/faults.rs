//! Targets that do what no target may: they show that the runner notices.

use super::FuzzTarget;

/// Run only when they are named. Each goes wrong at about one input in four.
pub const FAULTS: &[FuzzTarget] = &[
    FuzzTarget {
        name: "fault_panic",
        summary: "panics",
        longest_input: 8,
        run: |data| assert!(!is_chosen(data), "as asked"),
    },
    FuzzTarget {
        name: "fault_overflow",
        summary: "uses up the stack",
        longest_input: 8,
        run: |data| {
            if is_chosen(data) {
                std::hint::black_box(deeper(1));
            }
        },
    },
    FuzzTarget {
        name: "fault_memory",
        summary: "uses up the memory",
        longest_input: 8,
        run: |data| {
            let mut held = Vec::new();
            while is_chosen(data) {
                held.push(std::hint::black_box(Vec::<u8>::with_capacity(
                    64 * 1024 * 1024,
                )));
            }
        },
    },
    FuzzTarget {
        name: "fault_hang",
        summary: "never ends",
        longest_input: 8,
        run: |data| {
            while is_chosen(data) {
                std::thread::park();
            }
        },
    },
];

fn is_chosen(data: &[u8]) -> bool {
    data.first().is_some_and(|first| *first < 64)
}

#[expect(unconditional_recursion, reason = "that is what it is for")]
fn deeper(level: u64) -> u64 {
    let held = std::hint::black_box([level; 64]);
    deeper(level + 1) + held[0]
}
