//! A program that is ready to start.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use crate::confine::{Confinement, Prepared};
use crate::error::ProcessError;
use crate::limits::wrapper_arguments;
use crate::network::Network;
use crate::output::Output;
use crate::processes::MARK;
use crate::proxied::{LAUNCHER_PATH, Launcher, Proxied};
use crate::sandbox_spec::SandboxSpec;
use crate::shutdown::ShutdownSequence;

/// Default time for a program to exit before it is killed.
const GRACE: Duration = Duration::from_secs(1);

/// The program's standard input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// An empty input.
    Empty,
    /// The bytes sent through [`Running::stdin_writer`](crate::Running::stdin_writer).
    Piped,
}

/// Destination of the program's standard output.
#[derive(Clone)]
pub enum Stdout {
    /// An [`Output`], which retains the beginning and the end. The program's end is reported after everything is read.
    Captured(Arc<Output>),
    /// The reader of [`Running::chunks`](crate::Running::chunks).
    Piped,
}

/// Destination of the program's standard error.
#[derive(Clone)]
pub enum Stderr {
    /// The same destination as standard output.
    WithStdout,
    /// An [`Output`], which retains the beginning and the end.
    Captured(Arc<Output>),
}

/// A program that is ready to start.
pub struct Program {
    /// Absolute path of the program, or a name that is looked up in the `PATH` of [`variables`](Self::variables). Never a shell command line.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    /// Its environment variables, apart from the one that marks it. It inherits none of the host's variables.
    pub variables: BTreeMap<OsString, OsString>,
    /// Its sandbox. Without confinement only the `cwd` of the bounds applies.
    pub sandbox: SandboxSpec,
    pub stdin: Stdin,
    pub stdout: Stdout,
    pub stderr: Stderr,
    /// Maximum run time; `None` means no limit.
    pub time: Option<Duration>,
    /// The shutdown steps before SIGKILL.
    pub shutdown: ShutdownSequence,
    /// The program's only way out of a private network. Its standard input is then used for the channel to the host.
    pub proxied: Option<Proxied>,
}

impl Program {
    /// A program without arguments and input, whose standard output and error are captured together. `TMPDIR` is its only variable, if the sandbox
    /// has a scratch directory.
    pub(crate) fn new(program: PathBuf, sandbox: SandboxSpec, output: Arc<Output>) -> Self {
        let tmpdir = sandbox.bounds.scratch.clone();
        let tmpdir = tmpdir.map(|scratch| ("TMPDIR".into(), scratch.into()));
        Self {
            program,
            arguments: Vec::new(),
            variables: tmpdir.into_iter().collect(),
            sandbox,
            stdin: Stdin::Empty,
            stdout: Stdout::Captured(output),
            stderr: Stderr::WithStdout,
            time: None,
            shutdown: ShutdownSequence::terminate(GRACE),
            proxied: None,
        }
    }

    /// Returns a unique mark for this start.
    pub(crate) fn new_mark(&self) -> String {
        let call = uuid::Uuid::now_v7().simple();
        match &self.sandbox.owner {
            Some(owner) => format!("{owner}.{call}"),
            None => call.to_string(),
        }
    }

    /// Builds the system command. Conditions that the system would refuse, or that a sandbox would report only as an exit code, are checked here.
    pub(crate) fn command(&self, mark: &str) -> Result<Prepared, ProcessError> {
        self.refuse_nul()?;
        let program = self.find()?;
        self.refuse_outside_sandbox(&program)?;
        let directory = |source| ProcessError::Directory {
            directory: self.sandbox.bounds.cwd.clone(),
            source,
        };
        let cwd = self.sandbox.bounds.cwd.metadata().map_err(directory)?;
        if !cwd.is_dir() {
            return Err(directory(std::io::ErrorKind::NotADirectory.into()));
        }
        let launcher = self.launcher()?;
        let before = wrapper_arguments(self.sandbox.limits, self.sandbox.confinement).into_iter();
        let mut words: Vec<OsString> = before.map(Into::into).collect();
        if let Some(launcher) = launcher {
            words.push(LAUNCHER_PATH.into());
            words.extend(launcher.words.iter().cloned());
        }
        words.push(program.into());
        let mut words = words.into_iter().chain(self.arguments.iter().cloned());
        // The list contains at least one word.
        let first = PathBuf::from(words.next().unwrap_or_default());
        let mut variables = self.variables.clone();
        variables.insert(MARK.into(), mark.into());
        let shown = launcher.map(|launcher| launcher.program.as_path());
        let prepared = self.sandbox.confinement.sandboxed_command(
            &self.sandbox.bounds,
            shown,
            &first,
            &variables,
        );
        let mut prepared = prepared.map_err(ProcessError::io("pass variables"))?;
        // The sandbox process gets the same mark as the processes in it.
        prepared.command.args(words).env(MARK, mark);
        Ok(prepared)
    }

