//! Twenty agents of a killed process stay within their shared budget.

use windlass_crash::children::run;
use windlass_crash::harness::KillPlan;

#[test]
fn agents_of_a_killed_process_stay_within_the_budget() {
    let plan = KillPlan {
        program: env!("CARGO_BIN_EXE_windlass-crash").into(),
        kills: 3,
        seed: 20_261_117,
    };
    let summary = run(&plan, |_| {}).unwrap_or_else(|broken| panic!("{broken}"));
    assert_eq!(summary.kills, 3);
    assert!(summary.cut_off > 0, "no call was interrupted: {summary:?}");
}
