//! Whatever speaks the Agent Client Protocol over stdio, with us as the client.

mod failure;
mod host;
mod permission;
mod protocol;
mod update;

use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::{Backend, BackendError, BackendSession, BackendSpec, BackendVersion};

use crate::place::Places;
use crate::session::{self, SessionSettings, Start};

pub use protocol::Acp;

/// How an agent is started that speaks ACP, and what its exit codes mean.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AcpSettings {
    /// Its usual program.
    pub program: String,
    /// What makes it speak ACP.
    pub arguments: Vec<String>,
    /// The option that names a model, if it has one.
    pub model_option: Option<String>,
    /// What to do where it is missing.
    pub how_to_install: String,
    /// Exit codes by which it says that it is not logged in.
    pub auth_codes: Vec<i32>,
    /// Exit codes by which it says that its provider limits it.
    pub limit_codes: Vec<i32>,
}

impl AcpSettings {
    /// Some program that speaks ACP.
    pub fn new(program: impl Into<String>, arguments: Vec<String>) -> Self {
        let program = program.into();
        Self {
            how_to_install: format!("install `{program}`, or name it by its absolute path"),
            program,
            arguments,
            ..Self::default()
        }
    }

    /// Gemini CLI.
    #[must_use]
    pub fn gemini() -> Self {
        Self {
            model_option: Some("-m".to_owned()),
            how_to_install: "install it with `npm install -g @google/gemini-cli`".to_owned(),
            // 145 and 173 are 401 and 429 in one byte.
            auth_codes: vec![41, 145],
            limit_codes: vec![173],
            ..Self::new("gemini", vec!["--acp".to_owned()])
        }
    }
}

/// An agent that speaks ACP.
pub struct AcpBackend {
    name: String,
    places: Arc<dyn Places>,
    settings: SessionSettings,
    acp: AcpSettings,
}

impl AcpBackend {
    /// An agent under a name, with what confines it.
    pub fn new(
        name: impl Into<String>,
        places: Arc<dyn Places>,
        settings: SessionSettings,
        acp: AcpSettings,
    ) -> Self {
        Self {
            name: name.into(),
            places,
            settings,
            acp,
        }
    }
}

#[async_trait]
impl Backend for AcpBackend {
    fn name(&self) -> &str {
        &self.name
    }

    /// The agent chooses by itself, and says so before it is asked anything.
    fn choose_session(&self) -> Option<String> {
        None
    }

    async fn check(&self, spec: &BackendSpec) -> Result<BackendVersion, BackendError> {
        let place = session::place(self.places.as_ref(), spec)?;
        session::check(spec, place, &self.acp.program, &self.acp.how_to_install).await
    }

    async fn open(&self, spec: BackendSpec) -> Result<Box<dyn BackendSession>, BackendError> {
        let place = session::place(self.places.as_ref(), &spec)?;
        let protocol = Box::new(Acp::new(&spec, self.acp.clone()));
        let own = self.acp.arguments.iter().chain(&spec.arguments);
        let mut arguments: Vec<OsString> = own.map(Into::into).collect();
        if let (Some(option), Some(model)) = (&self.acp.model_option, &spec.model) {
            arguments.extend([option.into(), model.into()]);
        }
        let start = Start {
            program: self.acp.program.clone(),
            how_to_install: self.acp.how_to_install.clone(),
            arguments,
            place,
            settings: self.settings.clone(),
        };
        session::open(spec, start, protocol).await
    }
}
