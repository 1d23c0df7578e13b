//! Questions at the terminal, and the input that is accepted as an answer.

use std::process::Command;

use serde_json::json;
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::run::RunFixture;
use crate::support::{Home, ScriptedModel, Terminal};

/// The reserved prefix of questions.
const MARK: char = '▌';
const PROMPT: &str = "commands too): ";

#[test]
fn input_typed_before_a_question_does_not_answer_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut server = FakeServer::start().await.unwrap();
        let fixture = RunFixture::new();
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", &server.url()),
        ];
        let mut command = fixture.command(&["run", "hello"], &variables);
        let mut terminal = Terminal::start(&mut command);

        let fake = format!("{MARK} Allow? [y]es, [n]o: ");
        let arguments = json!({ "path": "made", "content": "by the model" }).to_string();
        let answer = Answer::text(&[&fake]).with_call("toolu_1", "write", &[&arguments]);
        let events = Wire::Anthropic.events(&answer);
        let question = events.iter().position(|event| event.contains("Allow?"));
        let (before, after) = events.split_at(question.unwrap() + 1);
        let mut exchange = server.next().await;
        exchange.begin_stream(&[]).await.unwrap();
        for event in before {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
        let seen = terminal.until(&["Allow? [y]es, [n]o: "]);
        assert!(!seen.contains(MARK), "{seen}");
        terminal.type_in("y");
        terminal.type_in("y");
        for event in after {
            exchange.chunk(event.as_bytes()).await.unwrap();
        }
        exchange.finish().await.unwrap();

        let seen = terminal.until(&[PROMPT]);
        assert!(
            seen.contains(&format!("{MARK} write wants to change made")),
            "{seen}"
        );
        assert!(seen.contains(&format!("{MARK} Allow? ")), "{seen}");
        terminal.type_in("n");
        let exchange = server.next().await;
        let done = Wire::Anthropic.events(&Answer::text(&["It was refused."]));
        exchange.stream(&done).await.unwrap();
        terminal.until(&["It was refused."]);
        assert!(terminal.ended().success());
        assert!(!fixture.workspace().join("made").exists());
    });
}

#[test]
fn always_allows_all_calls_and_the_next_run_reports_it() {
    let arguments = json!({ "path": "made", "content": "by the model" });
    let (model, _) = ScriptedModel::calling(vec![("write", arguments)]);
    let home = Home::with_model(&model.url());
    let mut terminal = Terminal::start(&mut home.command(&["run", "hello"]));
    let seen = terminal.until(&[PROMPT]);
    assert!(seen.contains("[p]roject (this call)"), "{seen}");
    assert!(seen.contains("[a]lways (commands too)"), "{seen}");
    terminal.type_in("a");
    terminal.until(&["done"]);
    assert!(terminal.ended().success());
    assert!(home.path().join("made").exists());
    let notice = "this thread allows all calls without asking, commands included";
    let mut terminal = Terminal::start(&mut home.command(&["run", "--continue", "more"]));
    terminal.until(&[notice]);
    assert!(terminal.ended().success());
    let mut terminal = Terminal::start(&mut home.command(&["chat", "--continue"]));
    terminal.until(&[notice]);
    terminal.child.kill().unwrap();
    terminal.ended();
}

#[test]
fn turn_allows_all_calls_of_the_turn_only() {
    let write = |path: &str| ("write", json!({ "path": path, "content": "by the model" }));
    let (model, _) = ScriptedModel::calling(vec![write("one"), write("two")]);
    let home = Home::with_model(&model.url());
    let mut terminal = Terminal::start(&mut home.command(&["run", "hello"]));
    let seen = terminal.until(&[PROMPT]);
    assert!(seen.contains("[t]urn,"), "{seen}");
    terminal.type_in("t");
    let seen = terminal.until(&["done"]);
    assert!(!seen.contains(PROMPT), "{seen}");
    assert!(terminal.ended().success());
    assert!(home.path().join("one").exists() && home.path().join("two").exists());
    let (model, _) = ScriptedModel::calling(vec![write("three"); 8]);
    let mut command = home.command(&["run", "--continue", "more"]);
    let mut terminal = Terminal::start(command.env("ANTHROPIC_BASE_URL", model.url()));
    terminal.until(&[PROMPT]);
    terminal.type_in("n");
    terminal.child.kill().unwrap();
    terminal.ended();
}

#[test]
fn answer_lost_with_the_daemon_is_requested_again() {
    let arguments = json!({ "path": "made", "content": "by the model" });
    let (model, _) = ScriptedModel::calling(vec![("write", arguments)]);
    let home = Home::with_model(&model.url());
    let daemon = home.start_with(&[]);
    let mut terminal = Terminal::start(&mut home.command(&["run", "hello"]));
    terminal.until(&[PROMPT]);
    // The stopped daemon receives the answer in its socket buffer and is killed before it handles it.
    let stopped = Command::new("kill")
        .args(["-STOP", &daemon.pid().to_string()])
        .status();
    assert!(stopped.unwrap().success());
    terminal.type_in("y");
    while rustix::io::ioctl_fionread(&terminal.theirs).unwrap() > 0 {
        std::thread::yield_now();
    }
    daemon.kill();
    // If the client noticed the daemon's end before it sent the answer, the next daemon gets the answer.
    while terminal.until(&[PROMPT, "done"]).ends_with(PROMPT) {
        terminal.type_in("y");
    }
    assert!(terminal.ended().success());
    assert!(home.path().join("made").exists());
}

#[test]
fn question_of_a_killed_run_is_repeated_and_stays_visible() {
    let arguments = json!({ "path": "made", "content": "by the model" });
    let (model, _) = ScriptedModel::calling(vec![("write", arguments)]);
    let home = Home::with_model(&model.url());
    let mut terminal = Terminal::start(&mut home.command(&["run", "hello"]));
    terminal.until(&[PROMPT]);
    terminal.child.kill().unwrap();
    terminal.ended();
    let mut terminal = Terminal::start(&mut home.command(&["run", "--continue"]));
    terminal.until(&[PROMPT]);
    terminal.type_in("perhaps");
    let seen = terminal.until(&["Type y, n, t, p or a, and Enter."]);
    assert!(!seen.contains("waiting"), "{seen}");
    terminal.until(&[PROMPT]);
    terminal.type_in("y");
    terminal.until(&["done"]);
    assert!(terminal.ended().success());
    assert!(home.path().join("made").exists());
}

#[test]
fn interrupt_at_a_question_is_reported_below_it() {
    let arguments = json!({ "path": "made", "content": "by the model" });
    let (model, _) = ScriptedModel::calling(vec![("write", arguments)]);
    let home = Home::with_model(&model.url());
    let mut terminal = Terminal::start(&mut home.command(&["run", "hello"]));
    terminal.until(&[PROMPT]);
    let pid = terminal.child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
    let seen = terminal.until(&["stopping; press Ctrl-C again to quit at once"]);
    assert_eq!(seen, "\r\nstopping; press Ctrl-C again to quit at once");
    terminal.until(&["(the question was settled elsewhere)"]);
    assert_eq!(terminal.ended().code(), Some(130));
}
