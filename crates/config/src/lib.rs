//! What `windlass.toml` may say. The text is all that it looks at: which file counts, and who trusts it, is the binary's business.

mod layers;
mod nearest;
mod plain;
mod refused_values;
#[cfg(feature = "schema")]
pub mod schema;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

pub use layers::{Layer, Layers, MergeError, Origin, SetValue};
pub use nearest::nearest;
use serde::Deserialize;
use thiserror::Error;

/// A text that is no configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct ConfigError {
    /// Where it stops to make sense; the first line is 1.
    pub line: usize,
    /// What is wrong there. The line itself is not shown: it may hold a key.
    pub message: String,
}

/// The configuration file. Keys are better kept in the environment.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// The model, as `provider/model`.
    pub model: Option<String>,
    /// Further models that clients of the daemon can name, as `provider/model`.
    pub models: Vec<String>,
    /// What becomes of other names that clients of the daemon write.
    pub unknown_models: UnknownModels,
    /// How much clients of the daemon may ask for.
    pub limits: Limits,
    /// How much turns, threads and a day may use.
    pub budget: Budget,
    /// How the daemon traces runs.
    pub runs: Runs,
    /// What commands of the daemon's agent may use.
    pub shell: Shell,
    /// What tools there are, and how much they may use.
    pub tools: Tools,
    /// What is read of the web.
    pub web: Web,
    /// Agents that models start.
    pub subagents: Subagents,
    /// Work that nobody sits beside.
    pub tasks: Tasks,
    /// Automations that the operator owns, by name.
    pub automations: BTreeMap<String, AutomationEntry>,
    /// Runs of the fleet.
    pub fleet: Fleet,
    /// Which calls run, which are asked about, and which are refused.
    pub approvals: Approvals,
    /// When a conversation is made shorter by itself for the model.
    pub compaction: Compaction,
    /// Directories that threads can work in beside `local`, by the names that clients use.
    pub environments: BTreeMap<String, EnvironmentEntry>,
    /// What the daemon keeps of files that turns change.
    pub checkpoints: Checkpoints,
    /// What the repository of an environment may say to a model.
    pub repository: Repository,
    /// What is kept of outputs that are too long to show.
    pub outputs: Outputs,
    /// What the daemon removes, and when.
    pub retention: Retention,
    /// A file with the key that secrets of sessions are sealed with.
    pub secrets_key_file: Option<PathBuf>,
    /// The proxy for calls to providers.
    #[serde(deserialize_with = "refused_values::proxy")]
    pub proxy: Option<String>,
    /// A PEM file of certificates to trust beside the system's.
    pub ca_file: Option<PathBuf>,
    /// A price list of one's own.
    pub prices_file: Option<PathBuf>,
    /// Settings by provider.
    pub providers: BTreeMap<String, Provider>,
    /// Agents of others that can carry turns, by the names that threads use.
    pub backends: BTreeMap<String, BackendEntry>,
    /// MCP servers whose tools all threads have, by name.
    pub mcp_servers: BTreeMap<String, McpServerEntry>,
    /// Secrets that tools put into commands and requests, by the names that models see. Their values are elsewhere.
    pub secrets: BTreeMap<String, SecretEntry>,
}

/// Where a secret is, and where it may go.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct SecretEntry {
    /// The variable of the daemon's that holds it.
    pub variable: Option<String>,
    /// The file that holds it.
    pub file: Option<PathBuf>,
    /// Whether commands get it, as the variable of its name.
    pub commands: bool,
    /// Hosts whose requests carry it, such as `api.example.com`; over https, unless `http://` is written.
    pub hosts: Vec<String>,
    /// The header that carries it, with `{}` in its place.
    pub header: Option<String>,
    /// Agents whose threads have it too; without them only threads of the operator do.
    pub agents: Vec<String>,
}

/// An MCP server: a program, or an address.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct McpServerEntry {
    /// How it is reached; what else it says decides where this is missing.
    #[serde(rename = "type")]
    pub kind: Option<McpServerType>,
    /// The program to start, in the sandbox of commands.
    #[serde(deserialize_with = "refused_values::program")]
    pub command: Option<String>,
    /// Its arguments.
    pub args: Vec<String>,
    /// Its variables, which no `Debug` shows; `${NAME}` stands for one of the daemon's.
    pub env: BTreeMap<String, String>,
    /// Where it is.
    pub url: Option<String>,
    /// Headers of each request, which no `Debug` shows; `${NAME}` stands for a variable of the daemon's.
    pub headers: BTreeMap<String, String>,
    /// Whether somebody is asked before its tools are called.
    pub approval: McpApproval,
    /// Whether its word counts that a tool only reads, so that no files are kept before and after its calls.
    pub trust_read_only: bool,
    /// How long it may take to start and to list its tools, in milliseconds.
    pub start_timeout_ms: Option<u64>,
    /// How long a call may stay silent, in milliseconds; what it tells of its progress counts.
    pub timeout_ms: Option<u64>,
    /// The same for some of its tools, by the server's own names.
    pub tool_timeouts_ms: BTreeMap<String, u64>,
}

