//! The daemon as a process of its own, and a client of a few lines.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::harness::Killed;

const TOKEN: &str = "a-token-for-crashes";
/// Turns a hang into a failure.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where daemons live one after the other.
pub(crate) struct Home {
    directory: tempfile::TempDir,
    daemon: PathBuf,
    /// What the daemon is told beside the usual.
    pub(crate) arguments: Vec<String>,
    /// Variables that it has beside the usual.
    pub(crate) variables: Vec<(String, String)>,
}

impl Home {
    /// Makes a home with an empty workspace.
    pub(crate) fn new(daemon: &Path) -> Result<Self, String> {
        let made = || -> std::io::Result<tempfile::TempDir> {
            let directory = tempfile::tempdir()?;
            fs::create_dir(directory.path().join("workspace"))?;
            fs::write(directory.path().join("windlass.toml"), "")?;
            Ok(directory)
        };
        Ok(Self {
            directory: made().map_err(|error| format!("no home can be made: {error}"))?,
            daemon: daemon.to_owned(),
            arguments: Vec::new(),
            variables: Vec::new(),
        })
    }

    /// Writes the configuration.
    pub(crate) fn configure(&self, config: &str) -> Result<(), String> {
        let written = fs::write(self.directory.path().join("windlass.toml"), config);
        written.map_err(|error| error.to_string())
    }

    pub(crate) fn workspace(&self) -> PathBuf {
        self.directory.path().join("workspace")
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.directory.path().join("data")
    }

    /// Starts a daemon and returns when it listens.
    pub(crate) fn start(&self) -> Result<Daemon, String> {
        let mut command = Command::new(&self.daemon);
        command
            .args(["serve", "--port", "0", "--token", TOKEN])
            .args(&self.arguments)
            .arg("--data")
            .arg(self.data())
            .arg("--workspace")
            .arg(self.workspace())
            .arg("--config")
            .arg(self.directory.path().join("windlass.toml"))
            .current_dir(self.directory.path())
            .envs(self.variables.iter().cloned())
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
            client: Client {
                address: address.to_owned(),
                token: TOKEN.to_owned(),
            },
            process,
        })
    }
}

/// Returns when a process was started, as the system counts; `None` of one that is gone or only waits to be buried.
pub(crate) fn started_at(pid: u32) -> Option<String> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name before it may hold anything.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ');
    let state = fields.next()?;
    (state != "Z").then(|| fields.nth(18).map(str::to_owned))?
}

/// A daemon that listens.
pub(crate) struct Daemon {
    pub(crate) client: Client,
    process: Killed,
}

impl Daemon {
    pub(crate) fn kill(mut self) -> Result<(), String> {
        self.process.kill()
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, String> {
        self.client.get(path)
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.client.post(path, body)
    }
}

/// Somebody who asks a daemon.
#[derive(Clone)]
pub(crate) struct Client {
    address: String,
    token: String,
}

/// What a daemon answered.
#[derive(Debug, Clone)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) body: String,
}

impl Answer {
    pub(crate) fn json(&self) -> Result<Value, String> {
        serde_json::from_str(&self.body).map_err(|error| format!("{error}: {}", self.body))
    }
}

impl Client {
    /// Returns somebody else, who asks the same daemon.
    pub(crate) fn with_token(&self, token: &str) -> Self {
        Self {
            token: token.to_owned(),
            ..self.clone()
        }
    }

    pub(crate) fn get(&self, path: &str) -> Result<Value, String> {
        self.ask("GET", path, "")?.json()
    }

    pub(crate) fn post(&self, path: &str, body: &Value) -> Result<Value, String> {
        self.ask("POST", path, &body.to_string())?.json()
    }

    /// Asks for something that is expected to be given.
    pub(crate) fn ask(&self, method: &str, path: &str, body: &str) -> Result<Answer, String> {
        let answer = self.exchange(method, path, &[], body)?;
        match answer.status {
            200..300 => Ok(answer),
            _ => Err(format!("{method} {path} was answered with {answer:?}")),
        }
    }

    /// Asks, and returns whatever is answered. An error means that there was no whole answer.
    pub(crate) fn exchange(
        &self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Result<Answer, String> {
        let headers: String = headers
            .iter()
            .map(|(name, value)| format!("{name}: {value}\r\n"))
            .collect();
        let told = || -> std::io::Result<String> {
            let mut stream = TcpStream::connect(&self.address)?;
            stream.set_read_timeout(Some(PATIENCE))?;
            write!(
                stream,
                "{method} {path} HTTP/1.0\r\nhost: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n\
                 {headers}content-length: {}\r\n\r\n{body}",
                self.address,
                self.token,
                body.len()
            )?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            Ok(answer)
        };
        let lost = |what: &str| format!("{method} {path}: {what}");
        let answer = told().map_err(|error| lost(&error.to_string()))?;
        let (head, body) = answer
            .split_once("\r\n\r\n")
            .ok_or_else(|| lost("no whole answer"))?;
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_it = name.eq_ignore_ascii_case("content-length");
            is_it.then(|| value.trim().parse::<usize>().ok())?
        });
        match (status, length) {
            (Some(status), length) if length.is_none_or(|length| length == body.len()) => {
                Ok(Answer {
                    status,
                    body: body.to_owned(),
                })
            }
            _ => Err(lost("no whole answer")),
        }
    }
}
