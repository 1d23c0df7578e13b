//! Real external agents on threads of the daemon, against a fake model on loopback. `cargo xtask backends` installs them and passes their paths.
//!
//! The scenarios that agents share are in `scenarios.rs`. The file of an agent selects its scenarios and adds its own.

mod claude;
mod codex;
mod editor;
mod equal_events;
mod gemini;
mod kills;
mod model;
mod scenarios;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use windlass_testkit::pids_of;

use crate::support::{Daemon, EventReader, Frame, Home, text};
use model::AgentModel;

/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// An agent, and how it is configured to use the fake model.
pub(super) struct Cli {
    /// The backend's name in threads.
    backend: &'static str,
    /// The environment variable with the path of its program.
    program: &'static str,
    /// Additional keys of its configuration entry.
    entry: &'static str,
    /// Its environment variables, given the model's address.
    variables: fn(&str) -> Vec<(&'static str, String)>,
    /// A settings file that it needs in its own home, and the contents.
    settings: fn(&str) -> Option<(&'static str, String)>,
    /// The directory of its sessions, relative to its home.
    sessions: &'static str,
    /// The text that a thread shows for a command.
    shows: &'static str,
}

impl Cli {
    fn program(&self) -> PathBuf {
        match std::env::var_os(self.program) {
            Some(program) => program.into(),
            None => panic!(
                "{} is not set: `cargo xtask backends` installs the agents and says where they are",
                self.program
            ),
        }
    }

    /// A home for daemons in which this agent uses the fake model.
    fn home(&self, model: &AgentModel) -> Home {
        let mut home = Home::with_model(&model.url());
        self.move_into(&mut home, model);
        home.configure(&self.entry());
        home
    }

    /// Adds the agent's variables and settings to a home.
    fn move_into(&self, home: &mut Home, model: &AgentModel) {
        let variables = (self.variables)(&model.url());
        let variables = variables.into_iter();
        home.variables
            .extend(variables.map(|(name, value)| (name.to_owned(), value)));
        let path = std::env::var("PATH").unwrap_or_default();
        home.variables.push(("PATH".to_owned(), path));
        if let Some((file, content)) = (self.settings)(&model.url()) {
            let file = self.own_home(home).join(file);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, content).unwrap();
            let only_ours = fs::Permissions::from_mode(0o700);
            fs::set_permissions(home.data(), only_ours).unwrap();
        }
    }

    /// Returns the contents of `windlass.toml`.
    fn entry(&self) -> String {
        let names: Vec<_> = (self.variables)("").into_iter().map(|it| it.0).collect();
        format!(
            "[backends.{}]\ncommand = '{}'\nhome = 'own'\nvariables = {names:?}\n{}\n",
            self.backend,
            self.program().display(),
            self.entry
        )
    }

    fn own_home(&self, home: &Home) -> PathBuf {
        home.data()
            .join("backends")
            .join(self.backend)
            .join("operator")
    }

    /// Deletes the agent's sessions.
    fn forget_sessions(&self, home: &Home) {
        fs::remove_dir_all(self.own_home(home).join(self.sessions)).unwrap();
    }

    /// Returns the agent's processes in this home, without their sandbox processes.
    fn pids(&self, home: &Home) -> Vec<u32> {
        let program = self.program().display().to_string();
        let is_program = |command: &[u8]| {
            let mut words = command.split(|byte| *byte == 0);
            words.any(|word| word == program.as_bytes())
                && !command.starts_with(b"bwrap")
                && !command.starts_with(b"/usr/bin/bwrap")
        };
        let own = self.own_home(home).display().to_string();
        let mut pids = pids_of(is_program);
        pids.retain(|pid| {
            let around = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            String::from_utf8_lossy(&around).contains(&own)
        });
        pids
    }
}

/// A thread on an agent, with its daemon and its event stream.
struct Conversation<'a> {
    cli: &'a Cli,
    home: &'a Home,
    daemon: Daemon,
    thread: String,
    events: EventReader,
}

impl<'a> Conversation<'a> {
    fn begin(cli: &'a Cli, home: &'a Home) -> Self {
        Self::begin_with(cli, home, &json!({}))
    }

    /// Creates a thread with additional fields.
    fn begin_with(cli: &'a Cli, home: &'a Home, more: &Value) -> Self {
        let daemon = home.start();
        let mut thread = more.clone();
        thread["backend"] = json!(cli.backend);
        let thread = daemon.thread(&thread);
        let events = daemon.client.events(&thread, 0);
        Self {
            cli,
            home,
            daemon,
            thread,
            events,
        }
    }