impl fmt::Debug for McpServerEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("McpServerEntry")
            .field("command", &self.command)
            .field("args", &self.args)
            .field("env", &self.env.keys())
            .field("url", &self.url.as_deref().map(without_login))
            .field("headers", &self.headers.keys())
            .field("approval", &self.approval)
            .finish_non_exhaustive()
    }
}

/// How an MCP server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum McpServerType {
    /// As a program, by its pipes.
    Stdio,
    /// Over HTTP.
    #[serde(alias = "streamable-http")]
    Http,
}

/// Whether somebody is asked before a tool of a server is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum McpApproval {
    /// Each call waits until somebody allows it.
    #[default]
    Ask,
    /// Nobody is asked.
    Never,
}

/// An agent of others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct BackendEntry {
    /// How it is spoken to; its name says so where it is one of these.
    pub kind: Option<BackendKind>,
    /// Its program, where that is not the usual one.
    pub command: Option<PathBuf>,
    /// Arguments beside those by which it is driven.
    pub arguments: Vec<String>,
    /// The model that it is to ask for.
    pub model: Option<String>,
    /// The daemon's variables that it gets, by name, such as one with a key.
    pub variables: Vec<String>,
    /// Whose home directory it has.
    pub home: BackendHome,
    /// The directory with its settings below the user's home, which it may change; only where it has that home.
    pub settings: Option<PathBuf>,
    /// For how many seconds it may be silent while it works; 0 is for ever.
    pub silence_seconds: Option<u64>,
    /// How many seconds a turn may take.
    pub turn_seconds: Option<u64>,
}

/// How an agent of others is spoken to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Claude Code, by stream-json.
    ClaudeCode,
    /// Codex, by its app-server.
    Codex,
    /// Gemini CLI, by the Agent Client Protocol.
    Gemini,
    /// Any other that speaks the Agent Client Protocol.
    Acp,
}

impl BackendKind {
    /// Returns its name, as it is configured.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::ClaudeCode => "claude-code",
            Self::Codex => "codex",
            Self::Gemini => "gemini",
            Self::Acp => "acp",
        }
    }
}

/// Whose home directory an agent of others has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum BackendHome {
    /// One of its own in the data directory, another for each owner of threads. It has the user's login there.
    #[default]
    Own,
    /// The user's, of which it sees where it works and its own settings. What it writes there the user's own program obeys.
    User,
}

/// What becomes of the name of a model that is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum UnknownModels {
    /// The provider of the default model is asked for it.
    #[default]
    DefaultProvider,
    /// The request is refused.
    Refuse,
}

/// How much clients of the daemon may ask for; what is not set stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a body.
    pub body_bytes: Option<usize>,
    /// Threads.
    pub threads: Option<usize>,
    /// Event streams that are open at once.
    pub subscribers: Option<usize>,
    /// Connections that are open at once.
    pub connections: Option<usize>,
    /// Calls of a thread that wait for a client.
    pub pending_calls: Option<usize>,
    /// Words to a running turn that it has not read yet.
    pub waiting_inputs: Option<usize>,
    /// How long a turn waits for somebody, in seconds.
    pub wait_seconds: Option<u64>,
    /// Bytes of an external agent's output that one turn records, at least 1. Beyond it the turn fails with `backend_output_limit`.
    pub backend_output_bytes: Option<NonZeroUsize>,
}

/// How much turns, threads and a day may use; what is not set is not limited.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Budget {
    /// US dollars of one turn.
    pub turn_usd: Option<f64>,
    /// Tokens of one turn, read and written.
    pub turn_tokens: Option<u64>,
    /// Model calls of one turn.
    pub turn_model_calls: Option<u64>,
    /// Tool calls of one turn.
    pub turn_tool_calls: Option<u64>,
    /// Seconds of one turn, waits included.
    pub turn_seconds: Option<u64>,
    /// US dollars of all turns of a thread.
    pub thread_usd: Option<f64>,
    /// Tokens of all turns of a thread.
    pub thread_tokens: Option<u64>,
    /// US dollars of all threads in a day.
    pub day_usd: Option<f64>,
    /// Tokens of all threads in a day.
    pub day_tokens: Option<u64>,
    /// US dollars of the threads of one agent's token in a day.
    pub token_day_usd: Option<f64>,
    /// US dollars that are set aside for a model call before it begins, at the least.
    pub reserve_usd: Option<f64>,
    /// Tokens that are set aside for a model call before it begins, at the least.
    pub reserve_tokens: Option<u64>,
}

