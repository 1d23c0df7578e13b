use serde_json::json;

use super::*;

fn record(value: &Value) -> RunRecord {
    serde_json::from_value(value.clone()).unwrap()
}

#[test]
fn records_are_read_and_written_in_the_known_form() {
    let at = "2026-11-15T18:15:47.189015Z";
    let outcome = json!({"status": "success", "summary": "", "evidence": [], "timestamp": at, "metrics": {"turns": 0,
        "tool_calls": 0, "duration_ms": 0.0, "retries": 0, "actions_succeeded": 0, "actions_failed": 0}});
    for value in [
        json!({"record": "started", "run_id": "r", "agent_id": "a", "intent": "i", "started_at": at}),
        json!({"record": "turn", "index": 0, "prompt": "p", "tool": "drive_cli", "parameters": {"cli": "claude"},
            "output": {"exit_code": 0}, "cli_outcome": {"kind": "exited", "code": 0}, "verifier_verdict": "not_run"}),
        json!({"record": "ended", "run_id": "r", "agent_id": "a", "ended_at": at,
            "termination": {"kind": "outcome", "status": "success", "outcome": outcome}}),
        json!({"record": "ended", "run_id": "r", "agent_id": "a", "ended_at": at, "termination": {"kind": "incomplete"}}),
    ] {
        assert_eq!(serde_json::to_value(record(&value)).unwrap(), value);
    }
}

#[test]
fn an_outcome_needs_only_its_status() {
    let outcome: RunOutcome = serde_json::from_value(
        json!({"status": "give_up", "tools_called": ["x"], "metrics": {"turns": 3}}),
    )
    .unwrap();
    assert_eq!((outcome.metrics.turns, outcome.metrics.retries), (3, 0));
    let unknown = serde_json::from_value::<RunOutcome>(json!({"status": "great"})).unwrap_err();
    let unknown = unknown.to_string();
    assert!(
        unknown
            .starts_with("unknown variant `great`, expected one of `success`, `partial_success`"),
        "{unknown}"
    );
}

#[test]
fn the_ends_of_commands_and_checks_are_read_from_their_output() {
    let derived = |tool: &str, output: Value| {
        let mut turn = RunTurn {
            tool: Some(tool.to_owned()),
            output: Some(output),
            ..RunTurn::default()
        };
        turn.derive_outcomes();
        (turn.cli_outcome, turn.verifier_verdict)
    };
    let cases = [
        (
            "drive_cli",
            json!({"timed_out": true, "exit_code": 1}),
            Some(CliOutcome::Timeout),
            Verdict::NotRun,
        ),
        (
            "drive_cli",
            json!({"exit_code": 3, "signal": 9}),
            Some(CliOutcome::Exited { code: 3 }),
            Verdict::NotRun,
        ),
        (
            "drive_cli",
            json!({"exit_code": null, "signal": 9}),
            Some(CliOutcome::Killed),
            Verdict::NotRun,
        ),
        ("drive_cli", json!({"signal": null}), None, Verdict::NotRun),
        (
            "check_outcome",
            json!({"passed": true}),
            None,
            Verdict::Pass,
        ),
        (
            "check_outcome",
            json!({"passed": false}),
            None,
            Verdict::Fail,
        ),
        ("check_outcome", json!("?"), None, Verdict::NotRun),
        (
            "bash",
            json!({"exit_code": 0, "passed": true}),
            None,
            Verdict::NotRun,
        ),
    ];
    for (tool, output, cli, verdict) in cases {
        assert_eq!(
            derived(tool, output.clone()),
            (cli, verdict),
            "{tool}: {output}"
        );
    }
}

#[test]
fn a_number_from_outside_is_not_taken_as_the_index() {
    for index in [json!("seven"), json!(-1), json!(null)] {
        let turn: RunTurn = serde_json::from_value(json!({"index": index, "tool": "t"})).unwrap();
        assert_eq!(turn.index, 0);
    }
}
