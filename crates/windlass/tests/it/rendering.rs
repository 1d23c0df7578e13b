//! What a user sees of a turn on a terminal: rendered Markdown, folded reasoning and results, the plan, and the state of the thread.

use std::io::Write;

use serde_json::{Value, json};
use windlass_testkit::Answer;

use crate::run::{RunFixture, text};
use crate::support::{ScriptedModel, Terminal};

/// An editor's query for the cursor position, and the terminal's reply.
const WHERE: &str = "\x1b[6n";
const HERE: &[u8] = b"\x1b[1;1R";

const ANSWER: &str = "## Result\n\nIt is **done**, see `notes.txt`. &#27;[2J\x1b[2J\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n- item\n";

/// Starts a model that thinks, makes these calls one after the other, and answers.
fn thinking_model(calls: Vec<(&'static str, Value)>) -> ScriptedModel {
    ScriptedModel::answering(move |request| {
        let results = request.to_string().matches("\"tool_result\"").count();
        match calls.get(results) {
            Some((name, arguments)) => Answer::default()
                .with_thinking(&["**Looking", " around**\nfirst", "\nsecond\x1b[2J"], "sig")
                .with_call(&format!("toolu_{results}"), name, &[&arguments.to_string()]),
            None => Answer::text(&[ANSWER]),
        }
    })
}

fn calls() -> Vec<(&'static str, Value)> {
    let entries = json!([
        { "content": "Read\x1b[2J", "status": "completed" },
        { "content": "Write", "status": "in_progress" },
    ]);
    vec![
        ("update_plan", json!({ "entries": entries })),
        (
            "write",
            json!({ "path": "notes.txt", "content": "one\ntwo\n" }),
        ),
        (
            "edit",
            json!({ "path": "notes.txt", "old_string": "two", "new_string": "2" }),
        ),
    ]
}

fn variables(url: &str) -> [(&str, &str); 2] {
    [
        ("ANTHROPIC_API_KEY", "test-key"),
        ("ANTHROPIC_BASE_URL", url),
    ]
}

#[test]
fn run_shows_a_rendered_answer_on_a_terminal_only() {
    let fixture = RunFixture::new();
    let model = thinking_model(calls());
    let url = model.url();
    let mut command = fixture.command(&["run", "--yes", "go"], &variables(&url));
    let (seen, status) = Terminal::of_width(80, &mut command).rest();
    assert!(status.success(), "{seen}");
    for part in [
        "model anthropic/",
        "∴ thought  Looking around",
        "☑ Read\\u{1b}[2J",
        "◐ Write",
        "\x1b[32m+one\x1b[0m",
        "\x1b[31m-two\x1b[0m",
        "\x1b[32m+2\x1b[0m",
        "\x1b[0;1;36mResult\x1b[0m",
        "It is \x1b[0;1mdone\x1b[0m, see \x1b[0;36mnotes.txt\x1b[0m. \\u{1b}[2J\\u{1b}[2J",
        "──┼──",
        "• item",
    ] {
        assert!(seen.contains(part), "{part:?}: {seen:?}");
    }
    let piped = fixture.run(&["run", "--yes", "again"], &variables(&url));
    assert_eq!(text(&piped.stdout).trim_end(), ANSWER.trim_end());
    assert!(!text(&piped.stderr).contains("thought"), "{piped:?}");
}

#[test]
fn output_for_a_screen_reader_without_colours_has_no_escape_sequences() {
    let fixture = RunFixture::new();
    let model = thinking_model(calls());
    let url = model.url();
    let mut command = fixture.command(&["run", "--yes", "go"], &variables(&url));
    command.env("WINDLASS_SCREEN_READER", "1");
    let (seen, status) = Terminal::start(&mut command).rest();
    assert!(status.success(), "{seen}");
    assert!(!seen.contains('\x1b'), "{seen:?}");
    for part in [
        "write  notes.txt  running",
        "✓ write  notes.txt",
        "## Result",
        "**done**",
    ] {
        assert!(seen.contains(part), "{part:?}: {seen:?}");
    }
}

/// Waits for the editor of a chat and presses keys.
#[track_caller]
fn press(terminal: &mut Terminal, keys: &[u8]) -> String {
    let seen = terminal.until(&[WHERE]);
    terminal.keys.write_all(HERE).unwrap();
    terminal.keys.write_all(keys).unwrap();
    seen
}

#[test]
fn chat_shows_its_state_and_opens_results() {
    let fixture = RunFixture::new();
    let model = thinking_model(calls());
    let url = model.url();
    let mut command = fixture.command(&["chat", "--yes"], &variables(&url));
    let mut terminal = Terminal::start(&mut command);
    press(&mut terminal, b"go\r");
    let seen = terminal.until(&["in total"]);
    for part in ["#1", "write  notes.txt", "context ", "% of ", "thread "] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    press(&mut terminal, b"/show 1\r");
    let seen = terminal.until(&["second\\u{1b}[2J"]);
    assert!(seen.contains("**Looking around**"), "{seen}");
    // Ctrl-O shows the last result.
    press(&mut terminal, b"\x0f");
    terminal.until(&["+2"]);
    press(&mut terminal, b"/show 99\r");
    terminal.until(&["there is no such result"]);
    press(&mut terminal, b"/quit\r");
    let (seen, status) = terminal.rest();
    assert!(status.success(), "{seen}");

    let mut command = fixture.command(&["chat", "--continue"], &variables(&url));
    let mut terminal = Terminal::start(&mut command);
    let seen = press(&mut terminal, b"/quit\r");
    for part in ["> go", "## Result", "• item"] {
        assert!(seen.contains(part), "{part}: {seen}");
    }
    assert!(terminal.ended().success());
}

#[test]
fn messages_are_found_and_states_are_listed() {
    let fixture = RunFixture::new();
    let model = thinking_model(Vec::new());
    let url = model.url();
    let run = fixture.run(&["run", "Look for the NEEDLE"], &variables(&url));
    assert!(run.status.success(), "{run:?}");
    let found = fixture.run(&["threads", "search", "needle"], &[]);
    let found = text(&found.stdout);
    assert!(found.contains("> Look for the NEEDLE"), "{found}");
    let answer = fixture.run(&["threads", "search", "IT IS **DONE"], &[]);
    let answer = text(&answer.stdout);
    assert!(
        answer.contains("It is **done**") && !answer.contains('\x1b'),
        "{answer}"
    );
    let none = fixture.run(&["threads", "search", "haystack"], &[]);
    assert_eq!(none.status.code(), Some(1));
    assert_eq!(text(&none.stdout), "");
    let listed = fixture.run(&["threads", "list"], &[]);
    let listed = text(&listed.stdout);
    assert!(
        listed.contains("  done  ") && listed.contains('$'),
        "{listed}"
    );
}
