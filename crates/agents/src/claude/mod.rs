//! Claude Code, by stream-json over pipes both ways.

mod permission;
mod protocol;
mod result;

use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::{
    Backend, BackendError, BackendErrorKind, BackendSession, BackendSpec, BackendVersion,
    SessionChoice,
};

use crate::place::Places;
use crate::session::{self, SessionSettings, Start};

pub use protocol::Claude;

const PROGRAM: &str = "claude";
const HOW_TO_INSTALL: &str = "install it with `npm install -g @anthropic-ai/claude-code`";
/// How a process is started that takes one turn after the other, tells its text in pieces and asks for permissions. It obeys the user's
/// settings alone: without a terminal it does not ask whether a repository is trusted, whose settings can name programs to run.
const ARGUMENTS: &[&str] = &[
    "-p",
    "--input-format",
    "stream-json",
    "--output-format",
    "stream-json",
    "--verbose",
    "--include-partial-messages",
    "--permission-prompt-tool",
    "stdio",
    "--setting-sources",
    "user",
    "--strict-mcp-config",
    "--permission-mode",
    "default",
];

/// Claude Code.
pub struct ClaudeBackend {
    name: String,
    places: Arc<dyn Places>,
    settings: SessionSettings,
}

impl ClaudeBackend {
    /// Claude Code under a name, with what confines it.
    pub fn new(
        name: impl Into<String>,
        places: Arc<dyn Places>,
        settings: SessionSettings,
    ) -> Self {
        Self {
            name: name.into(),
            places,
            settings,
        }
    }
}

#[async_trait]
impl Backend for ClaudeBackend {
    fn name(&self) -> &str {
        &self.name
    }

    fn choose_session(&self) -> Option<String> {
        Some(uuid::Uuid::now_v7().to_string())
    }

    async fn check(&self, spec: &BackendSpec) -> Result<BackendVersion, BackendError> {
        let place = session::place(self.places.as_ref(), spec)?;
        session::check(spec, place, PROGRAM, HOW_TO_INSTALL).await
    }

    async fn open(&self, spec: BackendSpec) -> Result<Box<dyn BackendSession>, BackendError> {
        if let Some(id) = spec.session.id()
            && uuid::Uuid::parse_str(id).is_err()
        {
            let message =
                format!("`{id}` is no UUID, and sessions of Claude Code have no other id");
            return Err(BackendError::new(BackendErrorKind::BadInvocation, message));
        }
        let place = session::place(self.places.as_ref(), &spec)?;
        let protocol = Box::new(Claude::new(spec.session.clone(), spec.totals));
        let start = Start {
            program: PROGRAM.to_owned(),
            how_to_install: HOW_TO_INSTALL.to_owned(),
            arguments: arguments(&spec),
            place,
            settings: self.settings.clone(),
        };
        session::open(spec, start, protocol).await
    }
}

fn arguments(spec: &BackendSpec) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = ARGUMENTS.iter().map(Into::into).collect();
    match &spec.session {
        SessionChoice::New { id: Some(id) } => {
            arguments.extend(["--session-id".into(), id.into()]);
        }
        SessionChoice::New { id: None } => {}
        SessionChoice::Resume { id } => arguments.extend(["--resume".into(), id.into()]),
    }
    if let Some(model) = &spec.model {
        arguments.extend(["--model".into(), model.into()]);
    }
    arguments.extend(spec.arguments.iter().map(Into::into));
    arguments
}
