//! A program that is ready to start.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;

use crate::confine::{Bounds, Confinement, Prepared};
use crate::error::ProcessError;
use crate::ladder::Ladder;
use crate::limits::{Limits, words_before};
use crate::network::Network;
use crate::output::Output;
use crate::processes::MARK;
use crate::proxied::{LAUNCHER_PLACE, Launcher, Proxied};
use crate::records::Records;

/// How long a program may take to end by itself, unless said otherwise.
const GRACE: Duration = Duration::from_secs(1);

/// What a program reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stdin {
    /// Nothing.
    Nothing,
    /// What [`Running::feed`](crate::Running::feed) is given.
    Fed,
}

/// Where goes what a program says.
#[derive(Clone)]
pub enum Stdout {
    /// Into what keeps its beginning and its end. The end of the program waits until all is read.
    Kept(Arc<Output>),
    /// To who reads [`Running::chunks`](crate::Running::chunks).
    Read,
}

/// Where goes what a program complains about.
#[derive(Clone)]
pub enum Stderr {
    /// To the rest of what it says.
    WithStdout,
    /// Into what keeps its beginning and its end.
    Kept(Arc<Output>),
}

/// A program that is ready to start.
pub struct Program {
    /// The program: its absolute path, or a name that is looked up in the `PATH` of [`variables`](Self::variables). Never a
    /// line for a shell.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its variables, beside the one that marks it. Nothing of the host's own comes with them.
    pub variables: BTreeMap<OsString, OsString>,
    /// How it is confined.
    pub confinement: Confinement,
    /// What it may touch. Without a sandbox only `cwd` counts.
    pub bounds: Bounds,
    /// A handle of the bounds' root.
    pub root: OwnedFd,
    /// Limits that the kernel holds it to.
    pub limits: Limits,
    /// What it reads.
    pub stdin: Stdin,
    /// Where goes what it says.
    pub stdout: Stdout,
    /// Where goes what it complains about.
    pub stderr: Stderr,
    /// How long it may take; `None` is as long as it likes.
    pub time: Option<Duration>,
    /// How it is asked to end before it is killed.
    pub ladder: Ladder,
    /// Whose program this is, if anybody wants to find it in a later life with [`end_leftovers`](crate::end_leftovers): a
    /// name that stays, such as a digest of where the host keeps its data.
    pub owner: Option<String>,
    /// What is removed when it has ended.
    pub scratch: Option<TempDir>,
    /// Where its processes are recorded while they live.
    pub records: Option<Records>,
    /// Its only way out of a network of its own; it reads nothing then.
    pub proxied: Option<Proxied>,
}

impl Program {
    /// A program without arguments, variables, input and limits. What it says and complains about is kept together.
    #[must_use]
    pub fn new(
        program: impl Into<PathBuf>,
        confinement: Confinement,
        bounds: Bounds,
        root: OwnedFd,
        output: Arc<Output>,
    ) -> Self {
        Self {
            program: program.into(),
            arguments: Vec::new(),
            variables: BTreeMap::new(),
            confinement,
            bounds,
            root,
            limits: Limits::default(),
            stdin: Stdin::Nothing,
            stdout: Stdout::Kept(output),
            stderr: Stderr::WithStdout,
            time: None,
            ladder: Ladder::terminate(GRACE),
            owner: None,
            scratch: None,
            records: None,
            proxied: None,
        }
    }

    /// Makes the mark of this start.
    pub(crate) fn new_mark(&self) -> String {
        let call = uuid::Uuid::now_v7().simple();
        match &self.owner {
            Some(owner) => format!("{owner}.{call}"),
            None => call.to_string(),
        }
    }

    /// Makes what the system starts. What it would refuse, or a sandbox only tell as an exit code, is told here.
    pub(crate) fn command(&self, mark: &str) -> Result<Prepared, ProcessError> {
        self.refuse_nul()?;
        let program = self.find()?;
        self.refuse_unseen(&program)?;
        let directory = |source| ProcessError::Directory {
            directory: self.bounds.cwd.clone(),
            source,
        };
        let cwd = self.bounds.cwd.metadata().map_err(directory)?;
        if !cwd.is_dir() {
            return Err(directory(std::io::ErrorKind::NotADirectory.into()));
        }
        let launcher = self.launcher()?;
        let before = words_before(self.limits, self.confinement).into_iter();
        let mut words: Vec<OsString> = before.map(Into::into).collect();
        if let Some(launcher) = launcher {
            words.push(LAUNCHER_PLACE.into());
            words.extend(launcher.words.iter().cloned());
        }
        words.push(program.into());
        let mut words = words.into_iter().chain(self.arguments.iter().cloned());
        // There is one at least.
        let first = PathBuf::from(words.next().unwrap_or_default());
        let mut variables = self.variables.clone();
        variables.insert(MARK.into(), mark.into());
        let shown = launcher.map(|launcher| launcher.program.as_path());
        let prepared = self
            .confinement
            .command(&self.bounds, shown, &first, &variables);
        let mut prepared = prepared.map_err(ProcessError::io("hand over variables"))?;
        // A sandbox is marked like what is in it.
        prepared.command.args(words).env(MARK, mark);
        Ok(prepared)
    }

