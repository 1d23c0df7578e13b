//! Settings of the host for commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::home::UserHome;
use windlass_process::{Confinement, Records, ResourceLimits, ShutdownSequence};

/// The host's variables that commands may inherit.
pub const ALLOWED_VARIABLES: &[&str] = &[
    "COLORTERM",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_COLLATE",
    "LC_CTYPE",
    "LC_MESSAGES",
    "LC_MONETARY",
    "LC_NUMERIC",
    "LC_TIME",
    "LOGNAME",
    "PATH",
    "TZ",
    "USER",
];

/// `PATH` of commands if the host sets none.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Extra time for the cleanup after a command's time limit.
const SLACK: Duration = Duration::from_secs(30);

/// Settings of the host for commands.
#[derive(Debug, Clone)]
pub struct ShellSettings {
    /// The variables of commands; they get no others.
    pub variables: BTreeMap<String, String>,
    /// Owner of the commands, with which a later process finds them by [`end_leftovers`](crate::end_leftovers). It must be stable, such as a digest
    /// of the host's data directory. `None` disables this.
    pub owner: Option<String>,
    /// Where the processes of commands are recorded, with which a later process ends them by [`Records::end_leftovers`], even if they removed their
    /// mark. `None` disables this.
    pub records: Option<Records>,
    /// Parent of the directories for temporary files, for sandboxes that provide none.
    pub scratch: PathBuf,
    /// The methods of confinement, best first; the first that works on this machine is used.
    pub ways: Vec<Confinement>,
    /// The user's home, of which commands see only opened paths. Without it they can read the whole home, and have an empty private one.
    pub home: Option<UserHome>,
    /// Whether commands may open pseudo-terminals under Landlock. Off by default, because they could then also access the user's other terminals and
    /// read their input. In bubblewrap they always may.
    pub has_terminals: bool,
    /// The shell that interprets the commands.
    pub shell: PathBuf,
    /// Default time limit of a command.
    pub timeout: Duration,
    /// Maximum time limit of a command that a model can request.
    pub max_timeout: Duration,
    /// Maximum time limit of a background command, and its default.
    pub max_background_time: Duration,
    /// Maximum number of background commands of one session.
    pub max_background_of_session: usize,
    /// Maximum number of background commands of all sessions.
    pub max_background: usize,
    /// Time for a command to exit after SIGTERM before it is killed.
    pub grace: Duration,
    /// Maximum data memory of each process of a command in bytes; `None` means no limit.
    pub max_memory_bytes: Option<u64>,
    /// Maximum number of processes and threads of a command; `None` means the system's limit. The kernel counts only those of the sandbox's
    /// namespace, and does not limit root. Without such a sandbox it would count all processes of the user, so no limit is set then.
    pub max_processes: Option<u64>,
    /// Maximum size of the output for the model in bytes: one half from the beginning, one from the end.
    pub max_output_bytes: usize,
    /// Maximum size of the output shown while the command runs, in bytes.
    pub max_streamed_bytes: usize,
    /// Names of the operator's secrets that commands can find in their variables, for the tool's description. The secrets of a call come with its
    /// context ([`ToolContext::secrets`](windlass_core::traits::ToolContext)).
    pub secret_names: Vec<String>,
    /// The filtered network; without it commands are refused in environments that filter the network.
    #[cfg(feature = "web")]
    pub proxy: Option<crate::proxy::ShellProxy>,
}

impl Default for ShellSettings {
    fn default() -> Self {
        let bash = Path::new("/bin/bash");
        let shell = if bash.exists() {
            bash
        } else {
            Path::new("/bin/sh")
        };
        Self {
            variables: BTreeMap::from([
                ("LANG".to_owned(), "C.UTF-8".to_owned()),
                ("PATH".to_owned(), DEFAULT_PATH.to_owned()),
            ]),
            owner: None,
            records: None,
            scratch: PathBuf::from("/tmp"),
            ways: vec![Confinement::Bubblewrap, Confinement::Landlock],
            home: None,
            has_terminals: false,
            shell: shell.to_owned(),
            timeout: Duration::from_secs(120),
            max_timeout: Duration::from_secs(3600),
            max_background_time: Duration::from_secs(4 * 3600),
            max_background_of_session: 8,
            max_background: 64,
            grace: Duration::from_secs(1),
            max_memory_bytes: Some(8 * 1024 * 1024 * 1024),
            max_processes: Some(2048),
            max_output_bytes: 32 * 1024,
            max_streamed_bytes: 64 * 1024,
            secret_names: Vec::new(),
            #[cfg(feature = "web")]
            proxy: None,
        }
    }
}

impl ShellSettings {
    /// Copies those of the host's variables that are in [`ALLOWED_VARIABLES`].
    ///
    /// A host passes `std::env::vars_os()`; the library itself reads no variable.
    #[must_use]
    pub fn with_variables_of<N, V>(mut self, host: impl IntoIterator<Item = (N, V)>) -> Self
    where
        N: Into<std::ffi::OsString>,
        V: Into<std::ffi::OsString>,
    {
        for (name, value) in host {
            let (Ok(name), Ok(value)) = (name.into().into_string(), value.into().into_string())
            else {
                continue;
            };
            if ALLOWED_VARIABLES.contains(&name.as_str()) {
                self.variables.insert(name, value);
            }
        }
        self
    }

    pub(super) fn limits(&self) -> ResourceLimits {
        ResourceLimits {
            max_memory_bytes: self.max_memory_bytes,
            max_processes: self.max_processes,
        }
    }

    pub(crate) fn shutdown(&self) -> ShutdownSequence {
        ShutdownSequence::terminate(self.grace)
    }

    /// Returns the time limit of a command.
    pub(super) fn time_for(&self, requested_ms: Option<u64>) -> Duration {
        let requested = requested_ms.map_or(self.timeout, Duration::from_millis);
        requested.min(self.max_timeout)
    }

    /// Returns the time limit of a background command.
    pub(super) fn background_time_for(&self, requested_ms: Option<u64>) -> Duration {
        let requested = requested_ms.map_or(self.max_background_time, Duration::from_millis);
        requested.min(self.max_background_time)
    }

    /// Returns the maximum time of a call including cleanup.
    pub(super) fn longest_call(&self) -> Duration {
        self.max_timeout + self.grace + SLACK
    }
}
