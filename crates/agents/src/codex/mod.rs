//! Codex, by its app-server over stdio; and what its one-shot mode prints.

mod approval;
mod exec;
mod failure;
mod protocol;

use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::{Backend, BackendError, BackendSession, BackendSpec, BackendVersion};
use windlass_process::Confinement;

use crate::place::Places;
use crate::session::{self, SessionSettings, Start};

pub use exec::CodexExec;
pub use protocol::Codex;

const PROGRAM: &str = "codex";
const HOW_TO_INSTALL: &str = "install it with `npm install -g @openai/codex`";

/// What Codex may do by itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodexSettings {
    /// When it asks for a permission, in its own words; `None` is before each command that is not known to change nothing, and
    /// never in a turn that nobody is asked about.
    pub approval_policy: Option<String>,
    /// Its own sandbox, in its own words; `None` is none where we confine it, since a sandbox inside of ours cannot be made, and
    /// `workspace-write` where nothing does.
    pub sandbox: Option<String>,
}

/// Codex.
pub struct CodexBackend {
    name: String,
    places: Arc<dyn Places>,
    settings: SessionSettings,
    codex: CodexSettings,
}

impl CodexBackend {
    /// Codex under a name, with what confines it.
    pub fn new(
        name: impl Into<String>,
        places: Arc<dyn Places>,
        settings: SessionSettings,
        codex: CodexSettings,
    ) -> Self {
        Self {
            name: name.into(),
            places,
            settings,
            codex,
        }
    }
}

#[async_trait]
impl Backend for CodexBackend {
    fn name(&self) -> &str {
        &self.name
    }

    /// It chooses by itself, and says so before it is asked anything.
    fn choose_session(&self) -> Option<String> {
        None
    }

    async fn check(&self, spec: &BackendSpec) -> Result<BackendVersion, BackendError> {
        let place = session::place(self.places.as_ref(), spec)?;
        session::check(spec, place, PROGRAM, HOW_TO_INSTALL).await
    }

    async fn open(&self, spec: BackendSpec) -> Result<Box<dyn BackendSession>, BackendError> {
        let place = session::place(self.places.as_ref(), &spec)?;
        let mut codex = self.codex.clone();
        let usual = match place.confinement {
            Confinement::Unconfined => "workspace-write",
            Confinement::Bubblewrap | Confinement::Landlock => "danger-full-access",
        };
        codex.sandbox.get_or_insert_with(|| usual.to_owned());
        // With `on-request` it asks only to leave its own sandbox, and here it has none.
        let usual = if spec.approve_all {
            "never"
        } else {
            "untrusted"
        };
        codex
            .approval_policy
            .get_or_insert_with(|| usual.to_owned());
        let protocol = Box::new(Codex::new(&spec, codex));
        let mut arguments: Vec<OsString> = spec.arguments.iter().map(Into::into).collect();
        arguments.push("app-server".into());
        let start = Start {
            program: PROGRAM.to_owned(),
            how_to_install: HOW_TO_INSTALL.to_owned(),
            arguments,
            place,
            settings: self.settings.clone(),
        };
        session::open(spec, start, protocol).await
    }
}
