//! A runtime that is killed repeatedly loses no data, repeats no at-most-once effect, and finishes its turns.

use windlass_crash::harness::{KillPlan, run};

#[test]
fn sixty_kills_lose_no_data() {
    let program = env!("CARGO_BIN_EXE_windlass-crash").into();
    let plan = KillPlan {
        program,
        kills: 60,
        seed: 20_261_115,
    };
    let summary = run(&plan, |_| {}).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(summary.kills, 60);
    assert!(
        summary.figures.ended_turns > 60,
        "the child makes no progress: {summary:?}"
    );
    assert_eq!(summary.figures.open_turns, 0);
    assert!(summary.figures.forks > 0, "nothing was forked: {summary:?}");
}
