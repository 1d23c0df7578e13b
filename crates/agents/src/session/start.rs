//! Starting the program of an agent.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::backend::{BackendError, BackendErrorKind, BackendSpec, BackendVersion};
use windlass_process::{
    Feed, Lines, Output, Place, ProcessError, Program, Running, Stderr, Stdin, Stdout,
};

use super::SessionSettings;
use crate::json::cut_text;

/// How much is kept of what an agent complains about: of this the end, as [`finish`](super::finish) cuts it.
const KEPT_COMPLAINTS: usize = 8 * 1024;
/// How much of it waits to be read; what comes meanwhile is not looked at.
const UNREAD_COMPLAINTS: usize = 64 * 1024;
/// How long a program may take to tell its version. Some need half of that to start.
const CHECK_TIME: Duration = Duration::from_secs(60);

/// What is to be started.
pub(crate) struct Start {
    pub(crate) program: String,
    pub(crate) how_to_install: String,
    pub(crate) arguments: Vec<OsString>,
    pub(crate) place: Place,
    pub(crate) settings: SessionSettings,
}

/// What was started.
pub(super) struct Started {
    pub(super) running: Running,
    pub(super) feed: Feed,
    pub(super) lines: Lines,
    pub(super) complaints: Arc<Output>,
}

impl Start {
    pub(super) async fn start(self, spec: &BackendSpec) -> Result<Started, BackendError> {
        let complaints = Arc::new(Output::unending(KEPT_COMPLAINTS, UNREAD_COMPLAINTS));
        let mut program = prepare(spec, self.place, &self.program, &complaints);
        program.arguments = self.arguments;
        program.stdin = Stdin::Fed;
        program.stdout = Stdout::Read;
        program.stderr = Stderr::Kept(Arc::clone(&complaints));
        program.ladder = self.settings.ladder.clone();
        let started = program.start().await;
        let mut running = started.map_err(|error| not_started(&error, &self.how_to_install))?;
        let (Some(feed), Some(chunks)) = (running.feed(), running.chunks()) else {
            let message = "the program was started without pipes";
            return Err(BackendError::new(BackendErrorKind::SpawnFailed, message));
        };
        Ok(Started {
            running,
            feed,
            lines: chunks.lines(self.settings.max_line_bytes),
            complaints,
        })
    }
}

/// Asks a program for its version.
pub(crate) async fn check(
    spec: &BackendSpec,
    place: Place,
    usual: &str,
    how_to_install: &str,
) -> Result<BackendVersion, BackendError> {
    let said = Arc::new(Output::new(KEPT_COMPLAINTS, 0));
    let mut program = prepare(spec, place, usual, &said);
    program.arguments = vec!["--version".into()];
    program.time = Some(CHECK_TIME);
    let started = program.start().await;
    let mut running = started.map_err(|error| not_started(&error, how_to_install))?;
    let ended = running.end().await;
    let ended = ended.map_err(|error| not_started(&error, how_to_install))?;
    let (text, _) = said.text();
    // Warnings come before it.
    let text = match ended.status.is_some_and(|status| status.success()) {
        true => text.trim().lines().next_back().unwrap_or_default(),
        false => text.trim(),
    };
    let text = cut_text(text, 512);
    match ended.status.is_some_and(|status| status.success()) {
        true => Ok(BackendVersion { version: text }),
        false => {
            let message = format!("`--version` failed: {text}");
            Err(BackendError::new(BackendErrorKind::SpawnFailed, message))
        }
    }
}

fn prepare(spec: &BackendSpec, place: Place, usual: &str, output: &Arc<Output>) -> Program {
    let command = spec.command.clone().unwrap_or_else(|| usual.into());
    let mut program = place.program(command, Arc::clone(output));
    program.bounds.cwd.clone_from(&spec.cwd);
    for (name, value) in &spec.variables {
        let (name, value) = (OsString::from(name), OsString::from(value));
        // Its own temporary files have their place.
        program.variables.entry(name).or_insert(value);
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
