//! Information about a daemon.

use windlass_macros::wire;

/// The answer of `GET /health`.
#[wire(Eq)]
pub struct Health {
    /// `ok`.
    pub status: String,
    /// Name of the program: `windlass`.
    pub service: String,
    /// `local`.
    pub mode: String,
}

/// The answer of `GET /ready`.
#[wire(Eq)]
pub struct Ready {
    /// `ready`.
    pub status: String,
}

/// Capabilities of the daemon. All fields are always present.
#[wire(Eq)]
pub struct RuntimeCapabilities {
    /// Whether threads are supported.
    pub threads: bool,
    /// Whether turns are supported.
    pub turns: bool,
    /// Whether a client can add input to a running turn.
    pub turn_steer: bool,
    /// Whether a client can interrupt a turn.
    pub turn_interrupt: bool,
    /// Whether events can be read again from any sequence number.
    pub event_replay: bool,
    /// Whether clients can register tools.
    pub external_tools: bool,
    /// Whether environments are supported.
    pub environments: bool,
    /// Whether fleet runs are supported.
    pub worker_runtime: bool,
}

/// Capabilities that may still change.
#[wire(Default, Eq)]
pub struct RuntimeExperimentalCapabilities {
    /// Whether environments are supported.
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
#[wire(Eq)]
pub struct RuntimeInfo {
    /// Name of the program: `windlass`.
    pub service: String,
    /// The version of this API.
    pub runtime_api_version: String,
    /// The version of the program.
    pub windlass_version: String,
    /// Version of the original program whose API this one matches.
    pub codewhale_version: String,
    /// The version of the program.
    pub version: String,
    /// The address that the daemon listens on.
    pub bind_host: String,
    /// The port that the daemon listens on.
    pub port: u16,
    /// Address of the web console; absent if the daemon serves none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console_url: Option<String>,
    /// Whether requests need a token.
    pub auth_required: bool,
    /// `http` and `sse`.
    pub transports: Vec<String>,
    /// Capabilities of the daemon.
    pub capabilities: RuntimeCapabilities,
    /// Capabilities that may still change.
    pub experimental: RuntimeExperimentalCapabilities,
    /// Names of additions to the original; names are only ever added.
    #[serde(default)]
    pub features: Vec<String>,
}
