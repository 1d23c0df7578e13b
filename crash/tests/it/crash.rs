//! A runtime that is killed again and again loses nothing, repeats nothing that must not be, and finishes.

use windlass_crash::harness::{Plan, run};

#[test]
fn two_hundred_deaths_lose_nothing() {
    let program = env!("CARGO_BIN_EXE_windlass-crash").into();
    let plan = Plan {
        program,
        kills: 200,
        seed: 20_261_115,
    };
    let summary = run(&plan, |_| {}).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(summary.kills, 200);
    assert!(
        summary.figures.ended_turns > 200,
        "the child does not get on: {summary:?}"
    );
    assert_eq!(summary.figures.open_turns, 0);
    assert!(summary.figures.forks > 0, "nothing was forked: {summary:?}");
}
