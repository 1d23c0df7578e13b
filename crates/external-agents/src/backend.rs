//! A configured external agent: its program, how to start it, and its protocol.

use std::ffi::OsString;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::backend::{
    Backend, BackendError, BackendErrorKind, BackendSession, BackendSpec, BackendVersion,
};
use windlass_process::Confinement;

use crate::acp::{self, AcpSettings};
use crate::claude;
use crate::codex::{self, CodexSettings};
use crate::protocol::Protocol;
use crate::sandbox::SandboxProvider;
use crate::session::{self, AgentProgram, SessionSettings};

/// The agent's program and protocol.
#[derive(Debug, Clone)]
pub enum AgentKind {
    /// Claude Code over stream-json.
    ClaudeCode,
    /// Codex over its app-server.
    Codex(CodexSettings),
    /// An agent that speaks the Agent Client Protocol, such as Gemini CLI.
    Acp(AcpSettings),
}

/// The arguments of a process and the protocol that it speaks.
pub(crate) type Invocation = (Vec<OsString>, Box<dyn Protocol>);

impl AgentKind {
    /// Returns the default program and the installation hint.
    fn program(&self) -> (&str, &str) {
        match self {
            Self::ClaudeCode => (claude::PROGRAM, claude::HOW_TO_INSTALL),
            Self::Codex(_) => (codex::PROGRAM, codex::HOW_TO_INSTALL),
            Self::Acp(acp) => (&acp.program, &acp.how_to_install),
        }
    }

    fn invocation(
        &self,
        spec: &BackendSpec,
        confinement: Confinement,
    ) -> Result<Invocation, BackendError> {
        match self {
            Self::ClaudeCode => claude::invocation(spec),
            Self::Codex(settings) => Ok(codex::invocation(spec, settings, confinement)),
            Self::Acp(settings) => Ok(acp::invocation(spec, settings)),
        }
    }
}

pub struct ExternalAgent {
    name: String,
    sandboxes: Arc<dyn SandboxProvider>,
    settings: SessionSettings,
    kind: AgentKind,
}

impl ExternalAgent {
    /// Creates an agent with its name and the provider of its sandboxes.
    pub fn new(
        name: impl Into<String>,
        sandboxes: Arc<dyn SandboxProvider>,
        settings: SessionSettings,
        kind: AgentKind,
    ) -> Self {
        Self {
            name: name.into(),
            sandboxes,
            settings,
            kind,
        }
    }

    fn program(&self, spec: &BackendSpec) -> Result<AgentProgram, BackendError> {
        let (program, how_to_install) = self.kind.program();
        let sandbox = self
            .sandboxes
            .sandbox(spec)
            .map_err(|error| BackendError::new(BackendErrorKind::SpawnFailed, error.to_string()))?;
        Ok(AgentProgram {
            program: program.to_owned(),
            how_to_install: how_to_install.to_owned(),
            arguments: Vec::new(),
            sandbox,
            settings: self.settings.clone(),
        })
    }
}

#[async_trait]
impl Backend for ExternalAgent {
    fn name(&self) -> &str {
        &self.name
    }

    /// Returns an ID for a new Claude Code session. Codex and ACP agents choose the ID themselves and report it before they read a prompt.
    fn choose_session(&self) -> Option<String> {
        let is_ours = matches!(self.kind, AgentKind::ClaudeCode);
        is_ours.then(|| uuid::Uuid::now_v7().to_string())
    }

    async fn check(&self, spec: &BackendSpec) -> Result<BackendVersion, BackendError> {
        self.program(spec)?.version(spec).await
    }

    async fn open(&self, spec: BackendSpec) -> Result<Box<dyn BackendSession>, BackendError> {
        let mut program = self.program(&spec)?;
        let (arguments, protocol) = self.kind.invocation(&spec, program.sandbox.confinement)?;
        program.arguments = arguments;
        session::open(spec, program, protocol).await
    }
}