/// How the daemon traces runs; what is not set stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Runs {
    /// How long a run waits for the end of its lost connection's last words, in milliseconds.
    pub grace_ms: Option<u64>,
    /// How long a run waits to be taken up again, in milliseconds.
    pub lease_ms: Option<u64>,
    /// For how many days ended runs are kept; for ever if nothing is said.
    pub keep_days: Option<u32>,
    /// How many bytes a message may have.
    pub message_bytes: Option<usize>,
}

/// What commands may use; what is not set stays as it is.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Shell {
    /// How programs are confined.
    pub sandbox: Sandbox,
    /// Files and directories of your home that commands may read, such as `~/.gitconfig`. They see nothing else of it but the directories
    /// in `PATH` and what programs there need.
    pub home_paths: Vec<PathBuf>,
    /// The same that they may also change, such as `~/.cache/pip`.
    pub writable_home_paths: Vec<PathBuf>,
    /// Whether commands may make pseudo-terminals under landlock, which opens your other terminals to them. In bubblewrap they always may.
    pub terminals: bool,
    /// How much memory each process may use for its data, in megabytes; 0 is any.
    pub max_memory_mb: Option<u64>,
    /// How many processes and threads a command may have at once, where it has a sandbox of namespaces; 0 is any.
    pub max_processes: Option<u64>,
    /// What commands may reach over the network in the workspace, and where `windlass run` works; `inherit` where nothing is said.
    pub network: Option<EnvironmentNetwork>,
    /// Hosts that commands reach where the network is filtered, such as `crates.io`, `*.example.com` or `git.example:9418`.
    pub hosts: Vec<String>,
    /// How many commands of a thread may run in the background at once; 0 is none.
    pub max_background: Option<usize>,
    /// How many minutes a command may take in the background.
    pub background_minutes: Option<u64>,
}

/// What tools there are; what is not set stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// Tools that no model is offered, by name; `*` stands for any letters.
    pub disabled: Vec<String>,
    /// How many seconds a call may take; 0 is any.
    pub timeout_seconds: Option<u64>,
    /// How many bytes of a result a model gets.
    pub max_result_bytes: Option<usize>,
    /// Above how many tools of MCP servers, or of one capability, a model finds them by `tool_search`; 0 is never.
    pub defer_above: Option<usize>,
}

/// What is read of the web; what is not set stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Web {
    /// Whether models are offered `web_fetch`.
    pub enabled: Option<bool>,
    /// Hosts and networks that are read also where they are private, such as `127.0.0.1:8080`, `internal.example` or `10.0.0.0/8`. Nobody is
    /// asked about pages of a host that is named here.
    pub allow: Vec<String>,
    /// Hosts and networks of which nothing is read.
    pub deny: Vec<String>,
}

/// Agents that models start; what is not set stays as it is.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Subagents {
    /// Whether models are offered `spawn_agent`.
    pub enabled: Option<bool>,
    /// How many levels of agents there may be below a turn that somebody began.
    pub max_depth: Option<u32>,
    /// How many agents of one turn work at once.
    pub at_once: Option<usize>,
    /// How many agents a turn may start in all.
    pub per_turn: Option<usize>,
    /// The backends that such an agent may run on, by name.
    pub backends: Vec<String>,
}

/// Work that nobody sits beside: tasks, and automations that queue them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Tasks {
    /// How many tasks run at once, from 1 to 8.
    pub workers: Option<usize>,
    /// The time zone of automations that name none, such as `Europe/Berlin`; the machine's own where it is not set.
    pub time_zone: Option<String>,
}

/// An automation. Exactly one of `cron` and `schedule` is set.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct AutomationEntry {
    /// The prompt of each run.
    pub prompt: String,
    /// A cron expression of five fields, such as `0 9 * * 1-5`.
    pub cron: Option<String>,
    /// An RRULE, such as `FREQ=DAILY;BYHOUR=9;BYMINUTE=0`.
    pub schedule: Option<String>,
    /// The time zone of the schedule; that of `tasks.time_zone` where it is not set.
    pub time_zone: Option<String>,
    /// The directory in which its runs work; the daemon's workspace where it is not set.
    pub workspace: Option<PathBuf>,
    /// The model; the daemon's own where it is not set.
    pub model: Option<String>,
    /// The mode of the agent.
    pub mode: Option<String>,
    /// The external agent that executes its runs.
    pub backend: Option<String>,
    /// Whether its runs may execute commands.
    pub allow_shell: Option<bool>,
    /// Whether its runs call tools without asking for approval.
    pub auto_approve: Option<bool>,
    /// How many attempts a run has while it fails, from 1 to 10.
    pub max_attempts: Option<u32>,
    /// What happens to times that passed while no daemon ran.
    pub missed: Option<MissedRuns>,
    /// Whether it does not fire by its schedule.
    pub paused: bool,
}

