//! Operator settings.

pub(crate) mod effective;
pub(crate) mod host;
pub(crate) mod models;
pub(crate) mod public_url;

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::typed_id::{AgentId, HarnessId};
use windlass_jobs::automations::DeclaredAutomation;
use windlass_jobs::{AutomationSettings, FleetSettings, TaskSettings};
use windlass_macros::Defaults;
use windlass_protocol::CreateEnvironment;
use windlass_runs::RunLimits;
use windlass_runs::rpc::RpcLimits;
use windlass_tools::{Environments, ShellSettings};

use crate::project_approvals::ProjectApprovals;
use crate::settings::host::HostConfig;
use crate::settings::models::Models;
use crate::settings::public_url::PublicUrl;
use crate::tokens::{self, Logins, SessionLookup, Token, TokenLookup, Tokens};

/// Access to the API.
#[derive(Debug, Clone)]
pub enum Access {
    /// One token grants full access.
    Token(Token),
    /// The operator's token grants full access; a stored token grants access according to its scope.
    Tokens {
        /// The operator's own token.
        operator: Option<Token>,
        /// The stored tokens.
        stored: Arc<dyn Tokens>,
    },
    /// No token is required. Only allowed on a loopback address.
    Open,
}

impl Access {
    /// Identifies the operator's own token, if there is one.
    pub(crate) fn operator_fingerprint(&self) -> Option<String> {
        match self {
            Self::Token(token) => Some(token.fingerprint()),
            Self::Tokens { operator, .. } => operator.as_ref().map(Token::fingerprint),
            Self::Open => None,
        }
    }

    /// Returns whether requests need no token.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// Whether a client may continue with what it authenticated with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Validity {
    /// The token or the session is valid.
    Valid,
    /// It was revoked or has expired.
    Invalid,
    /// The tokens or the logins cannot be read now.
    Unknown,
}

/// Limits for clients. A request over a limit gets 429 or 413 and has no effect.
#[derive(Debug, Clone, PartialEq, Eq, Defaults)]
pub struct ClientLimits {
    /// Bytes of a request body.
    #[default(16 * 1024 * 1024)]
    pub body_bytes: usize,
    /// Threads in total.
    #[default(100_000)]
    pub threads: usize,
    /// Threads created by one agent.
    #[default(10_000)]
    pub threads_of_agent: usize,
    /// Concurrent event streams.
    #[default(4_096)]
    pub subscribers: usize,
    /// Concurrent event streams of one stored token.
    #[default(512)]
    pub subscribers_of_token: usize,
    /// Concurrent TCP and Unix connections.
    #[default(8_192)]
    pub connections: usize,
    /// Concurrent connections of one stored token.
    #[default(1_024)]
    pub connections_of_token: usize,
    /// Bytes of concurrently read bodies of one stored token.
    #[default(64 * 1024 * 1024)]
    pub body_bytes_of_token: usize,
    /// Unread response bytes of one token.
    #[default(32 * 1024 * 1024)]
    pub answer_bytes_of_token: usize,
    /// Concurrent responses of one token that are too long for memory.
    #[default(4)]
    pub large_answers_of_token: usize,
    /// Responses stored for repeated requests.
    #[default(10_000)]
    pub stored_answers: usize,
    /// Time to present a valid token, or to send the first request if none is required.
    #[default(Duration::from_secs(5))]
    pub token_time: Duration,
    /// Time to send the head of a request.
    #[default(Duration::from_secs(30))]
    pub header_time: Duration,
    /// Time to send the body of a request.
    #[default(Duration::from_secs(120))]
    pub body_time: Duration,
    /// How long a client may stop reading a response.
    #[default(Duration::from_secs(60))]
    pub stall_time: Duration,
}

/// Settings of run tracing over WebSocket.
#[derive(Debug, Clone, Defaults)]
pub struct RpcSettings {
    /// How long a run stays open after its connection is lost, without a lease.
    #[default(Duration::from_millis(250))]
    pub grace: Duration,
    /// How long a run waits to be resumed.
    #[default(Duration::from_secs(10))]
    pub lease: Duration,
    /// Limits of a run.
    pub run_limits: RunLimits,
    /// Limits of a connection.
    pub limits: RpcLimits,
    /// Concurrent WebSocket connections.
    #[default(4_096)]
    pub connections: usize,
    /// Owner of runs that name no agent.
    pub default_agent: Option<String>,
    /// Interval between pings.
    #[default(Duration::from_secs(20))]
    pub ping: Duration,
    /// How long a connection may be silent.
    #[default(Duration::from_secs(60))]
    pub idle: Duration,
    /// Retention of ended runs; `None` is unlimited.
    pub keep_ended: Option<Duration>,
}

/// Maintenance of the store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Defaults)]
pub struct Upkeep {
    /// Interval; `None` disables maintenance.
    #[default(Some(Duration::from_secs(60 * 60)))]
    pub every: Option<Duration>,
}

/// Settings of jobs.
#[derive(Debug, Clone, Defaults)]
pub struct JobSettings {
    /// Settings of tasks.
    pub tasks: TaskSettings,
    /// Settings of automations.
    pub automations: AutomationSettings,
    /// Automations declared in the configuration. If this daemon runs no jobs, they are left unchanged.
    pub declared: Vec<DeclaredAutomation>,
    /// Settings of fleet runs.
    pub fleet: FleetSettings,
    /// Retention of tasks and runs after their end; `None` is until their owner has too many.
    pub keep_ended: Option<Duration>,
    /// Whether this daemon runs jobs; otherwise they are stored for the next daemon that does.
    #[default(true)]
    pub runs_jobs: bool,
}

