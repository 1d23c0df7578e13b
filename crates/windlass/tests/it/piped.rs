//! Standard input and output as a shell connects them: piped input, and a reader that disappears.

use std::io::{Read, Write};
use std::process::{Output, Stdio};

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::support::{Home, ScriptedModel};

/// Runs a command in the home's workspace with this standard input.
fn run_with_input(home: &Home, arguments: &[&str], input: &[u8]) -> Output {
    let mut child = home
        .command(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let input = input.to_owned();
    // A command that rejects its input closes the pipe early.
    let writer = std::thread::spawn(move || drop(stdin.write_all(&input)));
    let out = child.wait_with_output().unwrap();
    writer.join().unwrap();
    out
}

fn stdout(out: &Output) -> String {
    assert!(out.status.success(), "{}", stderr(out));
    String::from_utf8(out.stdout.clone()).unwrap()
}

fn stderr(out: &Output) -> String {
    String::from_utf8(out.stderr.clone()).unwrap()
}

#[test]
fn piped_input_is_appended_to_the_prompt() {
    // The model of this home echoes its prompt.
    let home = Home::new();
    let out = run_with_input(&home, &["run", "explain this"], b"my log\nline two\n");
    assert!(
        stdout(&out).contains("explain this\n\nmy log\nline two"),
        "{}",
        stdout(&out)
    );
    let out = run_with_input(&home, &["run", "-"], b"only the input\n");
    assert!(stdout(&out).contains("only the input"), "{}", stdout(&out));
    let out = run_with_input(&home, &["run", "explain this"], b"");
    assert!(stdout(&out).ends_with("explain this\n"), "{}", stdout(&out));
    let out = run_with_input(&home, &["run"], b"input without a prompt\n");
    assert!(stdout(&out).contains("input without a prompt"));
    // A closed standard input counts as no input.
    let mut shell = std::process::Command::new("/bin/sh");
    let windlass = home.command(&[]);
    let line = format!("exec {:?} run 'explain this' <&-", windlass.get_program());
    shell
        .args(["-c", &line])
        .current_dir(home.path())
        .env_clear();
    shell.envs(
        windlass
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    let out = shell.output().unwrap();
    assert!(stdout(&out).contains("explain this"));
}

#[test]
fn piped_input_that_is_too_large_or_not_text_is_refused() {
    let home = Home::new();
    let out = run_with_input(&home, &["run", "explain this"], &vec![b'x'; (1 << 20) + 1]);
    assert_eq!(out.status.code(), Some(2));
    assert!(
        stderr(&out).contains("larger than 1 MiB"),
        "{}",
        stderr(&out)
    );
    let out = run_with_input(&home, &["run", "explain this"], b"\xff\xfe");
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("not UTF-8"), "{}", stderr(&out));
    assert!(!home.data().exists(), "nothing was recorded");
}

#[test]
fn turn_is_interrupted_when_its_reader_disappears() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut child = home
        .command(&["run", "say something long"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "first");
    let mut reader = child.stdout.take().unwrap();
    reader.read_exact(&mut [0]).unwrap();
    drop(reader);
    model.say_more(&mut exchange, "third");
    let out = child.wait_with_output().unwrap();
    assert_eq!(out.status.code(), Some(130), "{}", stderr(&out));
    let listed = home.command(&["threads", "list", "--json"]).output();
    let listed: Value = serde_json::from_slice(&listed.unwrap().stdout).unwrap();
    let id = listed["id"].as_str().unwrap();
    let shown = home.command(&["threads", "show", "--json", id]).output();
    let shown: Value = serde_json::from_slice(&shown.unwrap().stdout).unwrap();
    assert_eq!(shown["turns"][0]["status"], "interrupted", "{shown}");
}

#[test]
fn tasks_can_be_added_during_a_run() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut command = home.command(&["run", "work"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let exchange = model.next_request();
    let out = home.command(&["tasks", "add", "later"]).output().unwrap();
    let id = stdout(&out);
    assert!(
        stderr(&out).contains("when `windlass serve` runs"),
        "{}",
        stderr(&out)
    );
    let out = home.command(&["tasks", "list"]).output().unwrap();
    assert!(stdout(&out).contains("queued"), "{}", stdout(&out));
    model.say(exchange, &Answer::text(&["done"]));
    let out = child.wait_with_output().unwrap();
    assert_eq!(stdout(&out), "done\n");
    let out = home
        .command(&["tasks", "show", "--json", id.trim()])
        .output();
    let task: Value = serde_json::from_slice(&out.unwrap().stdout).unwrap();
    assert_eq!(task["status"], "queued");
}

#[test]
fn last_json_line_is_the_result_with_the_answer() {
    let (model, _) = ScriptedModel::calling(vec![("list", json!({}))]);
    let home = Home::with_model(&model.url());
    let out = home.command(&["run", "--json", "what is here?"]).output();
    let out = stdout(&out.unwrap());
    let lines: Vec<Value> = out
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let [.., completed, result] = &lines[..] else {
        panic!("{out}");
    };
    assert_eq!(completed["event"], "turn.completed");
    assert_eq!(result["event"], "result");
    assert_eq!(result["answer"], "done", "{result}");
    assert_eq!(result["status"], "completed");
    assert_eq!(result["thread_id"], completed["thread_id"]);
    assert!(result["usage"]["input_tokens"].as_u64().unwrap() > 0);
}

#[test]
fn provider_error_has_one_prefix() {
    let mut model = ScriptedModel::start();
    let home = Home::with_model(&model.url());
    let mut command = home.command(&["run", "--json", "work"]);
    let child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    model.refuse(401, "the key is wrong");
    let out = child.wait_with_output().unwrap();
    let message = stderr(&out);
    assert!(message.contains("error (auth): anthropic/"), "{message}");
    assert!(!message.contains("LLM error"), "{message}");
    let last = String::from_utf8(out.stdout).unwrap();
    let result: Value = serde_json::from_str(last.lines().last().unwrap()).unwrap();
    assert_eq!(result["status"], "failed", "{result}");
    assert_eq!(result["error_code"], "auth", "{result}");
}
