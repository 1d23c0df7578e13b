//! What no panic shows is reported with the command that repeats it.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

/// Runs the fuzzer and returns the lines of its report.
fn found(arguments: &str) -> Vec<String> {
    let mut fuzzer = Command::new(env!("CARGO_BIN_EXE_windlass-fuzz"));
    let output = fuzzer.args(arguments.split(' ')).output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(1), "{stderr}");
    let begin = stderr
        .find("finding: ")
        .unwrap_or_else(|| panic!("{stderr}"));
    stderr[begin..].lines().map(str::to_owned).collect()
}

#[test]
fn panic_overflow_memory_and_hang_are_reported_and_reproducible() {
    for (target, fault, limit) in [
        ("fault_panic", "a panic", 600),
        ("fault_overflow", "ended by signal 6", 600),
        ("fault_memory", "ended by signal 6", 600),
        ("fault_hang", "a hang", 1),
    ] {
        let first = found(&format!(
            "{target} --iterations 1000 --seed 7 --input-seconds {limit}"
        ));
        let head = format!("finding: target {target}, seed 7, iteration ");
        let rest = first[0]
            .strip_prefix(&head)
            .unwrap_or_else(|| panic!("{first:?}"));
        let iteration = rest.strip_suffix(&format!(": {fault}")).unwrap();
        let again = format!("{target} --seed 7 --first {iteration} --iterations 1");
        assert_eq!(first[2], format!("repeat: cargo xtask fuzz {again}"));
        assert_eq!(found(&format!("{again} --input-seconds {limit}")), first);
    }
}

#[test]
fn run_without_a_finding_reports_it() {
    let mut fuzzer = Command::new(env!("CARGO_BIN_EXE_windlass-fuzz"));
    let output = fuzzer
        .args(["event_json", "--iterations", "20"])
        .output()
        .unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{stderr}");
    assert!(
        stderr.ends_with("event_json: 20 iterations, no finding\n"),
        "{stderr}"
    );
}
