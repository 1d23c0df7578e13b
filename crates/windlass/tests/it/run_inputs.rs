//! Inputs of `windlass run` besides a prompt: a schema for the answer, images and text files.

use std::sync::{Arc, Mutex};

use serde_json::Value;
use windlass_testkit::Answer;

use crate::support::{Home, ScriptedModel};

const SCHEMA: &str =
    r#"{"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}"#;
const PIXEL: [u8; 8] = [0x89, b'P', b'N', b'G', 0x0d, 0x0a, 0x1a, 0x0a];

/// A home whose model gives these answers in order, and the requests to the model.
fn home(answers: &'static [&'static str]) -> (Home, Arc<Mutex<Vec<Value>>>, ScriptedModel) {
    let sent = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&sent);
    let model = ScriptedModel::answering(move |request| {
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
fn output_schema_prints_only_the_value() {
    let (home, sent, _model) = home(&["I do not know.", r#"Here: {"n": 1}"#]);
    let (code, stdout, stderr) = run(&home, &["--output-schema", "schema.json", "How many?"]);
    assert_eq!(
        (code, stdout.as_str()),
        (Some(0), "{\"n\":1}\n"),
        "{stderr}"
    );
    assert_eq!(sent.lock().unwrap().len(), 2);
    let (code, stdout, _) = run(
        &home,
        &["--json", "--output-schema", "schema.json", "How many?"],
    );
    let last: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
    assert_eq!((code, &last["output"]["n"]), (Some(0), &Value::from(1)));
}

#[test]
fn answer_that_never_matches_the_schema_fails_without_output() {
    let (home, _, _model) = home(&["no"]);
    let (code, stdout, stderr) = run(&home, &["--output-schema", "schema.json", "How many?"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("output_schema_mismatch"), "{stderr}");
}

#[test]
fn unusable_schema_exits_with_2() {
    let (home, sent, _model) = home(&["no"]);
    for schema in ["no JSON", r#"{"$ref": "https://example.com/a.json"}"#] {
        std::fs::write(home.path().join("schema.json"), schema).unwrap();
        let (code, stdout, stderr) = run(&home, &["--output-schema", "schema.json", "How many?"]);
        assert_eq!((code, stdout.as_str()), (Some(2), ""), "{stderr}");
    }
    assert_eq!(
        run(&home, &["--output-schema", "missing.json", "x"]).0,
        Some(2)
    );
    assert!(sent.lock().unwrap().is_empty());
}

#[test]
fn print_writes_only_the_answer_or_one_result() {
    let write = serde_json::json!({ "path": "made.txt", "content": "x" });
    let (model, _) = ScriptedModel::calling(vec![("write", write)]);
    let home = Home::with_model(&model.url());
    let (code, stdout, stderr) = run(&home, &["-p", "--yes", "hello"]);
    assert_eq!(
        (code, stdout.as_str(), stderr.as_str()),
        (Some(0), "done\n", "")
    );
    let (code, stdout, stderr) = run(&home, &["-p", "--json", "--continue", "--yes", "more"]);
    assert_eq!((code, stderr.as_str()), (Some(0), ""), "{stdout}");
    let result: Value = serde_json::from_str(&stdout).unwrap();
    assert_eq!(result["event"], "result");
    assert_eq!(result["status"], "completed");
    assert_eq!(result["answer"], "done");
    assert!(result["usage"]["input_tokens"].is_u64(), "{result}");
    assert!(result["thread_id"].as_str().unwrap().starts_with("thr_"));
    let (home, _, _model) = self::home(&["no"]);
    let schema = ["-p", "--output-schema", "schema.json", "How many?"];
    let (code, stdout, stderr) = run(&home, &schema);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert!(stderr.contains("output_schema_mismatch"), "{stderr}");
}

#[test]
fn result_names_the_changed_files() {
    let write = serde_json::json!({ "path": "made.txt", "content": "x" });
    let (model, _) = ScriptedModel::calling(vec![("write", write)]);
    let home = Home::with_model(&model.url());
    for (flags, lines) in [(&["-p", "--json"][..], 1), (&["--json"], 10)] {
        let _ = std::fs::remove_file(home.path().join("made.txt"));
        let (code, stdout, stderr) = run(&home, &[flags, &["--yes", "hello"]].concat());
        assert_eq!(code, Some(0), "{stderr}");
        assert!(stdout.lines().count() >= lines, "{stdout}");
        let result: Value = serde_json::from_str(stdout.lines().last().unwrap()).unwrap();
        assert_eq!(result["files"], serde_json::json!(["made.txt"]), "{result}");
    }
}

#[test]
fn images_and_files_are_sent_with_the_prompt() {
    let (home, sent, _model) = home(&["A pixel."]);
    std::fs::write(home.path().join("a.png"), PIXEL).unwrap();
    std::fs::write(home.path().join("b.md"), "# B").unwrap();
    let (code, _, stderr) = run(
        &home,
        &["--image", "a.png", "--file", "b.md", "What is it?"],
    );
    assert_eq!(code, Some(0), "{stderr}");
    let request = sent.lock().unwrap()[0]["messages"].to_string();
    assert!(request.contains(r#""media_type":"image/png""#), "{request}");
    assert!(request.contains("<file name=\\\"b.md\\\">"), "{request}");
    let (code, _, stderr) = run(&home, &["--file", "a.png", "What is it?"]);
    assert_eq!(code, Some(2));
    assert!(stderr.contains("a.png is not UTF-8 text"), "{stderr}");
}

#[test]
fn on_busy_needs_a_prompt() {
    let (home, _, _model) = home(&["Done."]);
    assert_eq!(run(&home, &["Begin."]).0, Some(0));
    let (code, _, stderr) = run(&home, &["--continue", "--on-busy", "queue"]);
    assert_eq!(code, Some(2), "{stderr}");
    assert_eq!(
        run(&home, &["--continue", "--on-busy", "queue", "More."]).0,
        Some(0)
    );
}
