//! What `windlass run` takes besides a prompt: a schema for the answer, images and text files.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use windlass_testkit::Answer;

use crate::support::{Home, Model};

const SCHEMA: &str =
    r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;
const PIXEL: [u8; 8] = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a];

/// A home whose model gives these answers in turn, and what the model is sent.
fn home(answers: &'static [&'static str]) -> (Home, Arc<Mutex<Vec<Value>>>, Model) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let model = Model::answering(move |request| {
        let mut seen = seen.lock().unwrap();
        seen.push(request.clone());
        Answer::text(&[answers[(seen.len() - 1).min(answers.len() - 1)]])
    });
    let home = Home::with_model(&model.url());
    std::fs::write(home.path().join("schema.json"), SCHEMA).unwrap();
    (home, sent, model)
}

fn run(home: &Home, arguments: &[&str]) -> (Option<i32>, String, String) {
    let out = home
        .command(&[&["run"], arguments].concat())
        .output()
        .unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn with_a_schema_only_the_value_is_written() {
    let (home, sent, _model) = home(&["I do not know.", r#"Here: {"n": 1}"#]);
    let (code, said, told) = run(&home, &["--output-schema", "schema.json", "How many?"]);
    assert_eq!((code, said.as_str()), (Some(0), "{\"n\":1}\n"), "{told}");
    assert_eq!(sent.lock().unwrap().len(), 2);
    let (code, said, _) = run(
        &home,
        &["--json", "--output-schema", "schema.json", "How many?"],
    );
    let last: Value = serde_json::from_str(said.lines().last().unwrap()).unwrap();
    assert_eq!((code, &last["output"]["n"]), (Some(0), &Value::from(1)));
}

#[test]
fn an_answer_that_stays_wrong_is_a_failure_without_output() {
    let (home, _, _model) = home(&["no"]);
    let (code, said, told) = run(&home, &["--output-schema", "schema.json", "How many?"]);
    assert_eq!((code, said.as_str()), (Some(1), ""));
    assert!(told.contains("output_schema_mismatch"), "{told}");
}

#[test]
fn a_schema_that_cannot_be_used_is_a_wrong_command_line() {
    let (home, sent, _model) = home(&["no"]);
    for schema in ["no JSON", r#"{"$ref": "https://example.com/a.json"}"#] {
        std::fs::write(home.path().join("schema.json"), schema).unwrap();
        let (code, said, told) = run(&home, &["--output-schema", "schema.json", "How many?"]);
        assert_eq!((code, said.as_str()), (Some(2), ""), "{told}");
    }
    assert_eq!(
        run(&home, &["--output-schema", "missing.json", "x"]).0,
        Some(2)
    );
    assert!(sent.lock().unwrap().is_empty());
}

#[test]
fn images_and_files_come_with_the_prompt() {
    let (home, sent, _model) = home(&["A pixel."]);
    std::fs::write(home.path().join("a.png"), PIXEL).unwrap();
    std::fs::write(home.path().join("b.md"), "# B").unwrap();
    let (code, _, told) = run(
        &home,
        &["--image", "a.png", "--file", "b.md", "What is it?"],
    );
    assert_eq!(code, Some(0), "{told}");
    let request = sent.lock().unwrap()[0]["messages"].to_string();
    assert!(request.contains(r#""media_type":"image/png""#), "{request}");
    assert!(request.contains("<file name=\\\"b.md\\\">"), "{request}");
    let (code, _, told) = run(&home, &["--file", "a.png", "What is it?"]);
    assert_eq!(code, Some(2));
    assert!(told.contains("a.png is not UTF-8 text"), "{told}");
}

#[test]
fn a_policy_for_busy_threads_needs_a_prompt() {
    let (home, _, _model) = home(&["Done."]);
    assert_eq!(run(&home, &["Begin."]).0, Some(0));
    let (code, _, told) = run(&home, &["--continue", "--on-busy", "queue"]);
    assert_eq!(code, Some(2), "{told}");
    assert_eq!(
        run(&home, &["--continue", "--on-busy", "queue", "More."]).0,
        Some(0)
    );
}