/// All settings of the server.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address to listen on.
    pub host: String,
    /// The port; 0 selects a free one.
    pub port: u16,
    /// Unix sockets to listen on in addition to the port.
    pub unix_sockets: Vec<PathBuf>,
    /// Whether turns that a previous process left open resume at the start.
    pub resumes_open_turns: bool,
    /// Access to the API.
    pub access: Access,
    /// Origins whose web pages may use the API. If a token is required, well-known origins of local clients are added.
    pub cors_origins: Vec<String>,
    /// The logins of browsers; `None` disables them.
    pub logins: Option<Logins>,
    /// The address of a proxy with TLS, where browsers may log in too.
    pub public_url: Option<PublicUrl>,
    /// Host names of the server, in addition to addresses, `localhost` and [`host`](Self::host).
    pub allowed_hosts: Vec<String>,
    /// The root of the environment `local`.
    pub workspace: PathBuf,
    /// Environments that the operator configured in addition to `local`.
    pub configured_environments: Vec<CreateEnvironment>,
    /// The environments of turns, for tools. The runtime's tools must share this value; the server fills it.
    pub environments: Environments,
    /// Confinement of programs that the server runs itself, such as git; the same as for commands of turns.
    pub shell: ShellSettings,
    /// Permanently approved calls of projects; the runtime must query them. `None` disables permanent approvals.
    pub remembered: Option<ProjectApprovals>,
    /// The harness of threads.
    pub harness_id: HarnessId,
    /// The agent of threads.
    pub agent_id: Option<AgentId>,
    /// The models that clients can select.
    pub models: Models,
    /// The configuration that clients can read.
    pub config: HostConfig,
    /// External agents that threads can use; the runtime must have them.
    pub backends: BTreeSet<String>,
    /// Additional backend names for the daemon's own loop with a model, as `provider/model`.
    pub api_backends: BTreeMap<String, String>,
    /// Limits for clients.
    pub limits: ClientLimits,
    /// Grace period for connections when the server stops.
    pub grace: Duration,
    /// Settings of run tracing.
    pub rpc: RpcSettings,
    /// Maintenance of the store.
    pub upkeep: Upkeep,
    /// Settings of jobs; `None` disables them. The [`WireStore`](crate::WireStore) must share its records with the runtime's journal.
    pub jobs: Option<JobSettings>,
}

impl Settings {
    /// Checks a [credential](ApiCaller::credential) again.
    pub fn validity(&self, credential: &str) -> Validity {
        if tokens::is_session(credential) {
            let logins = self.logins.as_ref();
            return match logins.map(|logins| logins.by_id(&self.access, credential)) {
                Some(SessionLookup::Present(_)) => Validity::Valid,
                Some(SessionLookup::Unknown) => Validity::Unknown,
                Some(SessionLookup::Absent) | None => Validity::Invalid,
            };
        }
        let Access::Tokens { stored, .. } = &self.access else {
            return Validity::Invalid;
        };
        match stored.by_id(credential) {
            TokenLookup::Present(_) => Validity::Valid,
            TokenLookup::Absent => Validity::Invalid,
            TokenLookup::Unknown => Validity::Unknown,
        }
    }

    /// Returns the address of the console for a browser that may log in; `None` if there is none.
    #[must_use]
    pub fn console_url(&self) -> Option<String> {
        self.logins.as_ref()?;
        if let Some(public) = &self.public_url {
            return Some(format!("{public}/console/"));
        }
        let name = self.host.trim_matches(['[', ']']);
        let host = match name.parse::<IpAddr>() {
            Ok(IpAddr::V4(ip)) if ip.is_unspecified() => "127.0.0.1".to_owned(),
            Ok(IpAddr::V6(ip)) if ip.is_unspecified() => "[::1]".to_owned(),
            Ok(ip @ IpAddr::V4(_)) if ip.is_loopback() => ip.to_string(),
            Ok(ip @ IpAddr::V6(_)) if ip.is_loopback() => format!("[{ip}]"),
            Err(_) if name.eq_ignore_ascii_case("localhost") => name.to_owned(),
            _ => return None,
        };
        (self.port > 0).then(|| format!("http://{host}:{}/console/", self.port))
    }

    /// Creates settings for a loopback address and a free port.
    pub fn new(workspace: impl Into<PathBuf>, harness_id: HarnessId, access: Access) -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            unix_sockets: Vec::new(),
            resumes_open_turns: true,
            access,
            cors_origins: Vec::new(),
            logins: None,
            public_url: None,
            allowed_hosts: Vec::new(),
            workspace: workspace.into(),
            configured_environments: Vec::new(),
            environments: Environments::new(),
            shell: ShellSettings::default(),
            remembered: None,
            harness_id,
            agent_id: None,
            models: Models::default(),
            config: HostConfig::default(),
            backends: BTreeSet::new(),
            api_backends: BTreeMap::new(),
            limits: ClientLimits::default(),
            grace: Duration::from_secs(10),
            rpc: RpcSettings::default(),
            upkeep: Upkeep::default(),
            jobs: None,
        }
    }
}
