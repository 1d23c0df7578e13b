//! What an operator can set.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use windlass_core::typed_id::{AgentId, HarnessId};
use windlass_protocol::CreateEnvironment;
use windlass_rpc::RpcLimits;
use windlass_runs::RunLimits;
use windlass_tools::{Environments, ShellSettings};
use windlass_work::automations::Declared;
use windlass_work::{AutomationSettings, FleetSettings, TaskSettings};

use crate::host::HostConfig;
use crate::models::Models;
use crate::remembered::RememberedBook;
use crate::tokens::{Token, Tokens};

/// Who may use the API.
#[derive(Debug, Clone)]
pub enum Access {
    /// Who shows the token, for everything.
    Token(Token),
    /// Who shows the operator's token, for everything, or one that is stored, for what its scope allows.
    Tokens {
        /// The operator's own.
        operator: Option<Token>,
        /// Those that are stored.
        stored: Arc<dyn Tokens>,
    },
    /// Everybody. Only on a loopback address.
    Open,
}

impl Access {
    /// Tells whether a stored token exists.
    pub(crate) fn has_token(&self, token_id: &str) -> bool {
        matches!(self, Self::Tokens { stored, .. } if stored.by_id(token_id).is_present())
    }

    /// Tells whether requests need no token.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self, Self::Open)
    }
}

/// How much clients may ask for. What is over a limit is answered with 429 or 413, and nothing happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: usize,
    /// Threads.
    pub threads: usize,
    /// Threads that one agent has made.
    pub threads_of_agent: usize,
    /// Event streams that are open at once.
    pub subscribers: usize,
    /// Event streams that one stored token has open at once.
    pub subscribers_of_token: usize,
    /// Connections that are open at once.
    pub connections: usize,
    /// Connections that one stored token has open at once.
    pub connections_of_token: usize,
    /// Bytes of bodies that are read at once for one stored token.
    pub body_bytes_of_token: usize,
    /// Bytes of answers that one token has not read yet.
    pub answer_bytes_of_token: usize,
    /// Answers of one token at once that are too long to be held in memory.
    pub large_answers_of_token: usize,
    /// Answers that are kept for repeated requests.
    pub kept_answers: usize,
    /// How long a connection may take to show a token that is good, or to ask something where none is needed.
    pub token_time: Duration,
    /// How long a client may take for the head of a request.
    pub header_time: Duration,
    /// How long a client may take for the body of a request.
    pub body_time: Duration,
    /// How long a client may take nothing of an answer.
    pub stall_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 16 * 1024 * 1024,
            threads: 100_000,
            threads_of_agent: 10_000,
            subscribers: 4_096,
            subscribers_of_token: 512,
            connections: 8_192,
            connections_of_token: 1_024,
            body_bytes_of_token: 64 * 1024 * 1024,
            answer_bytes_of_token: 32 * 1024 * 1024,
            large_answers_of_token: 4,
            kept_answers: 10_000,
            token_time: Duration::from_secs(5),
            header_time: Duration::from_secs(30),
            body_time: Duration::from_secs(120),
            stall_time: Duration::from_secs(60),
        }
    }
}

/// How runs are traced over WebSocket.
#[derive(Debug, Clone)]
pub struct RpcSettings {
    /// How long a run waits for the end of its connection's last words.
    pub grace: Duration,
    /// How long a run waits to be taken up again.
    pub lease: Duration,
    /// How much a run may hold.
    pub run_limits: RunLimits,
    /// How much a connection may do.
    pub limits: RpcLimits,
    /// Connections that are open at once.
    pub connections: usize,
    /// Whose runs they are when nobody says so.
    pub default_agent: Option<String>,
    /// How often a connection is asked for a sign of life.
    pub ping: Duration,
    /// How long a connection may show none.
    pub idle: Duration,
    /// How long ended runs are kept; `None` is for ever.
    pub keep_ended: Option<Duration>,
}

impl Default for RpcSettings {
    fn default() -> Self {
        Self {
            grace: Duration::from_millis(250),
            lease: Duration::from_secs(10),
            run_limits: RunLimits::default(),
            limits: RpcLimits::default(),
            connections: 4_096,
            default_agent: None,
            ping: Duration::from_secs(20),
            idle: Duration::from_secs(60),
            keep_ended: None,
        }
    }
}

