//! `windlass replay`.

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Home, ScriptedModel, text};

fn run(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = home.command(arguments).output().unwrap();
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        shown(&output.stdout),
        shown(&output.stderr),
    )
}

fn threads(home: &Home) -> Vec<Value> {
    let (_, listed, _) = run(home, &["threads", "list", "--json"]);
    let lines = listed.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn replay_decides_a_thread_again_and_asks_another_model() {
    let model = ScriptedModel::answering(|request| {
        let writes =
            request["model"] == "other" && request["messages"].as_array().unwrap().len() == 3;
        if writes {
            Answer::default().with_call(
                "toolu_1",
                "write",
                &[&json!({"path": "a.txt", "content": "x"}).to_string()],
            )
        } else {
            Answer::text(&["I am ", request["model"].as_str().unwrap()])
        }
    });
    let home = Home::with_model(&model.url());
    assert_eq!(run(&home, &["run", "--yes", "first"]).0, Some(0));
    assert_eq!(
        run(&home, &["run", "--yes", "--continue", "second"]).0,
        Some(0)
    );
    let listed = threads(&home);
    let id = text(&listed[0]["id"]);
    let (code, stdout, _) = run(&home, &["replay", &id]);
    assert_eq!(code, Some(0), "{stdout}");
    assert!(
        stdout.contains("of 2 turns are reproduced as recorded"),
        "{stdout}"
    );
    let (_, report, _) = run(&home, &["replay", "--json", &id]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (&report["turns"], &report["reconfigured"]),
        (&json!(2), &json!([]))
    );

    let what_if = ["replay", &id, "--what-if", "anthropic/other"];
    let (code, stdout, stderr) = run(&home, &what_if);
    assert_eq!(code, Some(0), "{stderr}");
    assert!(stdout.contains("I am other"), "{stdout}");
    assert!(
        stderr.contains("recorded ") && stderr.contains("what if "),
        "{stderr}"
    );
    assert!(stderr.contains("write is denied"), "{stderr}");
    assert!(!home.path().join("a.txt").exists());
    let listed = threads(&home);
    assert_eq!(listed.len(), 2, "the first one stays as it was");
    let (_, shown, _) = run(&home, &["threads", "show", &id]);
    assert!(
        shown.contains("> second") && !shown.contains("I am other"),
        "{shown}"
    );

    let (code, _, stderr) = run(&home, &["replay", &id, "--what-if", "other", "--back", "9"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert!(stderr.contains("does not have that many turns"), "{stderr}");
    let (code, _, _) = run(&home, &["replay", &id, "--back", "2"]);
    assert_eq!(code, Some(2));
}
