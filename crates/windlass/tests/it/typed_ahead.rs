//! Input that the user types during a turn does not appear in the answer, is not taken as an approval, and is not lost.

use std::fs::File;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

use rustix::termios::{LocalModes, tcgetattr};
use serde_json::json;
use tokio::runtime::Runtime;
use windlass_testkit::{Answer, Exchange, FakeServer, Wire};

use crate::run::RunFixture;
use crate::support::{Sandbox, ScriptedModel, Terminal, open_terminal};

const PROMPT: &str = "commands too): ";
/// An editor's query for the cursor position, and the terminal's reply.
const WHERE: &str = "\x1b[6n";
const HERE: &[u8] = b"\x1b[1;1R";

/// A program on a terminal, and its model.
struct Scene {
    runtime: Runtime,
    server: FakeServer,
    fixture: RunFixture,
    terminal: Terminal,
}

impl Scene {
    fn start(arguments: &[&str]) -> Self {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(FakeServer::start()).unwrap();
        let fixture = RunFixture::new();
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", &server.url()),
        ];
        let terminal = Terminal::start(&mut fixture.command(arguments, &variables));
        Self {
            runtime,
            server,
            fixture,
            terminal,
        }
    }

    /// Starts the model's answer, and waits until its beginning is shown. Returns the rest of the answer.
    fn begin_answer(&mut self, answer: &Answer, seen: &str) -> (Exchange, Vec<String>) {
        let mut events = Wire::Anthropic.events(answer);
        let position = events.iter().position(|event| event.contains(seen));
        let rest = events.split_off(position.unwrap() + 1);
        let exchange = self.runtime.block_on(async {
            let mut exchange = self.server.next().await;
            exchange.begin_stream(&[]).await.unwrap();
            for event in &events {
                exchange.chunk(event.as_bytes()).await.unwrap();
            }
            exchange
        });
        self.terminal.until(&[seen]);
        (exchange, rest)
    }

    fn finish(&self, (mut exchange, rest): (Exchange, Vec<String>)) {
        self.runtime.block_on(async {
            for event in &rest {
                exchange.chunk(event.as_bytes()).await.unwrap();
            }
            exchange.finish().await.unwrap();
        });
    }

    /// Answers the next request, and returns the request.
    fn answer(&mut self, text: &str) -> String {
        self.runtime.block_on(async {
            let exchange = self.server.next().await;
            let request = exchange.request.json().to_string();
            let events = Wire::Anthropic.events(&Answer::text(&[text]));
            exchange.stream(&events).await.unwrap();
            request
        })
    }

    fn has_echo(&self) -> bool {
        let modes = tcgetattr(&self.terminal.theirs).unwrap();
        modes.local_modes.contains(LocalModes::ECHO)
    }

    /// Waits until the terminal has typed input, and for any echo of it.
    fn typed(&self) {
        while rustix::io::ioctl_fionread(&self.terminal.theirs).unwrap() == 0 {
            std::thread::yield_now();
        }
    }

    fn kill(&self, signal: &str) {
        let pid = self.terminal.child.id().to_string();
        let sent = Command::new("kill").args([signal, &pid]).status();
        assert!(sent.unwrap().success());
    }
}

#[test]
fn input_typed_during_a_turn_is_hidden_and_left_to_the_shell() {
    let mut scene = Scene::start(&["run", "hello"]);
    let pending = scene.begin_answer(&Answer::text(&["One sentence, ", "and its end.\n"]), "One");
    assert!(!scene.has_echo());
    scene.terminal.type_in("make all");
    scene.typed();
    scene.finish(pending);
    let theirs = scene.terminal.theirs.try_clone().unwrap();
    let seen = scene.terminal.until(&["and its end."]);
    assert!(!seen.contains("make"), "{seen}");
    let status = scene.terminal.child.wait().unwrap();
    assert!(status.success());
    assert!(scene.has_echo());
    let mut line = [0; 64];
    let count = rustix::io::read(&theirs, &mut line).unwrap();
    assert_eq!(&line[..count], b"make all\n");
}

