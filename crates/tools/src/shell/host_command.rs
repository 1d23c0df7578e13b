//! Programs of the host that read a directory with untrusted contents, such as git.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_process::{
    Cause, Confinement, Network, Output, Program, SandboxBounds, SandboxSpec, Stderr, open_path,
};

use super::ShellSettings;
use crate::environments::Environments;

/// Retained size of a program's stderr output.
const MAX_ERROR_BYTES: usize = 4 * 1024;

/// A program that reads a directory.
///
/// The directory's contents may make it do anything. It runs in a sandbox in which it can change no file, has no network and sees no hidden path of
/// the host; if there is no sandbox, it does not run. It has no input, and only the variables given here.
#[derive(Debug, Clone)]
pub struct HostCommand {
    /// Absolute path of the program.
    pub program: PathBuf,
    pub arguments: Vec<OsString>,
    pub variables: BTreeMap<String, String>,
    /// The directory to read, which is its working directory.
    pub directory: PathBuf,
    pub time: Duration,
    /// Maximum size of its stdout; more is an error.
    pub max_output_bytes: usize,
}

/// The result of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostCommandOutput {
    /// Its exit code; `None` if a signal ended it.
    pub exit_code: Option<i32>,
    /// Its complete stdout.
    pub output: String,
    /// The beginning and end of its stderr.
    pub errors: String,
}

/// Why a program has no result.
#[derive(Debug, thiserror::Error)]
pub enum HostCommandError {
    /// No confinement works on this machine.
    #[error(
        "no sandbox works on this machine or is allowed, and {} does not run without one; install bubblewrap or use a Linux \
         with landlock",
        program.display()
    )]
    NoSandbox { program: PathBuf },
    /// The directory is hidden by the host.
    #[error("{} belongs to the host program and is not read", directory.display())]
    Hidden { directory: PathBuf },
    /// The directory cannot be opened.
    #[error("{} cannot be opened: {source}", directory.display())]
    Directory {
        directory: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// The time limit expired.
    #[error("{} did not end within {limit_ms} ms and was stopped", program.display())]
    TimedOut {
        program: PathBuf,
        /// The time limit in milliseconds.
        limit_ms: u128,
    },
    /// The output exceeds its limit.
    #[error("{} printed more than {limit} bytes", program.display())]
    TooMuch {
        program: PathBuf,
        /// The limit in bytes.
        limit: usize,
    },
    /// The program could not be started or supervised.
    #[error("{} could not be run: {why}", program.display())]
    NotRun {
        program: PathBuf,
        /// The error's message.
        why: String,
    },
}

impl HostCommand {
    /// Runs the program to its end; dropping the future stops it. `environments` provides the hidden paths, `settings` the methods of confinement and
    /// their limits.
    pub async fn run(
        self,
        environments: &Environments,
        settings: &ShellSettings,
    ) -> Result<HostCommandOutput, HostCommandError> {
        let (program, limit, time) = (self.program.clone(), self.max_output_bytes, self.time);
        let not_run = |why: String| HostCommandError::NotRun {
            program: program.clone(),
            why,
        };
        let output = Arc::new(Output::new(limit, 0));
        let errors = Arc::new(Output::new(MAX_ERROR_BYTES, 0));
        let (registry, settings) = (environments.clone(), settings.clone());
        let to = (Arc::clone(&output), Arc::clone(&errors));
        let prepared = tokio::task::spawn_blocking(move || self.prepare(&registry, &settings, to));
        let prepared = prepared
            .await
            .map_err(|error| not_run(error.to_string()))??;
        let running = prepared.start().await;
        let mut running = running.map_err(|error| not_run(error.to_string()))?;
        let end = running.end().await;
        let end = end.map_err(|error| not_run(error.to_string()))?;
        if end.cause == Cause::TimedOut {
            let limit_ms = time.as_millis();
            return Err(HostCommandError::TimedOut { program, limit_ms });
        }
        let (output, left_out) = output.text();
        if left_out.is_some() {
            return Err(HostCommandError::TooMuch { program, limit });
        }
        Ok(HostCommandOutput {
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
    ) -> Result<Program, HostCommandError> {
        let ways = settings.ways.iter().copied();
        let mut ways = ways.filter(|way| *way != Confinement::Unconfined);
        let Some(confinement) = ways.find(|way| way.works_here()) else {
            return Err(HostCommandError::NoSandbox {
                program: self.program,
            });
        };
        let directory = |source| HostCommandError::Directory {
            directory: self.directory.clone(),
            source,
        };
        let real = self.directory.canonicalize().map_err(directory)?;
        let handle = open_path(&real).map_err(directory)?;
        let hidden = environments.hidden();
        if hidden.covers(&handle).map_err(directory)? {
            return Err(HostCommandError::Hidden {
                directory: self.directory,
            });
        }
        let mut bounds = SandboxBounds {
            root: real.clone(),
            cwd: real,
            is_writable: false,
            also_writable: Vec::new(),
            also_readable: Vec::new(),
            hidden: Arc::new(hidden),
            pinned: Vec::new(),
            network: Network::None,
            private_home: None,
            has_terminals: false,
            scratch: None,
        };
        if let Some(home) = &settings.home {
            home.hide(&mut bounds);
        }
        let sandbox = SandboxSpec {
            limits: settings.limits(),
            owner: settings.owner.clone(),
            records: settings.records.clone(),
            ..SandboxSpec::new(confinement, bounds, handle)
        };
        let mut program = sandbox.program(self.program, output);
        program.arguments = self.arguments;
        let variables = self.variables.into_iter();
        program.variables = variables
            .map(|(name, value)| (name.into(), value.into()))
            .collect();
        program.stderr = Stderr::Captured(errors);
        program.time = Some(self.time);
        program.shutdown = settings.shutdown();
        Ok(program)
    }
}
