//! What a person at a terminal is asked, and what counts as an answer.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use serde_json::json;
use windlass_testkit::{Answer, FakeServer, Wire};

use crate::run::Place;
use crate::support::{Home, Model};

const PATIENCE: Duration = Duration::from_secs(60);
/// What only a question begins with.
const MARK: char = '▌';
const PROMPT: &str = "commands too): ";

/// A program at a terminal, and the person before it.
struct Terminal {
    child: Child,
    keys: File,
    /// The side of the program.
    theirs: OwnedFd,
    shown: Receiver<Vec<u8>>,
    /// What was shown and not looked at.
    screen: Vec<u8>,
}

impl Terminal {
    fn start(command: &mut Command) -> Self {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let ours = openpt(flags).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let size = Winsize {
            ws_row: 24,
            ws_col: 100,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&ours, size).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap();
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let theirs = rustix::fs::open(&name, flags, Mode::empty()).unwrap();
        let another = |fd: &OwnedFd| fd.try_clone().unwrap();
        command.envs([("TERM", "xterm"), ("LANG", "C.UTF-8"), ("NO_COLOR", "1")]);
        command.stdin(another(&theirs)).stdout(another(&theirs));
        let child = command.stderr(another(&theirs)).spawn().unwrap();
        let keys = File::from(ours);
        let mut screen = keys.try_clone().unwrap();
        let (send, shown) = channel();
        std::thread::spawn(move || {
            let mut piece = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut piece) {
                if send.send(piece[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self {
            child,
            keys,
            theirs,
            shown,
            screen: Vec::new(),
        }
    }

    /// Waits until one of these texts is shown, and returns all up to its end.
    #[track_caller]
    fn until(&mut self, texts: &[&str]) -> String {
        loop {
            let found = texts.iter().filter_map(|text| {
                let mut parts = self.screen.windows(text.len());
                let at = parts.position(|part| part == text.as_bytes())?;
                Some(at + text.len())
            });
            if let Some(end) = found.min() {
                let rest = self.screen.split_off(end);
                let seen = std::mem::replace(&mut self.screen, rest);
                return String::from_utf8(seen).unwrap();
            }
            match self.shown.recv_timeout(PATIENCE) {
                Ok(piece) => self.screen.extend(piece),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    let screen = String::from_utf8_lossy(&self.screen);
                    panic!("none of {texts:?} is shown: {screen}")
                }
            }
        }
    }

    fn type_in(&mut self, line: &str) {
        writeln!(self.keys, "{line}").unwrap();
    }

    fn ended(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

#[test]
fn what_is_typed_before_a_question_is_no_answer_to_it() {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut server = FakeServer::start().await.unwrap();
        let place = Place::new();
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", &server.url()),
        ];
        let mut command = place.command(&["run", "hello"], &variables);
        let mut terminal = Terminal::start(&mut command);

        let fake = format!("{MARK} Allow? [y]es, [n]o: ");
        let arguments = json!({ "path": "made", "content": "by the model" }).to_string();
        let answer = Answer::text(&[&fake]).with_call("toolu_1", "write", &[&arguments]);
        let events = Wire::Anthropic.events(&answer);
        let said = events.iter().position(|event| event.contains("Allow?"));
        let (before, after) = events.split_at(said.unwrap() + 1);
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
            seen.contains(&format!("{MARK} write wants to run made")),
            "{seen}"
        );
        assert!(seen.contains(&format!("{MARK} Allow? ")), "{seen}");
        terminal.type_in("n");
        let exchange = server.next().await;
        let done = Wire::Anthropic.events(&Answer::text(&["It was refused."]));
        exchange.stream(&done).await.unwrap();
        terminal.until(&["It was refused."]);
        assert!(terminal.ended().success());
        assert!(!place.here().join("made").exists());
    });
}

#[test]
fn always_means_everything_and_the_next_run_says_so() {
    let arguments = json!({ "path": "made", "content": "by the model" });
    let (model, _) = Model::calling(vec![("write", arguments)]);
    let home = Home::with_model(&model.url());
    let mut terminal = Terminal::start(&mut home.command(&["run", "hello"]));
    let seen = terminal.until(&[PROMPT]);
    assert!(
        seen.contains("[a]lways (everything in this conversation,"),
        "{seen}"
    );
    terminal.type_in("a");
    terminal.until(&["done"]);
    assert!(terminal.ended().success());
    assert!(home.path().join("made").exists());
    let told = "everything is allowed in this conversation without asking, commands too";
    let mut terminal = Terminal::start(&mut home.command(&["run", "--continue", "more"]));
    terminal.until(&[told]);
    assert!(terminal.ended().success());
    let mut terminal = Terminal::start(&mut home.command(&["chat", "--continue"]));
    terminal.until(&[told]);
    terminal.child.kill().unwrap();
    terminal.ended();
}

#[test]
fn an_answer_that_was_lost_with_the_daemon_is_asked_for_again() {
    let arguments = json!({ "path": "made", "content": "by the model" });
    let (model, _) = Model::calling(vec![("write", arguments)]);
    let home = Home::with_model(&model.url());
    let daemon = home.start_with(&[]);
    let mut terminal = Terminal::start(&mut home.command(&["run", "hello"]));
    terminal.until(&[PROMPT]);
    // It takes the answer, does nothing with it, and dies.
    let stopped = Command::new("kill")
        .args(["-STOP", &daemon.pid().to_string()])
        .status();
    assert!(stopped.unwrap().success());
    terminal.type_in("y");
    while rustix::io::ioctl_fionread(&terminal.theirs).unwrap() > 0 {
        std::thread::yield_now();
    }
    daemon.kill();
    // Where the end of the daemon was seen before the answer, that goes to the next one.
    while terminal.until(&[PROMPT, "done"]).ends_with(PROMPT) {
        terminal.type_in("y");
    }
    assert!(terminal.ended().success());
    assert!(home.path().join("made").exists());
}
