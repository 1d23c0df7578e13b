//! Twenty agents of a killed process stay within their shared budget.

use windlass_crash::children::run;
use windlass_crash::harness::Plan;

#[test]
fn agents_whose_process_is_killed_keep_to_the_budget_of_their_turn() {
    let plan = Plan {
        program: env!("CARGO_BIN_EXE_windlass-crash").into(),
        kills: 3,
        seed: 20_261_117,
    };
    let summary = run(&plan, |_| {}).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(summary.kills, 3);
    assert!(summary.cut_off > 0, "nothing was cut off: {summary:?}");
}