#[test]
fn echo_is_restored_however_the_command_ends() {
    for (signals, code) in [
        (&["-INT", "-INT"][..], 130),
        (&["-TERM"], 128 + 15),
        (&["-QUIT"], 128 + 3),
    ] {
        let mut scene = Scene::start(&["run", "hello"]);
        let _open = scene.begin_answer(&Answer::text(&["One, ", "two"]), "One");
        assert!(!scene.has_echo());
        scene.kill(signals[0]);
        if signals.len() > 1 {
            scene
                .terminal
                .until(&["press Ctrl-C again to quit at once"]);
            scene.kill(signals[1]);
        }
        let status = scene.terminal.child.wait().unwrap();
        // If the turn ended before the second signal, the first one stopped it.
        assert_eq!(status.code(), Some(code), "{signals:?}");
        assert!(scene.has_echo(), "{signals:?}");
    }
}

#[test]
fn running_command_is_shown_also_after_an_unterminated_line() {
    if Sandbox::all("running_command_is_shown_also_after_an_unterminated_line").is_empty() {
        return;
    }
    let mut scene = Scene::start(&["run", "--yes", "hello"]);
    let command = "until [ -e enough ]; do sleep 0.05; done";
    let arguments = json!({ "command": command }).to_string();
    let answer = Answer::text(&["Long command."]).with_call("toolu_1", "shell", &[&arguments]);
    let pending = scene.begin_answer(&answer, "Long");
    scene.finish(pending);
    scene.terminal.until(&["command."]);
    let seen = scene.terminal.until(&["shell  until"]);
    assert!(seen.starts_with("\r\n"), "{seen:?}");
    std::fs::write(scene.fixture.workspace().join("enough"), "").unwrap();
    scene.answer("It is over.");
    scene.terminal.until(&["It is over."]);
    assert!(scene.terminal.ended().success());
}

#[test]
fn only_visible_input_answers_a_question() {
    let mut scene = Scene::start(&["run", "hello"]);
    let arguments = json!({ "path": "made", "content": "by the model" }).to_string();
    let answer = Answer::text(&["I will. "]).with_call("toolu_1", "write", &[&arguments]);
    let pending = scene.begin_answer(&answer, "I will.");
    scene.terminal.type_in("y");
    scene.typed();
    scene.finish(pending);
    scene.terminal.until(&[PROMPT]);
    assert!(scene.has_echo());
    scene.terminal.type_in("nonsense");
    // The input is shown, and is not taken as an answer.
    scene.terminal.until(&["nonsense"]);
    scene.terminal.until(&[PROMPT]);
    scene.terminal.type_in("n");
    let pending = scene.begin_answer(&Answer::text(&["Refused, ", "as you wish."]), "Refused");
    assert!(!scene.has_echo());
    scene.finish(pending);
    let made = scene.fixture.workspace().join("made");
    let (_, status) = scene.terminal.rest();
    assert!(status.success());
    assert!(!made.exists());
}

