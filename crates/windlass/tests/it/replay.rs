//! `windlass replay`.

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Home, Model, text};

fn said(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = home.command(arguments).output().unwrap();
    let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        shown(&output.stdout),
        shown(&output.stderr),
    )
}

fn threads(home: &Home) -> Vec<Value> {
    let (_, listed, _) = said(home, &["threads", "list", "--json"]);
    let lines = listed.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().unwrap()
}

#[test]
fn a_thread_is_decided_again_and_another_model_is_asked() {
    let model = Model::answering(|request| {
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
    assert_eq!(said(&home, &["run", "--yes", "first"]).0, Some(0));
    assert_eq!(
        said(&home, &["run", "--yes", "--continue", "second"]).0,
        Some(0)
    );
    let listed = threads(&home);
    let id = text(&listed[0]["id"]);
    let (code, told, _) = said(&home, &["replay", &id]);
    assert_eq!(code, Some(0), "{told}");
    assert!(
        told.contains("of 2 turns are reproduced as recorded"),
        "{told}"
    );
    let (_, report, _) = said(&home, &["replay", "--json", &id]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(
        (&report["turns"], &report["reconfigured"]),
        (&json!(2), &json!([]))
    );

    let what_if = ["replay", &id, "--what-if", "anthropic/other"];
    let (code, told, beside) = said(&home, &what_if);
    assert_eq!(code, Some(0), "{beside}");
    assert!(told.contains("I am other"), "{told}");
    assert!(
        beside.contains("recorded ") && beside.contains("what if "),
        "{beside}"
    );
    assert!(
        beside.contains("write is denied"),
        "nobody is here: {beside}"
    );
    assert!(!home.path().join("a.txt").exists());
    let listed = threads(&home);
    assert_eq!(listed.len(), 2, "the first one stays as it was");
    let (_, shown, _) = said(&home, &["threads", "show", &id]);
    assert!(
        shown.contains("> second") && !shown.contains("I am other"),
        "{shown}"
    );

    let (code, _, told) = said(&home, &["replay", &id, "--what-if", "other", "--back", "9"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("does not have that many turns"), "{told}");
    let (code, _, _) = said(&home, &["replay", &id, "--back", "2"]);
    assert_eq!(code, Some(2));
}