    /// Returns the launcher for the proxied network, if there is one. Only a private network has a loopback interface that no other process shares.
    fn launcher(&self) -> Result<Option<&Launcher>, ProcessError> {
        let Some(proxied) = &self.proxied else {
            return Ok(None);
        };
        let refused = |why: &str| Err(ProcessError::Sandbox(why.to_owned()));
        if (self.sandbox.confinement, self.sandbox.bounds.network)
            != (Confinement::Bubblewrap, Network::Filtered)
        {
            return refused("a filtered network needs bubblewrap");
        }
        if self.stdin != Stdin::Empty {
            return refused("a program with a filtered network cannot have an input");
        }
        check_executable(&proxied.launcher.program)?;
        Ok(Some(&proxied.launcher))
    }

    /// Refuses a program that exists on the host but not in the sandbox: the sandbox's own error would be misleading.
    fn refuse_outside_sandbox(&self, program: &Path) -> Result<(), ProcessError> {
        let bounds = &self.sandbox.bounds;
        let mut visible = bounds.also_writable.iter().chain(&bounds.also_readable);
        let is_visible =
            program.starts_with(&bounds.root) || visible.any(|it| program.starts_with(it));
        if self.sandbox.confinement == Confinement::Bubblewrap
            && program.starts_with("/tmp")
            && !is_visible
        {
            let program = program.to_owned();
            return Err(ProcessError::NotInSandbox { program });
        }
        Ok(())
    }

    fn refuse_nul(&self) -> Result<(), ProcessError> {
        let program = [("the program's name", self.program.as_os_str())].into_iter();
        let arguments = self
            .arguments
            .iter()
            .map(|argument| ("an argument", argument.as_os_str()));
        let values = self
            .variables
            .values()
            .map(|value| ("a variable", value.as_os_str()));
        let directory = [("the directory", self.sandbox.bounds.cwd.as_os_str())];
        let mut texts = program.chain(arguments).chain(values).chain(directory);
        if let Some((place, _)) = texts.find(|(_, text)| text.as_bytes().contains(&0)) {
            return Err(ProcessError::Nul { place });
        }
        let is_invalid = |name: &&OsString| {
            name.is_empty() || name.as_bytes().iter().any(|byte| b"\0=".contains(byte))
        };
        let invalid = self.variables.keys().find(is_invalid);
        invalid.map_or(Ok(()), |name| {
            let name = name.to_string_lossy().into_owned();
            Err(ProcessError::VariableName { name })
        })
    }

    /// Finds the program on the host; a sandbox may still hide it.
    fn find(&self) -> Result<PathBuf, ProcessError> {
        let given = || self.program.clone();
        if self.program.is_absolute() {
            return check_executable(&self.program);
        }
        if self.program.as_os_str().is_empty() {
            return Err(ProcessError::NotFound { program: given() });
        }
        if self.program.components().count() != 1 {
            return Err(ProcessError::RelativePath { program: given() });
        }
        let path = self.variables.get(OsStr::new("PATH"));
        let directories = path.into_iter().flat_map(std::env::split_paths);
        // As in shells, a file that is not executable is reported only if there is no other match.
        let mut failure = ProcessError::NotFound { program: given() };
        for directory in directories.filter(|directory| directory.is_absolute()) {
            match check_executable(&directory.join(&self.program)) {
                Ok(found) => return Ok(found),
                Err(ProcessError::NotFound { .. }) => {}
                Err(other) => failure = other,
            }
        }
        Err(failure)
    }
}

fn check_executable(path: &Path) -> Result<PathBuf, ProcessError> {
    let program = path.to_owned();
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(ProcessError::NotExecutable { program });
        }
        Err(_) => return Err(ProcessError::NotFound { program }),
    };
    if metadata.is_dir() {
        Err(ProcessError::IsDirectory { program })
    } else if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 {
        Err(ProcessError::NotExecutable { program })
    } else {
        Ok(program)
    }
}
