//! Programs of the host's own that look at a directory which others may have filled, such as git.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_process::{
    Bounds, Cause, Confinement, Network, Output, Program, Stderr, open_to_look,
};

use super::ShellSettings;
use crate::environments::Environments;

/// How much is kept of what a program complains about.
const MAX_ERROR_BYTES: usize = 4 * 1024;

/// A program that looks at a directory.
///
/// What is in the directory may make it do anything: it runs in a sandbox in which it can change no file, reach nobody and
/// see nothing that the host hides, or it does not run at all. It has no input and no variables but those named here.
#[derive(Debug, Clone)]
pub struct Look {
    /// The program, by its absolute path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Its variables.
    pub variables: BTreeMap<String, String>,
    /// The directory to look at, in which it is started.
    pub directory: PathBuf,
    /// How long it may take.
    pub time: Duration,
    /// How much it may say.
    pub max_output_bytes: usize,
}

/// What a program saw.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LookOutput {
    /// Its exit code; `None` when a signal ended it.
    pub exit_code: Option<i32>,
    /// What it said on stdout, whole.
    pub output: String,
    /// The beginning and end of what it said on stderr.
    pub errors: String,
}

/// Why a program saw nothing.
#[derive(Debug, thiserror::Error)]
pub enum LookError {
    /// Nothing can confine it.
    #[error(
        "no sandbox works on this machine or is allowed to, and {} does not run without one; install bubblewrap or use a Linux \
         with landlock",
        program.display()
    )]
    NoSandbox {
        /// The program.
        program: PathBuf,
    },
    /// The directory is the host's own.
    #[error("{} is the host's own and not looked at", directory.display())]
    Hidden {
        /// The directory.
        directory: PathBuf,
    },
    /// The directory cannot be opened.
    #[error("{} cannot be opened: {source}", directory.display())]
    Directory {
        /// The directory.
        directory: PathBuf,
        /// What the system says.
        source: std::io::Error,
    },
    /// It took too long.
    #[error("{} did not end within {limit_ms} ms and was stopped", program.display())]
    TimedOut {
        /// The program.
        program: PathBuf,
        /// How long it had.
        limit_ms: u128,
    },
    /// It said more than anybody wants to read.
    #[error("{} said more than {limit} bytes", program.display())]
    TooMuch {
        /// The program.
        program: PathBuf,
        /// The limit.
        limit: usize,
    },
    /// It could not be started or looked after.
    #[error("{} could not be run: {why}", program.display())]
    NotRun {
        /// The program.
        program: PathBuf,
        /// What happened.
        why: String,
    },
}

impl Look {
    /// Runs the program to its end; when the future is dropped, it is stopped. What is hidden comes from `environments`, and
    /// the ways to confine it and its limits from `settings`.
    pub async fn run(
        self,
        environments: &Environments,
        settings: &ShellSettings,
    ) -> Result<LookOutput, LookError> {
        let (program, limit, time) = (self.program.clone(), self.max_output_bytes, self.time);
        let not_run = |why: String| LookError::NotRun {
            program: program.clone(),
            why,
        };
        let output = Arc::new(Output::new(limit, 0));
        let errors = Arc::new(Output::new(MAX_ERROR_BYTES, 0));
        let (registry, settings) = (environments.clone(), settings.clone());
        let to = (Arc::clone(&output), Arc::clone(&errors));
        let ready = tokio::task::spawn_blocking(move || self.prepare(&registry, &settings, to));
        let ready = ready.await.map_err(|error| not_run(error.to_string()))??;
        let running = ready.start().await;
        let mut running = running.map_err(|error| not_run(error.to_string()))?;
        let end = running.end().await;
        let end = end.map_err(|error| not_run(error.to_string()))?;
        if end.cause == Cause::TimeOver {
            let limit_ms = time.as_millis();
            return Err(LookError::TimedOut { program, limit_ms });
        }
        let (output, left_out) = output.text();
        if left_out.is_some() {
            return Err(LookError::TooMuch { program, limit });
        }
        Ok(LookOutput {
            exit_code: end.status.and_then(|status| status.code()),
            output,
            errors: errors.text().0,
        })
    }

    fn prepare(
        self,
        environments: &Environments,
        settings: &ShellSettings,
        (output, errors): (Arc<Output>, Arc<Output>),
    ) -> Result<Program, LookError> {
        let ways = settings.ways.iter().copied();
        let mut ways = ways.filter(|way| *way != Confinement::Unconfined);
        let Some(confinement) = ways.find(|way| way.works_here()) else {
            return Err(LookError::NoSandbox {
                program: self.program,
            });
        };
        let directory = |source| LookError::Directory {
            directory: self.directory.clone(),
            source,
        };
        let real = self.directory.canonicalize().map_err(directory)?;
        let handle = open_to_look(&real).map_err(directory)?;
        let hidden = environments.hidden();
        if hidden.covers(&handle).map_err(directory)? {
            return Err(LookError::Hidden {
                directory: self.directory,
            });
        }
        let mut bounds = Bounds {
            root: real.clone(),
            cwd: real,
            is_writable: false,
            also_writable: Vec::new(),
            also_seen: Vec::new(),
            hidden: Arc::new(hidden),
            held: Vec::new(),
            network: Network::None,
            private_home: None,
            has_terminals: false,
            scratch: None,
        };
        if let Some(home) = &settings.home {
            home.hide(&mut bounds);
        }
        let mut program = Program::new(self.program, confinement, bounds, handle, output);
        program.arguments = self.arguments;
        let variables = self.variables.into_iter();
        program.variables = variables
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        program.limits = settings.limits();
        program.stderr = Stderr::Kept(errors);
        program.time = Some(self.time);
        program.ladder = settings.ladder();
        program.owner.clone_from(&settings.owner);
        program.records.clone_from(&settings.records);
        Ok(program)
    }
}
