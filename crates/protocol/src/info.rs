//! What a daemon says of itself.

use serde::{Deserialize, Serialize};

/// The answer of `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// Name of the program: `windlass`.
    pub service: String,
    /// `local`.
    pub mode: String,
}

/// The answer of `GET /ready`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Ready {
    /// `ready`.
    pub status: String,
}

/// What the daemon can do. Every field is always there.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuntimeCapabilities {
    /// Whether threads are supported.
    pub threads: bool,
    /// Whether turns are supported.
    pub turns: bool,
    /// Saying something to a running turn.
    pub turn_steer: bool,
    /// Stopping a turn.
    pub turn_interrupt: bool,
    /// Reading events again from any number.
    pub event_replay: bool,
    /// Tools that the client runs.
    pub external_tools: bool,
    /// Named directories to work in.
    pub environments: bool,
    /// The fleet routes.
    pub worker_runtime: bool,
}

/// What is not settled yet.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuntimeExperimentalCapabilities {
    /// Named directories to work in.
    #[serde(default)]
    pub environments: bool,
    /// `POST /v1/threads/{id}/agent-runs/{agent_id}/cancel`.
    #[serde(default)]
    pub agent_run_cancel: bool,
    /// `POST /v1/threads/{id}/agent-runs/nudge`.
    #[serde(default)]
    pub agent_run_nudge: bool,
}

/// The answer of `GET /v1/runtime/info`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RuntimeInfo {
    /// Name of the program: `windlass`.
    pub service: String,
    /// The version of this API.
    pub runtime_api_version: String,
    /// The version of the program.
    pub windlass_version: String,
    /// The version of the original whose API is matched.
    pub codewhale_version: String,
    /// The version of the program.
    pub version: String,
    /// The address that the daemon listens on.
    pub bind_host: String,
    /// The port that the daemon listens on.
    pub port: u16,
    /// Whether requests need a token.
    pub auth_required: bool,
    /// `http` and `sse`.
    pub transports: Vec<String>,
    /// What the daemon can do.
    pub capabilities: RuntimeCapabilities,
    /// What is not settled yet.
    pub experimental: RuntimeExperimentalCapabilities,
    /// Names of additions to the original; names are only ever added.
    #[serde(default)]
    pub features: Vec<String>,
}