/// What happens to times that passed while no daemon ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MissedRuns {
    /// They are skipped.
    Skip,
    /// The last one runs.
    Once,
    /// The last thousand run.
    All,
}

/// Runs of the fleet: many tasks over some workers.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {
    /// How many workers of all runs work at once, from 1 to 64.
    pub workers: Option<usize>,
    /// How many runs may be open, from 1 to 256; one token may have half of them.
    pub open_runs: Option<usize>,
}

/// When a conversation is made shorter by itself for the model; what is not set follows from the model.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Compaction {
    /// Whether it is; where nothing is said, it is.
    pub enabled: Option<bool>,
    /// How many tokens a request and its answer may have together, whatever the model.
    pub window_tokens: Option<u64>,
    /// How many of them are kept free for the answer, at most half.
    pub reserve_tokens: Option<u64>,
}

/// Which calls run, which are asked about, and which are refused. The most careful rule that matches wins: `deny`, then `ask`, then `allow`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// What becomes of calls that change something and that no rule matches.
    pub default: Option<ApprovalAction>,
    /// The rules.
    pub rules: Vec<ApprovalRule>,
}

/// What becomes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    /// It runs, and nobody is asked.
    Allow,
    /// Somebody is asked, unless its turn approves everything.
    Ask,
    /// It does not run, whatever its turn approves.
    Deny,
}

/// Which calls, and what becomes of them. What is not said matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// The tool; `*` stands for any letters.
    pub tool: String,
    /// Patterns of its arguments: `*` stands for any letters but `/`, `**` for any.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
    /// The first words of its command, such as `cargo test`.
    #[serde(default)]
    pub command: Option<String>,
    /// What becomes of it.
    pub action: ApprovalAction,
}

/// A directory that threads can work in.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(deny_unknown_fields)]
pub struct EnvironmentEntry {
    /// The directory.
    pub root: PathBuf,
    /// Whether files may be changed there.
    #[serde(default = "yes")]
    pub write: bool,
    /// Whether commands may run there.
    #[serde(default = "yes")]
    pub shell: bool,
    /// What commands may reach over the network.
    #[serde(default)]
    pub network: EnvironmentNetwork,
}

fn yes() -> bool {
    true
}

/// What commands may reach over the network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentNetwork {
    /// What the daemon may.
    #[default]
    Inherit,
    /// Nothing.
    None,
    /// The hosts of `shell.hosts`, by a proxy.
    Filtered,
}

/// How commands, and programs that look at a workspace, are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// By bubblewrap where it works, else by landlock.
    #[default]
    Auto,
    /// By bubblewrap and nothing else.
    Bubblewrap,
    /// By landlock and nothing else.
    Landlock,
    /// By nothing: they are refused.
    None,
}

/// What the daemon keeps of files that turns change, so that it can be taken back.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Checkpoints {
    /// Whether anything is kept; it is if nothing is said.
    pub enabled: Option<bool>,
    /// How many megabytes that may be; the oldest turns go first.
    pub max_mb: Option<u64>,
}

/// What the repository of an environment may say to a model.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Repository {
    /// Whether a model is told what its `AGENTS.md` files and skills say; it is if nothing is said.
    pub instructions: Option<bool>,
}

/// What the daemon keeps of outputs that are too long to show, so that a model can look into them.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Outputs {
    /// How many megabytes of one output; of a longer one, these and its end.
    pub each_mb: Option<u64>,
    /// How many megabytes of all outputs; the oldest go first.
    pub max_mb: Option<u64>,
}

/// What the daemon removes of ended turns; what is not set is kept.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// For how many days records are kept.
    pub max_age_days: Option<u32>,
    /// How many bytes the database may use; the oldest records go first.
    pub max_bytes: Option<u64>,
    /// For how many hours pieces of streamed text are kept. Later records hold the text whole.
    pub text_chunk_hours: Option<u32>,
    /// How often the database is looked after, in minutes; 0 is never, 60 if nothing is said.
    pub every_minutes: Option<u32>,
}

