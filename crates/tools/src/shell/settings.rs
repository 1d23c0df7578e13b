//! What a host can set for commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::home::UserHome;
use windlass_process::{Confinement, Ladder, Limits, Records};

/// The variables that commands may get of the host's; everything else stays behind.
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

/// Where programs are looked for when the host does not say.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// How much longer than its time a call may take to be cleaned up after.
const SLACK: Duration = Duration::from_secs(30);

/// What a host can set for commands.
#[derive(Debug, Clone)]
pub struct ShellSettings {
    /// The variables that commands get, and no others.
    pub variables: BTreeMap<String, String>,
    /// Whose commands these are, if anybody wants to find them in a later life with [`end_leftovers`](crate::end_leftovers):
    /// a name that stays, such as a digest of where the host keeps its data.
    pub owner: Option<String>,
    /// Where the processes of commands are recorded, if anybody wants to find them in a later life with
    /// [`Records::end_leftovers`]: also those that have thrown away all by which they were marked.
    pub records: Option<Records>,
    /// Where commands get a directory for their temporary files, unless their sandbox has its own.
    pub scratch: PathBuf,
    /// The ways to confine commands, best first; the first that works here is taken.
    pub ways: Vec<Confinement>,
    /// The user's home, of which commands see only what it opens; without it they may read all of the home, and have an empty one of their own.
    pub home: Option<UserHome>,
    /// Whether commands may make pseudo-terminals under Landlock; off by default, because they reach the user's other terminals then
    /// too, and could read what is typed there. In bubblewrap they always may.
    pub has_terminals: bool,
    /// The shell that reads the commands.
    pub shell: PathBuf,
    /// How long a command may take when the model does not say.
    pub timeout: Duration,
    /// How long a command may take whatever the model says.
    pub max_timeout: Duration,
    /// How long a command may take in the background, whatever the model says; that is also what it has when the model does not say.
    pub max_background_time: Duration,
    /// How many commands of one session may run in the background at once.
    pub max_background_of_session: usize,
    /// How many commands of all sessions may.
    pub max_background: usize,
    /// How long a command may take to end by itself when it is told to, before it is killed.
    pub grace: Duration,
    /// How much memory each process of a command may use for its data, in bytes; `None` is as much as there is.
    pub max_memory_bytes: Option<u64>,
    /// How many processes and threads the command may have at once; `None` is as many as the system allows. The kernel
    /// counts those of a sandbox of namespaces alone and lets root have any number; without such a sandbox it would
    /// count all of the user's, so there nothing is set.
    pub max_processes: Option<u64>,
    /// How many bytes of output the model gets: one half from the beginning, one from the end.
    pub max_output_bytes: usize,
    /// How many bytes of output are shown while the command runs.
    pub max_streamed_bytes: usize,
    /// The names of the operator's secrets that commands may find in their variables: the model is told them. Which a call really gets
    /// comes with it ([`ToolContext::secrets`](windlass_core::traits::ToolContext)).
    pub secret_names: Vec<String>,
    /// What commands reach in environments whose network is filtered; without it they are refused there.
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
    /// Takes those of the host's variables that are in [`ALLOWED_VARIABLES`].
    ///
    /// A host hands in `std::env::vars_os()`; the library itself reads no variable.
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

    pub(super) fn limits(&self) -> Limits {
        Limits {
            max_memory_bytes: self.max_memory_bytes,
            max_processes: self.max_processes,
        }
    }

    pub(crate) fn ladder(&self) -> Ladder {
        Ladder::terminate(self.grace)
    }

    /// Returns how long a command may take.
    pub(super) fn time_for(&self, asked_ms: Option<u64>) -> Duration {
        let asked = asked_ms.map_or(self.timeout, Duration::from_millis);
        asked.min(self.max_timeout)
    }

    /// Returns how long a command may take in the background.
    pub(super) fn background_time_for(&self, asked_ms: Option<u64>) -> Duration {
        let asked = asked_ms.map_or(self.max_background_time, Duration::from_millis);
        asked.min(self.max_background_time)
    }

    /// Returns how long a call may take with everything around it.
    pub(super) fn longest_call(&self) -> Duration {
        self.max_timeout + self.grace + SLACK
    }
}
