//! The daemon as a process of its own, and a client of a few lines.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use super::agent;
use crate::harness::Killed;

const TOKEN: &str = "a-token-for-crashes";
/// How the agent is named.
pub(super) const BACKEND: &str = "killed";
/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where daemons live one after the other.
pub(super) struct Home {
    directory: tempfile::TempDir,
    daemon: PathBuf,
}

impl Home {
    /// Makes a home with an agent in its workspace: what lies there is seen in every sandbox.
    pub(super) fn new(daemon: &Path, own_program: &Path) -> Result<Self, String> {
        let made = || -> std::io::Result<tempfile::TempDir> {
            let directory = tempfile::tempdir()?;
            let workspace = directory.path().join("workspace");
            fs::create_dir(&workspace)?;
            let program = workspace.join("agent");
            fs::copy(own_program, &program)?;
            let config = format!(
                "[backends.{BACKEND}]\nkind = 'claude-code'\nhome = 'own'\ncommand = '{}'\narguments = ['{}']\n",
                program.display(),
                agent::WORD
            );
            fs::write(directory.path().join("windlass.toml"), config)?;
            Ok(directory)
        };
        Ok(Self {
            directory: made().map_err(|error| format!("no home can be made: {error}"))?,
            daemon: daemon.to_owned(),
        })
    }

    /// The home of the agent in threads that nobody else owns.
    pub(super) fn of_agent(&self) -> PathBuf {
        let homes = self.directory.path().join("data/backends");
        homes.join(BACKEND).join("operator")
    }

    /// Starts a daemon and returns when it listens.
    pub(super) fn start(&self) -> Result<Daemon, String> {
        let at = |name: &str| self.directory.path().join(name);
        let mut command = Command::new(&self.daemon);
        command
            .args(["serve", "--port", "0", "--model", "sim", "--token", TOKEN])
            .arg("--data")
            .arg(at("data"))
            .arg("--workspace")
            .arg(at("workspace"))
            .arg("--config")
            .arg(at("windlass.toml"))
            .current_dir(self.directory.path())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let child = command.spawn();
        let mut child = child.map_err(|error| format!("the daemon does not start: {error}"))?;
        let said = child.stdout.take().map(BufReader::new);
        let process = Killed(child);
        let mut line = String::new();
        if let Some(mut said) = said {
            let read = said.read_line(&mut line);
            read.map_err(|error| error.to_string())?;
        }
        let address = line.trim_end().rsplit_once("listening on http://");
        let (_, address) = address.ok_or("the daemon does not listen")?;
        Ok(Daemon {
            address: address.to_owned(),
            process,
        })
    }

    /// Returns the living processes of the agent, each with the moment of its start.
    pub(super) fn processes(&self) -> Vec<(u32, String)> {
        let marker = format!("HOME={}", self.of_agent().display());
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        let of_agent = pids.filter(|pid: &u32| {
            let around = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
            around
                .split(|byte| *byte == 0)
                .any(|variable| variable == marker.as_bytes())
        });
        of_agent
            .filter_map(|pid| Some((pid, started_at(pid)?)))
            .collect()
    }
}

/// Returns when a process was started, as the system counts; `None` of one that is gone or only waits to be buried.
pub(super) fn started_at(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(str::to_owned))?
}

/// A daemon that listens.
pub(super) struct Daemon {
    address: String,
    process: Killed,
}

impl Daemon {
    pub(super) fn kill(mut self) -> Result<(), String> {
        self.process.kill()
    }

    pub(super) fn get(&self, path: &str) -> Result<Value, String> {
        self.ask("GET", path, "")
    }

    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.ask("POST", path, &body.to_string())
    }

    fn ask(&self, method: &str, path: &str, body: &str) -> Result<Value, String> {
        let answer = self.exchange(method, path, body);
        let answer = answer.map_err(|error| format!("{method} {path}: {error}"))?;
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        match head.split(' ').nth(1) {
            Some(status) if status.starts_with('2') => {
                serde_json::from_str(body).map_err(|error| format!("{method} {path}: {error}"))
            }
            _ => Err(format!("{method} {path} was answered with {answer}")),
        }
    }

    fn exchange(&self, method: &str, path: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(&self.address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        write!(
            stream,
            "{method} {path} HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.address,
            body.len()
        )?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer)?;
        Ok(answer)
    }
}
