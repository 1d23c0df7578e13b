//! The configuration that the host program reports, and how to reload it.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_jobs::automations::DeclaredAutomation;
use windlass_policy::ApprovalAction;
use windlass_protocol::config::ProviderEntry;

use crate::settings::models::Models;

/// The configuration that the host program reports. Clients can read it, so it contains no secrets.
#[derive(Debug, Clone, Default)]
pub struct HostConfig {
    /// The model providers of the configuration.
    pub providers: Vec<ProviderEntry>,
    /// Whether the default model was set at startup, so that a client's earlier choice does not apply.
    pub is_model_given: bool,
    /// The action for calls that match no rule.
    pub approvals: Option<ApprovalAction>,
    /// Whether conversations are compacted automatically.
    pub compacts: bool,
    /// Maximum depth of agents started by models; `None` disables them.
    pub subagent_depth: Option<u32>,
    /// Whether models are informed about the skills of a repository.
    pub reads_repository: bool,
    /// Keys that the configuration file may contain, dotted; `*` is a name that the operator chooses. Clients cannot set them.
    pub file_keys: Vec<String>,
    /// Reloads the configuration; `None` if there is no file.
    pub reload: Option<Arc<dyn Reload>>,
}

/// Reloads the configuration.
#[async_trait]
pub trait Reload: fmt::Debug + Send + Sync {
    /// Reloads the configuration, and reports which changes apply now and which do not. On an error, all settings are unchanged.
    async fn reload(&self) -> Result<Reloaded, String>;
}

/// Result of reloading the configuration.
#[derive(Debug, Clone, Default)]
pub struct Reloaded {
    /// The models that clients can select from now on.
    pub models: Models,
    /// The model providers of the configuration.
    pub providers: Vec<ProviderEntry>,
    /// The declared automations.
    pub automations: Vec<DeclaredAutomation>,
    /// The keys that changed and apply now.
    pub applied: Vec<String>,
    /// The keys that changed and apply after a restart.
    pub needs_restart: Vec<String>,
}