    /// Returns what makes its way out, if it has one. Only a network of its own has a loopback that is nobody else's.
    fn launcher(&self) -> Result<Option<&Launcher>, ProcessError> {
        let Some(proxied) = &self.proxied else {
            return Ok(None);
        };
        let refused = |why: &str| Err(ProcessError::Sandbox(why.to_owned()));
        if (self.confinement, self.bounds.network) != (Confinement::Bubblewrap, Network::Filtered) {
            return refused("a filtered network needs bubblewrap");
        }
        if self.stdin != Stdin::Nothing {
            return refused("a program with a filtered network reads nothing");
        }
        look_at(&proxied.launcher.program)?;
        Ok(Some(&proxied.launcher))
    }

    /// Refuses a program that the sandbox would say is not there, although everybody can see that it is.
    fn refuse_unseen(&self, program: &Path) -> Result<(), ProcessError> {
        let bounds = &self.bounds;
        let mut seen = bounds.also_writable.iter().chain(&bounds.also_seen);
        let is_seen = program.starts_with(&bounds.root) || seen.any(|it| program.starts_with(it));
        if self.confinement == Confinement::Bubblewrap && program.starts_with("/tmp") && !is_seen {
            let program = program.to_owned();
            return Err(ProcessError::OutOfSight { program });
        }
        Ok(())
    }

    fn refuse_nul(&self) -> Result<(), ProcessError> {
        let holds_nul = |text: &OsStr| text.as_bytes().contains(&0);
        let mut arguments = self.arguments.iter();
        let mut values = self.variables.values();
        let place = match () {
            () if holds_nul(self.program.as_os_str()) => "the program's name",
            () if arguments.any(|argument| holds_nul(argument)) => "an argument",
            () if values.any(|value| holds_nul(value)) => "a variable",
            () if holds_nul(self.bounds.cwd.as_os_str()) => "the directory",
            () => {
                let is_bad = |name: &&OsString| {
                    name.is_empty() || name.as_bytes().iter().any(|byte| b"\0=".contains(byte))
                };
                return match self.variables.keys().find(is_bad) {
                    Some(name) => Err(ProcessError::VariableName {
                        name: name.to_string_lossy().into_owned(),
                    }),
                    None => Ok(()),
                };
            }
        };
        Err(ProcessError::Nul { place })
    }

    /// Finds the program as the host sees it; a sandbox may hide it yet.
    fn find(&self) -> Result<PathBuf, ProcessError> {
        let named = || self.program.clone();
        if self.program.is_absolute() {
            return look_at(&self.program);
        }
        if self.program.components().count() != 1 || self.program.as_os_str().is_empty() {
            return Err(match self.program.as_os_str().is_empty() {
                true => ProcessError::NotFound { program: named() },
                false => ProcessError::RelativePath { program: named() },
            });
        }
        let places = self.variables.get(OsStr::new("PATH")).cloned();
        let places = places
            .iter()
            .flat_map(std::env::split_paths)
            .filter(|place| place.is_absolute());
        // As shells do: one that may not be executed is told only if there is no other.
        let mut told = ProcessError::NotFound { program: named() };
        for place in places {
            match look_at(&place.join(&self.program)) {
                Ok(found) => return Ok(found),
                Err(ProcessError::NotFound { .. }) => {}
                Err(other) => told = other,
            }
        }
        Err(told)
    }
}

fn look_at(path: &Path) -> Result<PathBuf, ProcessError> {
    let program = path.to_owned();
    let metadata = match path.metadata() {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
            return Err(ProcessError::NotExecutable { program });
        }
        Err(_) => return Err(ProcessError::NotFound { program }),
    };
    match () {
        () if metadata.is_dir() => Err(ProcessError::IsDirectory { program }),
        () if !metadata.is_file() || metadata.permissions().mode() & 0o111 == 0 => {
            Err(ProcessError::NotExecutable { program })
        }
        () => Ok(program),
    }
}