#[test]
fn lines_typed_in_a_chat_are_queued_and_the_rest_is_the_next_input() {
    let mut scene = Scene::start(&["chat"]);
    scene.terminal.until(&[WHERE]);
    scene.terminal.keys.write_all(HERE).unwrap();
    scene.terminal.keys.write_all(b"first\r").unwrap();
    let pending = scene.begin_answer(&Answer::text(&["One, ", "two"]), "One");
    assert!(!scene.has_echo());
    let typed = b"second\rthird\r/cost\rread @/etc/passwd\rfou";
    scene.terminal.keys.write_all(typed).unwrap();
    scene.terminal.until(&["queued: second"]);
    scene.terminal.until(&["queued: third"]);
    scene.terminal.until(&["not queued: commands wait"]);
    scene
        .terminal
        .until(&["not queued: /etc/passwd is outside of"]);
    scene.finish(pending);
    for (prompt, answer) in [("second", "Three."), ("third", "Four.")] {
        scene.terminal.until(&[&format!("> {prompt}")]);
        scene.answer(answer);
        scene.terminal.until(&[answer]);
    }
    // Nothing is lost: the refused lines and the unfinished one are in the editor.
    scene.terminal.until(&[WHERE]);
    scene.terminal.keys.write_all(HERE).unwrap();
    scene.terminal.until(&["/cost"]);
    scene.terminal.until(&["fou"]);
    scene.terminal.keys.write_all(&[0x7f; 200]).unwrap();
    scene.terminal.keys.write_all(b"fifth\r").unwrap();
    let output = scene.answer("Five.");
    scene.terminal.until(&["Five."]);
    for prompt in ["second", "third", "fifth"] {
        assert!(output.contains(&format!("\"{prompt}\"")), "{output}");
    }
    scene.terminal.child.kill().unwrap();
    scene.terminal.child.wait().unwrap();
}

#[test]
fn escape_stops_a_turn_of_a_chat_and_a_paste_does_not() {
    let mut scene = Scene::start(&["chat"]);
    scene.terminal.until(&[WHERE]);
    scene.terminal.keys.write_all(HERE).unwrap();
    scene.terminal.keys.write_all(b"first\r").unwrap();
    let _open = scene.begin_answer(&Answer::text(&["One, ", "two"]), "One");
    let paste = b"\x1b[200~rm\r\x1b\x1b[201~\x15next\r";
    scene.terminal.keys.write_all(paste).unwrap();
    let seen = scene.terminal.until(&["queued: next"]);
    assert!(
        !seen.contains("stopping") && !seen.contains("queued: rm"),
        "{seen}"
    );
    scene.terminal.keys.write_all(b"\x1b").unwrap();
    scene
        .terminal
        .until(&["stopping; press Ctrl-C to quit at once"]);
    scene.terminal.until(&["> next"]);
    scene.answer("Two.");
    scene.terminal.until(&["Two."]);
    scene.terminal.until(&[WHERE]);
    scene.terminal.keys.write_all(HERE).unwrap();
    scene.terminal.keys.write_all(b"\x04").unwrap();
    assert!(scene.terminal.ended().success());
}

#[test]
fn interrupt_stops_the_turn_of_a_chat_and_two_more_quit() {
    let mut scene = Scene::start(&["chat"]);
    scene.terminal.until(&[WHERE]);
    scene.terminal.keys.write_all(HERE).unwrap();
    scene.terminal.keys.write_all(b"first\r").unwrap();
    let _open = scene.begin_answer(&Answer::text(&["One, ", "two"]), "One");
    scene.kill("-INT");
    scene.terminal.until(&["stopping; press Ctrl-C again"]);
    for _ in 0..2 {
        scene.terminal.until(&[WHERE]);
        scene.terminal.keys.write_all(HERE).unwrap();
        scene.terminal.keys.write_all(b"\x03").unwrap();
    }
    assert!(scene.terminal.child.wait().unwrap().success());
    assert!(scene.has_echo());
}