/// How a provider is reached.
#[derive(Clone, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    /// The key, which no `Debug` shows.
    pub api_key: Option<String>,
    /// Where its API is, if not at the usual address.
    pub base_url: Option<String>,
    /// How many calls it is sent at once.
    pub max_parallel_calls: Option<usize>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Provider")
            .field("api_key", &self.api_key.as_ref().map(|_| "[set]"))
            .field("base_url", &self.base_url)
            .finish_non_exhaustive()
    }
}

impl Config {
    /// Reads the text of a file. Paths in it start from the directory `from`, not from where somebody happens to stand.
    ///
    /// # Errors
    /// If it is no TOML, or says what nobody knows.
    pub fn parse(text: &str, from: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|error| refused(&error, text))?;
        for (_, path) in config.paths() {
            *path = from.join(&*path);
        }
        Ok(config)
    }

    /// Returns the paths that it names, each with the way to it, table by table.
    fn paths(&mut self) -> impl Iterator<Item = (Vec<&str>, &mut PathBuf)> {
        let files = [
            ("secrets_key_file", &mut self.secrets_key_file),
            ("ca_file", &mut self.ca_file),
            ("prices_file", &mut self.prices_file),
        ];
        let files = files.into_iter();
        let files = files.filter_map(|(key, file)| Some((vec![key], file.as_mut()?)));
        let roots = self.environments.iter_mut().map(|(name, entry)| {
            let key = vec!["environments", name.as_str(), "root"];
            (key, &mut entry.root)
        });
        let secrets = self.secrets.iter_mut().filter_map(|(name, entry)| {
            let key = vec!["secrets", name.as_str(), "file"];
            Some((key, entry.file.as_mut()?))
        });
        let workspaces = self.automations.iter_mut().filter_map(|(name, entry)| {
            let key = vec!["automations", name.as_str(), "workspace"];
            Some((key, entry.workspace.as_mut()?))
        });
        files.chain(roots).chain(secrets).chain(workspaces)
    }
}

/// Says where a text stops to make sense.
fn refused(error: &toml::de::Error, text: &str) -> ConfigError {
    let before = error.span().map_or("", |span| &text[..span.start]);
    let message = without_text(error.message());
    ConfigError {
        line: before.matches('\n').count() + 1,
        message: nearest::with_suggestion(&message)
            .or_else(|| plain::in_plain_words(&message))
            .unwrap_or(message),
    }
}

/// Takes the text out of `invalid type: string "…", expected …`: somebody may have put a key there.
fn without_text(message: &str) -> String {
    let shown = message.split_once(" string \"").and_then(|(before, text)| {
        let (_, expected) = text.rsplit_once("\", expected ")?;
        Some(format!("{before} string, expected {expected}"))
    });
    shown.unwrap_or_else(|| message.to_owned())
}

/// Spells an address without the name and password that may be in it.
#[must_use]
pub fn without_login(url: &str) -> String {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}{}", &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        Config::parse(text, Path::new("")).unwrap_err().to_string()
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, said) in [
            (
                "\nmodle = 1",
                "line 2: unknown key `modle`; did you mean `model`?",
            ),
            (
                "[limits]\nthreads = -1",
                "line 2: it is the number -1, but a whole number",
            ),
            (
                "[retention]\n\nmax_age = 3",
                "line 3: unknown key `max_age`; did you mean `max_age_days`?",
            ),
            (
                "[shell]\nsandbox = \"x\"",
                "line 2: unknown value `x`; it can be one of `auto`, `bubblewrap`",
            ),
            (
                "model = 1",
                "line 1: it is the number 1, but a text in quotes is expected",
            ),
        ] {
            let refused = refused(text);
            assert!(refused.starts_with(said), "{refused}");
        }
    }

    #[test]
    fn a_key_in_the_wrong_place_is_not_shown() {
        for text in [
            "[providers]\nopenai = \"sk-1\"",
            "[providers.openai]\nmax_parallel_calls = \"sk-1\"",
            "providers.openai = '''\nsk-1\", expected \"sk-1\n'''",
            "providers = \"sk-1\"",
        ] {
            let refused = refused(text);
            assert!(!refused.contains("sk-1"), "{refused}");
            assert!(refused.contains("it is a text, but "), "{refused}");
        }
    }

    #[test]
    fn paths_start_from_the_file() {
        let config = Config::parse("ca_file = 'a'\nprices_file = '/b'", Path::new("/etc")).unwrap();
        assert_eq!(config.ca_file, Some(PathBuf::from("/etc/a")));
        assert_eq!(config.prices_file, Some(PathBuf::from("/b")));
    }
}
