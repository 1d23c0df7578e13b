//! What a daemon is set to, and the providers of its models.

use serde::{Deserialize, Serialize};

/// The answer of `GET /v1/config`. No key, token or password is in it.
///
/// Clients show these as a form, so each field is always there. What a daemon does not know, such as how a terminal looks, has the value that means
/// nothing special; [`settable`](Self::settable) says what can be changed.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuntimeConfig {
    /// The model of threads whose clients name none.
    pub model: String,
    /// Who serves it.
    pub provider: String,
    /// What becomes of calls that no rule matches: `suggest` asks, `auto` runs them, `never` refuses them.
    pub approval_mode: String,
    /// How hard the models of new threads think; `auto` leaves it to the provider.
    pub reasoning_effort: String,
    /// Whether conversations are made shorter by themselves.
    pub auto_compact: bool,
    /// The currency of costs.
    pub cost_currency: String,
    /// The mode of threads whose clients name none.
    pub default_mode: String,
    /// The same as `model`.
    pub default_model: String,
    /// Where the provider's API is, without a login; empty is the usual place.
    pub base_url: String,
    /// Whether threads may run commands whose clients do not say.
    pub allow_shell: bool,
    /// Empty: MCP servers are in the configuration file.
    pub mcp_config_path: String,
    /// Whether models can start agents.
    pub subagents_enabled: bool,
    /// How many levels of them there may be.
    pub subagents_max_depth: u32,
    /// Left to clients.
    pub show_thinking: bool,
    /// Left to clients.
    pub thinking_default_expanded: bool,
    /// Left to clients.
    pub thinking_highlight: bool,
    /// Left to clients.
    pub show_tool_details: bool,
    /// Left to clients.
    pub inline_diffs: String,
    /// Left to clients.
    pub locale: String,
    /// Left to clients.
    pub max_history: u64,
    /// Tools never follow links out of their environment.
    pub workspace_follow_symlinks: bool,
    /// Left to clients.
    pub calm_mode: bool,
    /// Nothing is read by other programs.
    pub prefer_external_pdftotext: bool,
    /// What commands may write: always the environment alone.
    pub sandbox_mode: String,
    /// Whether arguments of tools are checked by the provider too.
    pub strict_tool_mode: bool,
    /// Whether there is a memory across threads.
    pub memory_enabled: bool,
    /// Who searches the web.
    pub search_provider: String,
    /// Whether prompts are suggested.
    pub prompt_suggestion: bool,
    /// The keys that `POST /v1/config` changes at once.
    pub settable: Vec<String>,
}

/// The body of `POST /v1/config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SetConfig {
    /// What to set.
    pub key: String,
    /// To what; empty is as it is configured.
    pub value: String,
    /// Whether it counts, now and after a restart; otherwise it is only checked.
    #[serde(default)]
    pub persist: bool,
}

/// The answer of `POST /v1/config`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConfigSet {
    /// What was set.
    pub key: String,
    /// New value; empty restores the configured one.
    pub value: String,
    /// What that means, for people.
    pub message: String,
    /// Whether it counts, now and after a restart.
    pub persisted: bool,
    /// Whether it counts only after a reload: never here.
    pub requires_reload: bool,
}

/// The answer of `POST /v1/config/reload`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ConfigReloaded {
    /// What happened, for people.
    pub message: String,
    /// The keys that changed and count from now on.
    #[serde(default)]
    pub applied: Vec<String>,
    /// The keys that changed and count from the next start on.
    #[serde(default)]
    pub needs_restart: Vec<String>,
}

/// A provider of models.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderEntry {
    /// Name that threads and requests use.
    pub id: String,
    /// Its name for people.
    pub display_name: String,
    /// Where its API is, without a login; empty is the usual place.
    pub default_base_url: String,
    /// The model that is asked when none is named.
    pub default_model: String,
    /// Whether its models are listed here.
    pub has_model_catalog: bool,
    /// The variables that may hold its key; never the key.
    pub env_vars: Vec<String>,
    /// Whether it can be asked: there is a key, or an address of one's own.
    #[serde(default)]
    pub usable: bool,
}

/// The answer of `GET /v1/models`: the current provider and its models.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ModelList {
    /// Who serves threads whose clients name no model.
    pub provider: String,
    /// Its name for people.
    pub provider_display_name: String,
    /// Its configured models, its usual one among them.
    pub models: Vec<String>,
}

/// The answer of `GET /v1/providers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderList {
    /// Who serves threads whose clients name no model.
    pub current: String,
    /// All that are known.
    pub providers: Vec<ProviderEntry>,
}

/// A model of a provider.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderModel {
    /// Its name, as threads name it.
    pub id: String,
}

/// The answer of `GET /v1/providers/{id}/models`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ProviderModelList {
    /// Name of the provider, such as `anthropic`.
    pub provider: String,
    /// Its models that are configured.
    pub models: Vec<ProviderModel>,
}

/// The body of `POST /v1/providers/{id}/switch`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(default)]
pub struct SwitchProvider {
    /// The model; the provider's usual one when none is named.
    pub model: Option<String>,
}

/// The answer of `POST /v1/providers/{id}/switch`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct SwitchedProvider {
    /// Name of the provider, such as `anthropic`.
    pub provider: String,
    /// The model of threads whose clients name none.
    pub model: String,
    /// What that means, for people.
    pub message: String,
    /// Whether it counts after a restart too.
    pub persisted: bool,
}