    /// Starts a turn and returns its path.
    fn say(&self, prompt: &str) -> String {
        self.daemon.turn(&self.thread, prompt)
    }

    /// Runs a turn to its end and allows all calls; returns the number of approvals.
    #[track_caller]
    fn turn(&mut self, prompt: &str) -> usize {
        self.say(prompt);
        self.allow_until_end()
    }

    /// Allows all calls until the turn ends; returns the number of approvals.
    #[track_caller]
    fn allow_until_end(&mut self) -> usize {
        let mut approvals = 0;
        loop {
            let frame = self.until(|frame| {
                matches!(frame.event.as_str(), "approval.required" | "turn.completed")
            });
            if frame.event == "turn.completed" {
                return approvals;
            }
            approvals += 1;
            self.allow(&frame);
        }
    }

    /// Allows a call. An approval of an earlier process may be withdrawn by now.
    fn allow(&self, approval: &Frame) {
        self.decide(approval, "allow");
    }

    fn decide(&self, approval: &Frame, decision: &str) {
        let id = text(&approval.data["payload"]["approval_id"]);
        let path = format!("/v1/approvals/{id}");
        let decision = json!({"decision": decision});
        self.daemon.client.post(&path, &decision);
    }

    /// Waits for an event.
    #[track_caller]
    fn until(&mut self, is_match: impl Fn(&Frame) -> bool) -> Frame {
        let mut last = None;
        loop {
            match self.events.next() {
                Some(frame) if is_match(&frame) => return frame,
                Some(frame) => last = Some(frame),
                None => panic!("the stream ended after {last:?}"),
            }
        }
    }

    /// Waits until the agent has started its answer.
    #[track_caller]
    fn until_first_output(&mut self) {
        self.until(|frame| frame.event == "item.delta");
    }

    /// Waits for a notice of the runtime with this text.
    #[track_caller]
    fn until_remark(&mut self, words: &str) -> Value {
        let frame = self.until(|frame| {
            let item = &frame.data["payload"]["item"];
            frame.event == "turn.completed"
                || item["kind"] == "status" && item["summary"].to_string().contains(words)
        });
        assert_ne!(frame.event, "turn.completed", "{}", self.detail());
        frame.data["payload"]["item"].clone()
    }

    /// Waits until the turn ends, and checks its status.
    #[track_caller]
    fn until_end(&mut self, status: &str) -> Value {
        self.until(|frame| frame.event == "turn.completed");
        self.assert_newest(status)
    }

    /// Checks the status of the newest turn, and returns the turn.
    #[track_caller]
    fn assert_newest(&self, status: &str) -> Value {
        let detail = self.detail();
        let newest = detail["turns"].as_array().unwrap().last().unwrap();
        assert_eq!(newest["status"], status, "{detail:#}");
        newest.clone()
    }

    fn detail(&self) -> Value {
        self.daemon.detail(&self.thread)
    }

    /// Returns all items as JSON text.
    fn items(&self) -> String {
        self.detail()["items"].to_string()
    }

    /// Waits for a record that the API does not show.
    #[track_caller]
    fn until_recorded(&self, kind: &str) {
        let database = rusqlite::Connection::open(self.home.data().join("windlass.db")).unwrap();
        let find = "SELECT count(*) FROM records WHERE instr(body, CAST(?1 AS BLOB)) > 0";
        let given_up = Instant::now() + PATIENCE;
        loop {
            let found: u32 = database.query_row(find, [kind], |row| row.get(0)).unwrap();
            if found > 0 {
                return;
            }
            assert!(Instant::now() < given_up, "no {kind}: {}", self.detail());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn interrupt(&self, turn: &str) {
        let path = format!("{turn}/interrupt");
        let answer = self.daemon.client.post(&path, &json!({}));
        assert!(answer.status < 300, "{}", answer.body);
    }

    /// Kills the daemon and starts another.
    fn killed(self) -> Self {
        let Self {
            cli,
            home,
            daemon,
            thread,
            ..
        } = self;
        daemon.kill();
        Self::resume(cli, home, thread)
    }

    /// Stops the daemon, runs `meanwhile`, and starts another daemon.
    fn restarted(self, meanwhile: impl FnOnce(&Cli, &Home)) -> Self {
        let Self {
            cli,
            home,
            daemon,
            thread,
            ..
        } = self;
        daemon.stop();
        meanwhile(cli, home);
        Self::resume(cli, home, thread)
    }

    fn resume(cli: &'a Cli, home: &'a Home, thread: String) -> Self {
        let daemon = home.start();
        let events = daemon.client.events(&thread, 0);
        Self {
            cli,
            home,
            daemon,
            thread,
            events,
        }
    }
}
