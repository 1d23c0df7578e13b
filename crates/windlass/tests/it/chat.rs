//! `windlass chat`: commands, mentioned files, and the line editor.

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::run::{RunFixture, text};
use crate::support::{ScriptedModel, Terminal};

/// The editor's query for the cursor position, and the terminal's reply.
const WHERE: &str = "\x1b[6n";
const HERE: &[u8] = b"\x1b[1;1R";

/// Types lines in a chat without a terminal; returns the answers and the messages.
fn piped(fixture: &RunFixture, lines: &str) -> (String, String) {
    answered(fixture.command(&["chat", "--model", "sim"], &[]), lines)
}

fn answered(mut command: Command, lines: &str) -> (String, String) {
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(lines.as_bytes())
        .unwrap();
    let out = child.wait_with_output().unwrap();
    assert!(out.status.success(), "{out:?}");
    (text(&out.stdout).to_owned(), text(&out.stderr).to_owned())
}

/// A chat on a terminal.
struct Typing(Terminal);

impl Typing {
    fn start(fixture: &RunFixture, arguments: &[&str], variables: &[(&str, &str)]) -> Self {
        Self(Terminal::start(&mut fixture.command(arguments, variables)))
    }

    /// Waits for the editor and presses keys; returns the output before.
    fn press(&mut self, keys: &[u8]) -> String {
        let seen = self.0.until(&[WHERE]);
        self.0.keys.write_all(HERE).unwrap();
        self.0.keys.write_all(keys).unwrap();
        seen
    }

    fn until(&mut self, text: &str) -> String {
        self.0.until(&[text])
    }
}

