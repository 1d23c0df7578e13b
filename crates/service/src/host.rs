//! What the program around the server tells of its configuration, and how it reads it again.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_policy::ApprovalAction;
use windlass_protocol::config::ProviderEntry;
use windlass_work::automations::Declared;

use crate::models::Models;

/// What the program around the server tells of its configuration. Clients see it, so nothing of it is secret.
#[derive(Debug, Clone, Default)]
pub struct HostConfig {
    /// The providers of models that it knows.
    pub providers: Vec<ProviderEntry>,
    /// Whether the default model was named by whoever started it, so that what a client chose before does not count.
    pub is_model_given: bool,
    /// What becomes of calls that no rule matches.
    pub approvals: Option<ApprovalAction>,
    /// Whether conversations are made shorter by themselves.
    pub compacts: bool,
    /// How many levels of agents models can start; `None` is none at all.
    pub subagent_depth: Option<u32>,
    /// Whether models are told of the skills of a repository.
    pub reads_repository: bool,
    /// The keys that its configuration file may have, with dots; `*` is a name that the operator chooses. They cannot be set by clients.
    pub file_keys: Vec<String>,
    /// Reads the configuration again; `None` where there is none.
    pub reload: Option<Arc<dyn Reload>>,
}

/// Reads the configuration again.
#[async_trait]
pub trait Reload: fmt::Debug + Send + Sync {
    /// Reads it, makes known what counts from now on, and tells what does not. An error says why it cannot be read; everything stays as it was.
    async fn reload(&self) -> Result<Reloaded, String>;
}

/// What a configuration says that was read again.
#[derive(Debug, Clone, Default)]
pub struct Reloaded {
    /// The models that clients can name from now on.
    pub models: Models,
    /// The providers.
    pub providers: Vec<ProviderEntry>,
    /// The automations that it declares.
    pub automations: Vec<Declared>,
    /// The keys that changed and count from now on.
    pub applied: Vec<String>,
    /// The keys that changed and count from the next start on.
    pub needs_restart: Vec<String>,
}
