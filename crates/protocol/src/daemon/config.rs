//! Settings of a daemon, and the providers of its models.

use windlass_macros::wire;

/// The answer of `GET /v1/config`. It contains no key, token or password.
///
/// Clients show these values as a form, so all fields are always present. Settings that a daemon does not have, such as the appearance of a terminal,
/// have a neutral value; [`settable`](Self::settable) lists the keys that can be changed.
#[wire(Default)]
pub struct RuntimeConfig {
    /// The model of threads whose clients name none.
    pub model: String,
    /// Provider of the model.
    pub provider: String,
    /// Handling of calls that match no approval rule: `suggest` asks, `auto` runs them, `never` refuses them.
    pub approval_mode: String,
    /// Reasoning effort of new threads; `auto` is the default of the provider.
    pub reasoning_effort: String,
    /// Whether conversations are compacted automatically.
    pub auto_compact: bool,
    /// The currency of costs.
    pub cost_currency: String,
    /// The mode of threads whose clients name none.
    pub default_mode: String,
    /// Same as `model`.
    pub default_model: String,
    /// Base URL of the provider's API, without credentials; empty is the default one.
    pub base_url: String,
    /// Whether threads may run commands by default.
    pub allow_shell: bool,
    /// Empty: MCP servers are in the configuration file.
    pub mcp_config_path: String,
    /// Whether models can start agents.
    pub subagents_enabled: bool,
    /// Maximum depth of nested agents.
    pub subagents_max_depth: u32,
    /// A setting of clients; the daemon does not use it.
    pub show_thinking: bool,
    /// A setting of clients; the daemon does not use it.
    pub thinking_default_expanded: bool,
    /// A setting of clients; the daemon does not use it.
    pub thinking_highlight: bool,
    /// A setting of clients; the daemon does not use it.
    pub show_tool_details: bool,
    /// A setting of clients; the daemon does not use it.
    pub inline_diffs: String,
    /// A setting of clients; the daemon does not use it.
    pub locale: String,
    /// A setting of clients; the daemon does not use it.
    pub max_history: u64,
    /// Tools never follow links out of their environment.
    pub workspace_follow_symlinks: bool,
    /// A setting of clients; the daemon does not use it.
    pub calm_mode: bool,
    /// Always `false`: files are not read by external programs.
    pub prefer_external_pdftotext: bool,
    /// Always `workspace-write`: commands can write only in the environment.
    pub sandbox_mode: String,
    /// Whether the provider validates arguments of tools too.
    pub strict_tool_mode: bool,
    /// Whether memory is shared across threads.
    pub memory_enabled: bool,
    /// Provider of web searches.
    pub search_provider: String,
    /// Whether prompts are suggested.
    pub prompt_suggestion: bool,
    /// Keys that `POST /v1/config` can change.
    pub settable: Vec<String>,
}

/// The body of `POST /v1/config`.
#[wire(Eq)]
pub struct SetConfig {
    /// Key of the setting.
    pub key: String,
    /// New value; empty restores the configured one.
    pub value: String,
    /// Whether the value is stored and applied; otherwise it is only validated.
    #[serde(default)]
    pub persist: bool,
}

/// The answer of `POST /v1/config`.
#[wire(Eq)]
pub struct ConfigSet {
    /// Key of the setting.
    pub key: String,
    /// New value; empty restores the configured one.
    pub value: String,
    /// Explanation for people.
    pub message: String,
    /// Whether the value was stored and applied.
    pub persisted: bool,
    /// Always `false`: no reload is required.
    pub requires_reload: bool,
}

/// The answer of `POST /v1/config/reload`.
#[wire(Default, Eq)]
pub struct ConfigReloaded {
    /// Message for people.
    pub message: String,
    /// Changed keys that apply now.
    #[serde(default)]
    pub applied: Vec<String>,
    /// Changed keys that apply after a restart.
    #[serde(default)]
    pub needs_restart: Vec<String>,
}

/// A provider of models.
#[wire(Default, Eq)]
pub struct ProviderEntry {
    /// Name that threads and requests use.
    pub id: String,
    /// Display name of the provider.
    pub display_name: String,
    /// Base URL of the API, without credentials; empty is the default one.
    pub default_base_url: String,
    /// Model for requests that name none.
    pub default_model: String,
    /// Whether the models of the provider are listed.
    pub has_model_catalog: bool,
    /// Environment variables that may contain the key; never the key itself.
    pub env_vars: Vec<String>,
    /// Whether the provider is usable: it has a key or a configured address.
    #[serde(default)]
    pub usable: bool,
}

/// The answer of `GET /v1/models`: the current provider and its models.
#[wire(Default, Eq)]
pub struct ModelList {
    /// Provider of threads whose clients name no model.
    pub provider: String,
    /// Display name of the provider.
    pub provider_display_name: String,
    /// Configured models, including the default one.
    pub models: Vec<String>,
}

/// The answer of `GET /v1/providers`.
#[wire(Default, Eq)]
pub struct ProviderList {
    /// Provider of threads whose clients name no model.
    pub current: String,
    /// All known providers.
    pub providers: Vec<ProviderEntry>,
}

/// A model of a provider.
#[wire(Eq)]
pub struct ProviderModel {
    /// Name of the model for threads.
    pub id: String,
}

/// The answer of `GET /v1/providers/{id}/models`.
#[wire(Default, Eq)]
pub struct ProviderModelList {
    /// Name of the provider, such as `anthropic`.
    pub provider: String,
    /// Configured models of the provider.
    pub models: Vec<ProviderModel>,
}

/// The body of `POST /v1/providers/{id}/switch`.
#[wire(Default, Eq)]
#[serde(default)]
pub struct SwitchProvider {
    /// Model. Default: the default model of the provider.
    pub model: Option<String>,
}

/// The answer of `POST /v1/providers/{id}/switch`.
#[wire(Eq)]
pub struct SwitchedProvider {
    /// Name of the provider, such as `anthropic`.
    pub provider: String,
    /// The model of threads whose clients name none.
    pub model: String,
    /// Explanation for people.
    pub message: String,
    /// Whether the selection also applies after a restart.
    pub persisted: bool,
}
