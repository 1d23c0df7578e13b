//! The `windlass` binary as a daemon process, on a directory that outlives it.

use std::fs;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use serde_json::{Value, json};

use crate::client::Client;

/// The token of every daemon of a [`Home`].
pub const TOKEN: &str = "a-token-for-tests";

/// The data, workspace and configuration of daemons that run one after the other.
pub struct Home {
    directory: tempfile::TempDir,
    binary: PathBuf,
    /// Arguments of each daemon besides the usual ones.
    pub arguments: Vec<String>,
    /// All environment variables of each program besides the data directory.
    pub variables: Vec<(String, String)>,
    /// The root of the environment `local`, apart from the data unless a test changes it.
    pub workspace: PathBuf,
    /// The data directory as programs receive it.
    pub named_data: PathBuf,
}

/// Returns the binary that Cargo built next to this test or program.
fn built_binary() -> PathBuf {
    let own = std::env::current_exe().unwrap_or_default();
    let mut directory = own.parent().unwrap_or(Path::new(".")).to_owned();
    if directory.ends_with("deps") {
        directory.pop();
    }
    directory.join("windlass")
}

impl Default for Home {
    fn default() -> Self {
        Self::new()
    }
}

impl Home {
    /// Creates a home for the binary that Cargo built for this test. Its model echoes.
    #[track_caller]
    #[must_use]
    pub fn new() -> Self {
        let home = Self::with_binary(&built_binary());
        let mut home = home.unwrap_or_else(|error| panic!("no home: {error}"));
        home.variables = vec![("WINDLASS_MODEL".to_owned(), "sim".to_owned())];
        home
    }

    /// Creates a home for a binary, without variables.
    ///
    /// # Errors
    /// If the directories cannot be created.
    pub fn with_binary(binary: &Path) -> io::Result<Self> {
        let directory = tempfile::tempdir()?;
        let workspace = directory.path().join("workspace");
        fs::create_dir(&workspace)?;
        Ok(Self {
            workspace,
            named_data: directory.path().join("data"),
            directory,
            binary: binary.to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
        })
    }

    /// Creates a home whose daemons use a fake model of Anthropic.
    #[track_caller]
    #[must_use]
    pub fn with_model(url: &str) -> Self {
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

    /// The directory of everything: data, workspace and configuration. Programs are started in it.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.path().join("data")
    }

    /// The configuration file.
    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.path().join("windlass.toml")
    }

    /// Writes `windlass.toml` and trusts it.
    #[track_caller]
    pub fn configure(&self, text: &str) {
        let trust = || -> io::Result<_> {
            fs::write(self.config_file(), text)?;
            self.command(&["config", "trust"]).output()
        };
        match trust() {
            Ok(trusted) if trusted.status.success() => {}
            refused => panic!("{refused:?}"),
        }
    }

    /// Returns a command for the binary with these arguments and without the caller's environment.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.binary);
        command
            .args(arguments)
            .current_dir(self.path())
            .env_clear()
            .env("WINDLASS_DATA", &self.named_data)
            .envs(self.variables.iter().cloned())
            .stdin(Stdio::null());
        command
    }

    /// Returns a command for a daemon on a free port.
    #[must_use]
    pub fn serve(&self) -> Command {
        let mut command = self.command(&["serve", "--port", "0", "--workspace"]);
        command.arg(&self.workspace).args(&self.arguments);
        command
    }

    /// Starts a daemon and returns when it listens.
    #[track_caller]
    pub fn start(&self) -> Daemon {
        self.start_with(&["--token", TOKEN])
    }

    /// Starts a daemon with these arguments instead of the token.
    #[track_caller]
    pub fn start_with(&self, arguments: &[&str]) -> Daemon {
        Daemon::started(self.serve().args(arguments))
    }

    /// Starts a daemon with one sandbox method, a value of `[shell] sandbox`.
    #[track_caller]
    #[must_use]
    pub fn start_in(&self, sandbox: &str) -> Daemon {
        let config = self.path().join("sandbox.toml");
        let written = fs::write(&config, format!("[shell]\nsandbox = \"{sandbox}\"\n"));
        written.unwrap_or_else(|error| panic!("{error}"));
        let mut command = self.serve();
        Daemon::started(command.args(["--token", TOKEN, "--config"]).arg(config))
    }

    /// Starts a daemon that logs everything into a file.
    #[track_caller]
    #[must_use]
    pub fn start_logging(&self, file: fs::File) -> Daemon {
        let log = ["--log", "debug", "--log-format", "json"];
        let mut command = self.serve();
        Daemon::started(command.args(["--token", TOKEN]).args(log).stderr(file))
    }
}

/// A listening daemon. Dropping it kills the process.
#[derive(Debug)]
pub struct Daemon {
    /// A client with the operator's token.
    pub client: Client,
    child: Child,
}

impl Daemon {
    /// Starts a daemon and returns when it listens.
    ///
    /// # Errors
    /// If the process does not start, or ends before it listens.
    pub fn spawn(command: &mut Command) -> Result<Self, String> {
        let child = command.stdout(Stdio::piped()).spawn();
        let child = child.map_err(|error| format!("the daemon does not start: {error}"))?;
        let mut daemon = Self {
            client: Client {
                address: String::new(),
                token: Some(TOKEN.to_owned()),
            },
            child,
        };
        let mut line = String::new();
        if let Some(stdout) = daemon.child.stdout.as_mut() {
            let read = BufReader::new(stdout).read_line(&mut line);
            read.map_err(|error| error.to_string())?;
        }
        let address = line.trim_end().rsplit_once("listening on http://");
        let (_, address) =
            address.ok_or_else(|| format!("the daemon does not listen: {line:?}"))?;
        daemon.client.address = address.to_owned();
        Ok(daemon)
    }

    /// Like [`spawn`](Self::spawn), but panics on an error.
    #[track_caller]
    #[must_use]
    pub fn started(command: &mut Command) -> Self {
        Self::spawn(command).unwrap_or_else(|error| panic!("{error}"))
    }

    /// Kills the process with SIGKILL, like a crash.
    pub fn kill(self) {
        drop(self);
    }

    /// Stops the process with SIGTERM and waits for its exit.
    #[track_caller]
    pub fn stop(mut self) -> ExitStatus {
        let pid = self.pid().to_string();
        let signalled = Command::new("kill").args(["-TERM", &pid]).status();
        assert!(signalled.is_ok_and(|status| status.success()));
        let ended = self.child.wait();
        ended.unwrap_or_else(|error| panic!("{error}"))
    }

    /// The id of the process.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Creates a thread and returns its path.
    #[track_caller]
    pub fn thread(&self, body: &Value) -> String {
        let thread = self.client.post("/v1/threads", body).expect(201);
        format!("/v1/threads/{}", id_of(&thread))
    }

    /// Starts a turn and returns its path.
    #[track_caller]
    pub fn turn(&self, thread: &str, prompt: &str) -> String {
        let body = json!({ "prompt": prompt });
        let path = format!("{thread}/turns");
        let answer = self.client.post(&path, &body).expect(201);
        format!("{thread}/turns/{}", id_of(&answer["turn"]))
    }

    /// Reads a thread.
    #[track_caller]
    pub fn detail(&self, thread: &str) -> Value {
        self.client.get(thread).expect(200)
    }
}

#[track_caller]
fn id_of(object: &Value) -> &str {
    object["id"]
        .as_str()
        .unwrap_or_else(|| panic!("{object} has no id"))
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