#[test]
fn commands_show_and_change_the_thread() {
    let fixture = RunFixture::new();
    let lines = "/model\n/cost\nhello\n/mode\n/mode plan\n/mode\n/cost\n/context\n/rename A \u{1b}[2J title\n/queue\n/queue remove 1\n\
                 /agents\n/mcp\n/export\n/export\n/contxt\n/mode x\n/plan and plan\n/help\n/quit\nnever\n";
    let (stdout, stderr) = piped(&fixture, lines);
    assert_eq!(stdout, "Echo: hello\nEcho: and plan\n", "{stderr}");
    for part in [
        "current model: sim\n",
        "error: there is no thread yet; it starts with the first prompt\n",
        "mode agent; ",
        "mode plan: the agent changes nothing; /mode agent ends it\n",
        "mode plan; ",
        "1 turn, ",
        "tokens of sim are used (",
        "the title is now: A \\u{1b}[2J title\n",
        "no prompt waits for its turn\n",
        "use `/queue remove N` with a number of the list",
        "this thread has started no agents\n",
        "no MCP servers are configured",
        "written to ",
        "cannot be created: File exists",
        "there is no command `/contxt`; did you mean /context?\n",
        "unknown mode 'x'",
        "/context          show how full the context window is\n",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let listed = fixture.run(&["threads", "list", "--json"], &[]);
    let thread: Value = serde_json::from_str(text(&listed.stdout)).unwrap();
    assert_eq!(thread["mode"], "plan");
    assert_eq!(thread["title"], "A \u{1b}[2J title");
    let id = thread["id"].as_str().unwrap();
    let name = format!("windlass-{}.jsonl", &id[id.len() - 8..]);
    let file = fixture.workspace().join(name);
    assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let exported = fs::read_to_string(file).unwrap();
    assert!(
        exported
            .lines()
            .all(|line| serde_json::from_str::<Value>(line).is_ok())
    );
    assert!(exported.contains("Echo: hello"));
}

#[test]
fn skills_of_the_repository_are_commands() {
    let fixture = RunFixture::new();
    let skill = fixture.workspace().join(".windlass/skills/release");
    fs::create_dir_all(&skill).unwrap();
    let body = "---\nname: release\ndescription: How a release is made\n---\nTag it.";
    fs::write(skill.join("SKILL.md"), body).unwrap();
    let (stdout, stderr) = piped(&fixture, "/help\n/release version 2\n/relase\n");
    assert_eq!(stdout, "Echo: Use the skill `release`. version 2\n");
    assert!(
        stderr.contains("/release [PROMPT] How a release is made"),
        "{stderr}"
    );
    assert!(stderr.contains("did you mean /release?"), "{stderr}");
}

#[test]
fn mentioned_files_are_sent_and_those_outside_are_refused() {
    let fixture = RunFixture::new();
    fs::write(fixture.workspace().join("notes.txt"), "buy milk").unwrap();
    let large = fs::File::create(fixture.workspace().join("large.bin")).unwrap();
    large.set_len(1 << 30).unwrap();
    let (model, requests) = ScriptedModel::calling(Vec::new());
    let url = model.url();
    let variables = [
        ("ANTHROPIC_API_KEY", "test-key"),
        ("ANTHROPIC_BASE_URL", &*url),
    ];
    let lines = "read @notes.txt, please\nread @/etc/passwd\nread @large.bin\nmail me@notes.txt\n/image notes.txt\nrest\n\
                 /new\n/file notes.txt\nwith it\n";
    let (stdout, stderr) = answered(fixture.command(&["chat"], &variables), lines);
    assert_eq!(stdout, "done\ndone\ndone\n", "{stderr}");
    for part in [
        "error: /etc/passwd is outside of ",
        "nothing was sent\n",
        "large.bin has 1024 MiB, and at most 1 MiB are sent",
        "notes.txt is sent with the next prompt\n",
    ] {
        assert!(stderr.contains(part), "{part}: {stderr}");
    }
    let sent = requests.text();
    // The first thread has the file in both of its requests.
    assert_eq!(sent.matches("buy milk").count(), 3, "{sent}");
    assert!(!sent.contains("root:"), "{sent}");
    let out = fixture.run(&["run", "read @../x @/etc/passwd"], &variables);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(text(&out.stderr).contains("is outside of"), "{out:?}");
    let out = fixture.run(&["run", "--json", "look at @notes.txt"], &variables);
    assert!(out.status.success(), "{out:?}");
    assert_eq!(requests.text().matches("buy milk").count(), 4);
}

#[test]
fn diff_shows_changes_without_running_programs_of_the_repository() {
    let fixture = RunFixture::new();
    let here = fixture.workspace();
    let (_, stderr) = piped(&fixture, "/diff\n");
    assert!(
        stderr.contains("the directory is in no git repository"),
        "{stderr}"
    );
    let git = |arguments: &[&str]| {
        let identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"];
        let mut git = Command::new("git");
        let out = git
            .args(identity)
            .args(arguments)
            .current_dir(&here)
            .output();
        assert!(out.unwrap().status.success(), "{arguments:?}");
    };
    git(&["init"]);
    fs::write(here.join("a.txt"), "old\n").unwrap();
    git(&["add", "."]);
    git(&["commit", "-m", "first"]);
    let mark = here.join("mark").display().to_string();
    git(&["config", "diff.external", &format!("touch {mark}")]);
    git(&["config", "core.pager", &format!("touch {mark}")]);
    fs::write(here.join("a.txt"), "new \u{1b}[2J\n").unwrap();
    fs::write(here.join("b.txt"), "").unwrap();
    let (stdout, stderr) = piped(&fixture, "/diff\n");
    for part in ["-old\n", "+new \\u{1b}[2J\n", "untracked: b.txt\n"] {
        assert!(stdout.contains(part), "{part}: {stdout}{stderr}");
    }
    assert!(!here.join("mark").exists());
}

#[test]
fn windlass_alone_starts_a_chat_only_on_a_terminal() {
    let fixture = RunFixture::new();
    let out = fixture.run(&[], &[("WINDLASS_MODEL", "sim")]);
    assert_eq!(out.status.code(), Some(2), "{out:?}");
    assert!(text(&out.stderr).contains("Usage: windlass"), "{out:?}");
    let mut chat = Typing::start(&fixture, &[], &[("WINDLASS_MODEL", "sim")]);
    chat.press(b"hello\r");
    chat.until("Echo: hello");
    chat.press(b"\x04");
    assert!(chat.0.ended().success());
}

#[test]
fn tab_completes_commands_and_paths() {
    let fixture = RunFixture::new();
    fs::write(fixture.workspace().join("notes.txt"), "buy milk").unwrap();
    let mut chat = Typing::start(&fixture, &["chat", "--model", "sim"], &[]);
    chat.press(b"/ren\t");
    chat.until("/rename");
    chat.0.keys.write_all(b"x\r").unwrap();
    chat.until("there is no thread yet");
    chat.press(b"read @no\t");
    chat.until("notes.txt");
    chat.0.keys.write_all(b"\r").unwrap();
    chat.until("Echo: read @notes.txt");
    chat.press(b"\x04");
    assert!(chat.0.ended().success());
}

#[test]
fn second_interrupt_at_the_prompt_quits() {
    let fixture = RunFixture::new();
    let mut chat = Typing::start(&fixture, &["chat", "--model", "sim"], &[]);
    chat.press(b"unfinished\x03");
    chat.until("press Ctrl-C again, or Ctrl-D, to quit");
    chat.press(b"\x03");
    assert!(chat.0.ended().success());
}

#[test]
fn paste_of_several_lines_is_one_inert_input() {
    let fixture = RunFixture::new();
    let mut chat = Typing::start(&fixture, &["chat", "--model", "sim"], &[]);
    chat.press(b"\x1b[200~one\rtwo \x1b]0;title\x07\x1b[201~");
    let seen = chat.until("title");
    assert!(!seen.contains("\x1b]0;"), "{seen:?}");
    chat.0.keys.write_all(b"\r").unwrap();
    let seen = chat.until("Echo: one");
    assert!(!seen.contains("\x1b]0;"), "{seen:?}");
    chat.until("title");
    chat.press(b"\x04");
    assert!(chat.0.ended().success());
}

#[test]
fn external_editor_replaces_the_input() {
    let fixture = RunFixture::new();
    let editor = fixture.workspace().join("editor");
    let script = "#!/bin/sh\n[ \"$(cat \"$1\")\" = draft ] && echo 'from the editor' > \"$1\"\n";
    fs::write(&editor, script).unwrap();
    fs::set_permissions(&editor, fs::Permissions::from_mode(0o755)).unwrap();
    let editor = editor.display().to_string();
    let mut chat = Typing::start(
        &fixture,
        &["chat", "--model", "sim"],
        &[("VISUAL", &editor)],
    );
    chat.press(b"draft\x07");
    chat.press(b"\r");
    chat.until("Echo: from the editor");
    chat.press(b"\x04");
    assert!(chat.0.ended().success());
    let mut chat = Typing::start(
        &fixture,
        &["chat", "--model", "sim"],
        &[("EDITOR", "/does/not/exist")],
    );
    chat.press(b"draft\x07");
    chat.until("the editor `/does/not/exist` does not start");
    chat.press(b"\r");
    chat.until("Echo: draft");
    chat.press(b"\x04");
    assert!(chat.0.ended().success());
}

#[test]
fn refused_prompt_becomes_the_next_input() {
    let fixture = RunFixture::new();
    let mut chat = Typing::start(&fixture, &["chat", "--model", "sim"], &[]);
    chat.press(b"read @/etc/passwd\r");
    chat.until("nothing was sent");
    // The text is in the editor again; the path is removed from its end.
    chat.press(&[0x7f; 12]);
    chat.0.keys.write_all(b"nothing\r").unwrap();
    chat.until("Echo: read nothing");
    chat.press(b"\x04");
    assert!(chat.0.ended().success());
}
