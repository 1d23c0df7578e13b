//! The daemon as a process of its own, on a directory that outlives it.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

use super::{Client, Sandbox, text};

/// The token of every daemon here.
pub(crate) const TOKEN: &str = "a-token-for-tests";

/// Where daemons live one after the other.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    pub(crate) variables: Vec<(String, String)>,
    /// The root of the environment `local`, apart from the data unless a test says otherwise.
    pub(crate) workspace: PathBuf,
    /// How daemons are told to find their data.
    pub(crate) named_data: PathBuf,
}

impl Home {
    pub(crate) fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let workspace = directory.path().join("workspace");
        std::fs::create_dir(&workspace).unwrap();
        Self {
            workspace,
            named_data: directory.path().join("data"),
            directory,
            // Unless a test says otherwise, the model echoes.
            variables: vec![("WINDLASS_MODEL".to_owned(), "sim".to_owned())],
        }
    }

    /// The directory of everything: data, workspace and configuration. Programs are started in it.
    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Lets daemons speak to a fake model.
    pub(crate) fn with_model(url: &str) -> Self {
        let variables = [
            ("ANTHROPIC_API_KEY", "test-key"),
            ("ANTHROPIC_BASE_URL", url),
        ];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        Self {
            variables: variables.into(),
            ..Self::new()
        }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Writes `windlass.toml` and trusts it.
    #[track_caller]
    pub(crate) fn configure(&self, text: &str) {
        std::fs::write(self.path().join("windlass.toml"), text).unwrap();
        let trusted = self.command(&["config", "trust"]).output().unwrap();
        assert!(trusted.status.success(), "{trusted:?}");
    }

    /// Prepares to run the binary with these arguments and nothing of the caller's environment.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command
            .args(arguments)
            .current_dir(self.directory.path())
            .env_clear()
            .env("WINDLASS_DATA", &self.named_data)
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn start(&self) -> Daemon {
        self.start_with(&["--token", TOKEN])
    }

    /// Starts a daemon and returns when it listens.
    pub(crate) fn start_with(&self, arguments: &[&str]) -> Daemon {
        Self::started(self.serve().args(arguments))
    }

    fn serve(&self) -> Command {
        let mut command = self.command(&["serve", "--port", "0", "--workspace"]);
        command.arg(&self.workspace);
        command
    }

    /// Starts a daemon that confines programs in one way and no other.
    pub(crate) fn start_in(&self, sandbox: Sandbox) -> Daemon {
        let config = self.path().join("sandbox.toml");
        let text = format!("[shell]\nsandbox = \"{}\"\n", sandbox.name());
        std::fs::write(&config, text).unwrap();
        let mut command = self.serve();
        Self::started(command.args(["--token", TOKEN, "--config"]).arg(config))
    }

    /// Starts a daemon that writes all that it can say into a file.
    pub(crate) fn start_logging(&self, file: std::fs::File) -> Daemon {
        let log = ["--log", "debug", "--log-format", "json"];
        let mut command = self.serve();
        Self::started(command.args(["--token", TOKEN]).args(log).stderr(file))
    }

    pub(crate) fn started(command: &mut Command) -> Daemon {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut line).unwrap();
        let address = line.trim_end().rsplit_once("listening on http://");
        let (_, address) = address.unwrap_or_else(|| panic!("{line:?}"));
        Daemon {
            client: Client {
                address: address.to_owned(),
                token: Some(TOKEN.to_owned()),
            },
            child,
        }
    }
}

/// A daemon that listens. Dropping it kills it.
pub(crate) struct Daemon {
    pub(crate) client: Client,
    child: Child,
}

impl Daemon {
    /// Ends the process as a crash would: it can do nothing about it.
    pub(crate) fn kill(mut self) {
        self.kill_now();
    }

    /// Asks the process to stop, and waits until it has.
    pub(crate) fn stop(mut self) -> ExitStatus {
        let pid = self.pid().to_string();
        let asked = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(asked.unwrap().success());
        self.child.wait().unwrap()
    }

    fn kill_now(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Makes a thread and returns its path.
    pub(crate) fn thread(&self, body: &Value) -> String {
        let thread = self.client.post("/v1/threads", body).expect(201);
        format!("/v1/threads/{}", text(&thread["id"]))
    }

    /// Starts a turn and returns its path.
    pub(crate) fn turn(&self, thread: &str, prompt: &str) -> String {
        let body = json!({ "prompt": prompt });
        let path = format!("{thread}/turns");
        let answer = self.client.post(&path, &body).expect(201);
        format!("{thread}/turns/{}", text(&answer["turn"]["id"]))
    }

    pub(crate) fn detail(&self, thread: &str) -> Value {
        self.client.get(thread).expect(200)
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill_now();
    }
}
