//! The default system prompt: its instructions and the description of the directory.

use std::process::Command;
use std::sync::{Arc, Mutex};

use serde_json::Value;
use windlass_testkit::{Answer, skipped};

use crate::support::{Home, ScriptedModel};

/// A home whose model answers, and the system prompts that it received.
fn home() -> (Home, Arc<Mutex<Vec<String>>>, ScriptedModel) {
    let prompts = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&prompts);
    let model = ScriptedModel::answering(move |request| {
        seen.lock().unwrap().push(system(request));
        Answer::text(&["done"])
    });
    (Home::with_model(&model.url()), prompts, model)
}

/// Returns the system prompt of a request.
fn system(request: &Value) -> String {
    match &request["system"] {
        Value::String(text) => text.clone(),
        blocks => {
            let blocks = blocks.as_array().unwrap().iter();
            blocks
                .map(|block| block["text"].as_str().unwrap())
                .collect()
        }
    }
}

fn run(home: &Home, arguments: &[&str]) -> String {
    let out = home.command(arguments).output().unwrap();
    assert!(out.status.success(), "{out:?}");
    String::from_utf8(out.stdout).unwrap()
}

fn git(home: &Home, arguments: &[&str]) -> bool {
    let mut git = Command::new("git");
    git.args(arguments).current_dir(home.path());
    git.output().is_ok_and(|out| out.status.success())
}

#[test]
fn conversation_keeps_the_description_with_which_it_started() {
    let (home, prompts, _model) = home();
    if !git(&home, &["init", "--initial-branch", "topic"]) {
        return skipped(
            "conversation_keeps_the_description_with_which_it_started",
            "there is no git",
        );
    }
    std::fs::write(home.path().join("first.txt"), "").unwrap();
    run(&home, &["run", "one"]);
    std::fs::write(home.path().join("second.txt"), "").unwrap();
    run(&home, &["run", "--continue", "two"]);
    run(&home, &["run", "three"]);
    let prompts = prompts.lock().unwrap();
    let directory = home.path().canonicalize().unwrap();
    for part in [
        "You are an agent that works for the user",
        &format!("- Working directory: {}\n", directory.display()),
        "- Date at the start of the conversation: ",
        "- Commands: run by /bin/",
        "the user is asked before calls that change something",
        "topic",
        "  | ?? first.txt",
    ] {
        assert!(prompts[0].contains(part), "{part}: {}", prompts[0]);
    }
    // A later process sends the same prompt, so that the provider's cache applies.
    assert_eq!(prompts[0], prompts[1]);
    assert!(!prompts[1].contains("second.txt"), "{}", prompts[1]);
    assert!(prompts[2].contains("  | ?? second.txt"), "{}", prompts[2]);
}

#[test]
fn changed_permissions_are_described_again() {
    let (home, prompts, _model) = home();
    let mut chat = home.command(&["chat"]);
    let chat = chat.stdin(std::process::Stdio::piped());
    let mut chat = chat.spawn().unwrap();
    let lines = b"one\n/mode plan\ntwo\n";
    std::io::Write::write_all(&mut chat.stdin.take().unwrap(), lines).unwrap();
    assert!(chat.wait().unwrap().success());
    let prompts = prompts.lock().unwrap();
    let cannot = "- You cannot change files here\n";
    assert!(!prompts[0].contains(cannot), "{}", prompts[0]);
    assert!(prompts[1].contains(cannot), "{}", prompts[1]);
}

#[test]
fn prompt_command_shows_what_a_new_thread_sends() {
    let (home, prompts, _model) = home();
    std::fs::write(home.path().join("AGENTS.md"), "Indent with tabs.").unwrap();
    let shown: Value = serde_json::from_str(&run(&home, &["prompt", "--json"])).unwrap();
    run(&home, &["run", "hello"]);
    assert_eq!(shown["prompt"], prompts.lock().unwrap()[0].as_str());
    assert!(
        shown["prompt"]
            .as_str()
            .unwrap()
            .contains("| Indent with tabs.")
    );
    let tokens = shown["estimated_tokens"].as_u64().unwrap();
    assert!((300..2000).contains(&tokens), "{tokens}");
    let text = run(&home, &["prompt"]);
    assert_eq!(text.trim_end(), shown["prompt"].as_str().unwrap());
}

#[test]
fn configuration_replaces_the_instructions_and_disables_the_description() {
    let (home, prompts, _model) = home();
    home.configure("[prompt]\ntext = 'You are a poet.'\nenvironment = false\n");
    let config = home.path().join("windlass.toml");
    let shown = run(&home, &["--config", config.to_str().unwrap(), "prompt"]);
    assert!(shown.contains("You are a poet."), "{shown}");
    assert!(!shown.contains("Working directory"), "{shown}");
    run(
        &home,
        &[
            "--config",
            config.to_str().unwrap(),
            "run",
            "--system",
            "Rhyme.",
            "x",
        ],
    );
    let prompts = prompts.lock().unwrap();
    assert!(prompts[0].contains("You are a poet.") && prompts[0].contains("Rhyme."));
}
