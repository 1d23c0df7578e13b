//! Starting the program of an agent.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::backend::{BackendError, BackendErrorKind, BackendSpec, BackendVersion};
use windlass_process::{
    Lines, Output, ProcessError, Program, Running, SandboxSpec, Stderr, Stdin, StdinWriter, Stdout,
};

use super::SessionSettings;
use crate::json::cut_text;

/// Bytes of standard error that are buffered; [`finish`](super::finish) reports the tail of them.
const STORED_STDERR: usize = 8 * 1024;
/// Unread bytes of standard error that are buffered; more is discarded.
const UNREAD_STDERR: usize = 64 * 1024;
/// Time limit for a program to report its version. Some need half of it to start.
const CHECK_TIME: Duration = Duration::from_secs(60);

/// The program to start.
pub(crate) struct AgentProgram {
    pub(crate) program: String,
    pub(crate) how_to_install: String,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) sandbox: SandboxSpec,
    pub(crate) settings: SessionSettings,
}

pub(super) struct AgentProcess {
    pub(super) running: Running,
    pub(super) stdin_writer: StdinWriter,
    pub(super) lines: Lines,
    pub(super) stderr: Arc<Output>,
}

impl AgentProgram {
    pub(super) async fn start(self, spec: &BackendSpec) -> Result<AgentProcess, BackendError> {
        let stderr = Arc::new(Output::unending(STORED_STDERR, UNREAD_STDERR));
        let mut program = prepare(spec, self.sandbox, &self.program, &stderr);
        program.arguments = self.arguments;
        program.stdin = Stdin::Piped;
        program.stdout = Stdout::Piped;
        program.stderr = Stderr::Captured(Arc::clone(&stderr));
        program.shutdown = self.settings.shutdown.clone();
        let started = program.start().await;
        let mut running = started.map_err(|error| not_started(&error, &self.how_to_install))?;
        let (Some(stdin_writer), Some(chunks)) = (running.stdin_writer(), running.chunks()) else {
            let message = "the program was started without pipes";
            return Err(BackendError::new(BackendErrorKind::SpawnFailed, message));
        };
        Ok(AgentProcess {
            running,
            stdin_writer,
            lines: chunks.lines(self.settings.max_line_bytes),
            stderr,
        })
    }

    /// Runs the program to learn its version.
    pub(crate) async fn version(self, spec: &BackendSpec) -> Result<BackendVersion, BackendError> {
        let printed = Arc::new(Output::new(STORED_STDERR, 0));
        let mut program = prepare(spec, self.sandbox, &self.program, &printed);
        program.arguments = vec!["--version".into()];
        program.time = Some(CHECK_TIME);
        let not_started = |error| not_started(&error, &self.how_to_install);
        let ended = program.start().await.map_err(not_started)?.end().await;
        let ended = ended.map_err(not_started)?;
        let (text, _) = printed.text();
        if ended.status.is_some_and(|status| status.success()) {
            // Warnings precede the version.
            let line = text.trim().lines().next_back().unwrap_or_default();
            let version = cut_text(line, 512);
            return Ok(BackendVersion { version });
        }
        let message = format!("`--version` failed: {}", cut_text(text.trim(), 512));
        Err(BackendError::new(BackendErrorKind::SpawnFailed, message))
    }
}

fn prepare(spec: &BackendSpec, sandbox: SandboxSpec, usual: &str, output: &Arc<Output>) -> Program {
    let command = spec.command.clone().unwrap_or_else(|| usual.into());
    let mut program = sandbox.program(command, Arc::clone(output));
    program.sandbox.bounds.cwd.clone_from(&spec.cwd);
    for (name, value) in &spec.variables {
        // The sandbox sets the directory of temporary files.
        let variable = program.variables.entry(name.into());
        variable.or_insert(value.into());
    }
    program
}

fn not_started(error: &ProcessError, how_to_install: &str) -> BackendError {
    let message = match error {
        ProcessError::NotFound { .. } => format!("{error}; {how_to_install}"),
        other => other.to_string(),
    };
    BackendError::new(BackendErrorKind::SpawnFailed, message)
}