/// How what is stored is looked after.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upkeep {
    /// How often; `None` is never.
    pub every: Option<Duration>,
}

impl Default for Upkeep {
    fn default() -> Self {
        Self {
            every: Some(Duration::from_secs(60 * 60)),
        }
    }
}

/// How work is carried out that nobody sits beside.
#[derive(Debug, Clone)]
pub struct WorkSettings {
    /// How tasks are carried out.
    pub tasks: TaskSettings,
    /// How automations run.
    pub automations: AutomationSettings,
    /// The automations that the configuration declares. Where work is not carried out, they are left as they are.
    pub declared: Vec<Declared>,
    /// How runs of the fleet are carried out.
    pub fleet: FleetSettings,
    /// How long tasks and runs are kept after their end; `None` is until their owner has too many.
    pub keep_ended: Option<Duration>,
    /// Whether it is carried out here; else it is kept for the next server that does so.
    pub carries_out: bool,
}

impl Default for WorkSettings {
    fn default() -> Self {
        Self {
            tasks: TaskSettings::default(),
            automations: AutomationSettings::default(),
            declared: Vec::new(),
            fleet: FleetSettings::default(),
            keep_ended: None,
            carries_out: true,
        }
    }
}

/// Everything that the server is told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The address to listen on.
    pub host: String,
    /// The port; 0 is any that is free.
    pub port: u16,
    /// Unix sockets to listen on beside the port.
    pub unix_sockets: Vec<PathBuf>,
    /// Whether turns that an earlier server left open go on when this one starts.
    pub resumes_open_turns: bool,
    /// Who may use the API.
    pub access: Access,
    /// Origins whose web pages may use the API. With a token required, a few well-known ones of local clients are added.
    pub cors_origins: Vec<String>,
    /// Names under which clients may reach the server, beside addresses, `localhost` and [`host`](Self::host).
    pub allowed_hosts: Vec<String>,
    /// The root of the environment `local`.
    pub workspace: PathBuf,
    /// Environments that the operator configured beside `local`.
    pub configured_environments: Vec<CreateEnvironment>,
    /// Where tools find the environments of turns. The runtime's tools must share it; the server fills it.
    pub environments: Environments,
    /// How programs are confined that the server runs itself, such as git; the same as for the commands of turns.
    pub shell: ShellSettings,
    /// Where calls are kept that somebody allowed for good in a project; the runtime must ask it. `None` is nowhere.
    pub remembered: Option<RememberedBook>,
    /// The harness that threads stand on.
    pub harness_id: HarnessId,
    /// The agent that speaks in threads.
    pub agent_id: Option<AgentId>,
    /// The models that clients can name.
    pub models: Models,
    /// What clients are told of the configuration.
    pub config: HostConfig,
    /// The agents of others that threads can be given; the runtime must know them.
    pub backends: BTreeSet<String>,
    /// Names beside those that mean the daemon's own loop with a model, as `provider/model`.
    pub api_backends: BTreeMap<String, String>,
    /// How much clients may ask for.
    pub limits: Limits,
    /// How long connections may take to end when the server stops.
    pub grace: Duration,
    /// How runs are traced.
    pub rpc: RpcSettings,
    /// How what is stored is looked after.
    pub upkeep: Upkeep,
    /// How work is kept and carried out that nobody sits beside; `None` is not at all. The records of the [`WireStore`](crate::WireStore) must
    /// be those of the runtime's journal.
    pub work: Option<WorkSettings>,
}

impl Settings {
    /// Makes settings for a loopback address and any free port.
    pub fn new(workspace: impl Into<PathBuf>, harness_id: HarnessId, access: Access) -> Self {
        Self {
            host: "127.0.0.1".to_owned(),
            port: 0,
            unix_sockets: Vec::new(),
            resumes_open_turns: true,
            access,
            cors_origins: Vec::new(),
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
            limits: Limits::default(),
            grace: Duration::from_secs(10),
            rpc: RpcSettings::default(),
            upkeep: Upkeep::default(),
            work: None,
        }
    }
}