#[test]
fn prompt_of_a_second_chat_waits_in_its_editor() {
    let mut scene = Scene::start(&["chat"]);
    scene.terminal.until(&[WHERE]);
    scene.terminal.keys.write_all(HERE).unwrap();
    scene.terminal.keys.write_all(b"first\r").unwrap();
    scene.answer("One.");
    scene.terminal.until(&["One."]);
    scene.terminal.until(&[WHERE]);
    scene.terminal.keys.write_all(HERE).unwrap();
    let mut command = scene.fixture.command(&["chat", "--continue"], &[]);
    let mut other = Terminal::start(&mut command);
    other.until(&[WHERE]);
    other.keys.write_all(HERE).unwrap();
    scene.terminal.keys.write_all(b"second\r").unwrap();
    let pending = scene.begin_answer(&Answer::text(&["Two, ", "three"]), "Two");
    other.keys.write_all(b"third\r").unwrap();
    other.until(&["error: "]);
    other.until(&[WHERE]);
    other.keys.write_all(HERE).unwrap();
    other.until(&["third"]);
    scene.finish(pending);
    scene.terminal.until(&[WHERE]);
    scene.terminal.keys.write_all(HERE).unwrap();
    other.keys.write_all(b"\r").unwrap();
    let request = scene.answer("Four.");
    assert!(request.contains("\"third\""), "{request}");
    other.until(&["Four."]);
    other.until(&[WHERE]);
    other.keys.write_all(HERE).unwrap();
    other.keys.write_all(b"\x04").unwrap();
    assert!(other.ended().success());
    scene.terminal.keys.write_all(b"\x04").unwrap();
    assert!(scene.terminal.ended().success());
}

#[test]
fn chat_ends_when_its_terminal_closes_during_a_turn() {
    let mut model = ScriptedModel::start();
    let fixture = RunFixture::new();
    let (ours, theirs) = open_terminal(80);
    let another = || theirs.try_clone().unwrap();
    let url = model.url();
    let variables = [
        ("TERM", "xterm"),
        ("ANTHROPIC_API_KEY", "test-key"),
        ("ANTHROPIC_BASE_URL", &*url),
    ];
    let mut command = fixture.command(&["chat"], &variables);
    command.stdin(another()).stdout(another()).stderr(another());
    let mut child = command.spawn().unwrap();
    drop((command, theirs));
    let mut ours = File::from(ours);
    let mut seen = String::new();
    while !seen.contains(WHERE) {
        let mut piece = [0; 1024];
        let count = ours.read(&mut piece).unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    ours.write_all(HERE).unwrap();
    ours.write_all(b"hello\r").unwrap();
    let mut exchange = model.next_request();
    model.say_half(&mut exchange, "One");
    drop(ours);
    // The turn stays open, so that a later process can resume it.
    child.wait().unwrap();
}

#[test]
fn chat_ends_when_its_terminal_closes() {
    let fixture = RunFixture::new();
    let (ours, theirs) = open_terminal(80);
    let another = || theirs.try_clone().unwrap();
    let mut command = fixture.command(&["chat"], &[("TERM", "xterm")]);
    command.stdin(another()).stdout(another()).stderr(another());
    let mut child = command.spawn().unwrap();
    drop((command, theirs));
    let mut ours = File::from(ours);
    let mut seen = String::new();
    while !seen.contains(WHERE) {
        let mut piece = [0; 1024];
        let count = ours.read(&mut piece).unwrap();
        seen.push_str(&String::from_utf8_lossy(&piece[..count]));
    }
    ours.write_all(HERE).unwrap();
    // There is no signal: the terminal is not the controlling terminal of the program.
    drop(ours);
    assert!(child.wait().unwrap().success());
}

#[test]
fn piped_answer_cannot_imitate_a_question() {
    let model =
        ScriptedModel::answering(|_| Answer::text(&["\u{1b}[2A\u{258c} shell wants to run"]));
    let fixture = RunFixture::new();
    let (_ours, theirs) = open_terminal(80);
    let variables = [
        ("LANG", "C.UTF-8"),
        ("ANTHROPIC_API_KEY", "test-key"),
        ("ANTHROPIC_BASE_URL", &model.url()),
    ];
    let mut command = fixture.command(&["run", "hello"], &variables);
    command.stdin(theirs.try_clone().unwrap()).stderr(theirs);
    let out = command.stdout(Stdio::piped()).spawn().unwrap();
    let out = out.wait_with_output().unwrap();
    let stdout = String::from_utf8(out.stdout).unwrap();
    assert!(stdout.contains("shell wants to run"), "{stdout:?}");
    assert!(!stdout.contains(['\u{1b}', '\u{258c}']), "{stdout:?}");
}
