//! The keys of `windlass.toml`. This crate only parses text: which files apply, and whether the user trusts them, is decided by the binary.

mod layers;
mod nearest;
mod plain;
pub mod schema;
mod validate;

use std::collections::BTreeMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

pub use layers::{Layer, Layers, MergeError, Origin, SetValue};
pub use nearest::nearest;
use schemars::JsonSchema;
use serde::Deserialize;
use thiserror::Error;

/// Why a text is not a valid configuration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: {message}")]
pub struct ConfigError {
    /// The line of the error, counted from 1.
    pub line: usize,
    /// The reason. It does not quote the line, which may contain a key.
    pub message: String,
}

/// Configuration of Windlass, as read from `windlass.toml`. Every key is optional.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Default model, as `provider/model`. Default: the default model of the first provider that has a key (in the order `openai`, `anthropic`, `gemini`, `openai-chat`, `openrouter`, `azure-openai`), or else the demonstration model.
    pub model: Option<String>,
    /// Additional models that clients can select, as `provider/model`.
    pub models: Vec<String>,
    /// How to handle unknown model names from clients. See [names of models](configuration.md#names-of-models). Default: `default_provider`.
    pub unknown_models: UnknownModels,
    /// Limits for clients of the daemon. A request that exceeds a limit gets 429; a request body that is too large gets 413.
    pub limits: Limits,
    /// Spending limits and reservations. A limit that is not set does not apply. See [budgets](budgets.md).
    pub budget: BudgetLimits,
    /// Settings for tracing runs that other programs report. See [runs](runs.md).
    pub runs: Runs,
    /// Settings for commands that agents execute. See [the sandbox](sandbox.md) and [commands](commands.md).
    pub shell: ShellConfig,
    /// Settings for tools of all kinds.
    pub tools: Tools,
    /// Settings for web pages that agents read. See [web](web.md).
    pub web: Web,
    /// Settings for agents that models start. See [subagents](subagents.md).
    pub subagents: Subagents,
    /// Settings for unattended work. See [tasks](tasks.md).
    pub tasks: Tasks,
    /// The operator's automations, by name. Each requires exactly one of `cron` and `schedule`. See
    /// [tasks](tasks.md#automations-in-the-configuration).
    pub automations: BTreeMap<String, AutomationEntry>,
    /// Settings for runs that distribute many tasks among workers. See [fleet](fleet.md).
    pub fleet: Fleet,
    /// Rules that determine whether a call runs, needs an approval, or is denied. See [approvals](approvals.md).
    pub approvals: Approvals,
    /// Settings for the automatic compaction of long conversations. See [compaction](compaction.md).
    pub compaction: Compaction,
    /// Directories, in addition to `local`, in which threads can work. `NAME` is the name that clients use. Clients cannot remove these environments.
    pub environments: BTreeMap<String, EnvironmentEntry>,
    /// Settings for storing file contents so that changes can be undone. See [checkpoints](checkpoints.md).
    pub checkpoints: Checkpoints,
    /// Settings for the agent's prompt. See [the prompt](repository.md#the-prompt).
    pub prompt: Prompt,
    /// Settings for instructions in the repository. See [repository](repository.md).
    pub repository: Repository,
    /// Settings for the output of `windlass run` and `windlass chat`. These keys apply only in your own file and in the file that `--config` names.
    pub terminal: Terminal,
    /// Settings for storing tool outputs that are too long to show in full. See [commands](commands.md#long-outputs).
    pub outputs: Outputs,
    /// Settings for deleting old records. Nothing is deleted unless you set a limit. See [operations](operations.md#retention-and-maintenance).
    pub retention: Retention,
    /// File that contains the key for encrypting session secrets, as 64 hexadecimal digits. Default: `secrets.key` in the data directory.
    pub secrets_key_file: Option<PathBuf>,
    /// Proxy for calls to model providers, such as `http://proxy.example:3128`. Proxy environment variables are ignored.
    #[serde(deserialize_with = "validate::proxy")]
    pub proxy: Option<String>,
    /// PEM file with certificates to trust in addition to the system's certificates.
    pub ca_file: Option<PathBuf>,
    /// File with model prices that override the built-in prices. See [budgets](budgets.md#prices).
    pub prices_file: Option<PathBuf>,
    /// Model providers, by name: `openai`, `openai-chat`, `anthropic`, `gemini`, `openrouter` or `azure-openai`.
    pub providers: BTreeMap<String, Provider>,
    /// External agents that execute turns. `NAME` is the name that threads use. `claude-code`, `codex` and `gemini` need no entry. See [external
    /// agents](backends.md).
    pub backends: BTreeMap<String, BackendEntry>,
    /// MCP servers, by name. All threads can use their tools. See [MCP](mcp.md).
    pub mcp_servers: BTreeMap<String, McpServerEntry>,
    /// Secrets that tools insert into commands and requests. `NAME` is the name that models see. Each requires exactly one of `variable` and `file`. See
    /// [secrets](secrets.md).
    pub secrets: BTreeMap<String, SecretEntry>,
}

/// A named secret: the source of its value, and the destinations to which it can be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SecretEntry {
    /// Name of the daemon's environment variable that contains the value.
    pub variable: Option<String>,
    /// File that contains the value. A trailing line break is ignored.
    pub file: Option<PathBuf>,
    /// Whether commands get the secret, in an environment variable with the secret's name.
    pub commands: bool,
    /// Hosts that get the secret in requests, such as `api.example.com`. Requests must use HTTPS unless the entry begins with `http://`.
    pub hosts: Vec<String>,
    /// Header in which the secret is sent; `{}` is replaced by the value. Default: `Authorization: Bearer {}`.
    pub header: Option<String>,
    /// Agents whose threads can use the secret. The operator's threads can always use it.
    pub agents: Vec<String>,
}

/// An MCP server: a program, or a URL.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerEntry {
    /// Transport for messages to and from the server. Default: `stdio` if `command` is set, `http` if `url` is set.
    #[serde(rename = "type")]
    pub kind: Option<McpServerType>,
    /// Program to start. It runs in the same sandbox as commands.
    #[serde(deserialize_with = "validate::program")]
    pub command: Option<String>,
    /// Arguments for the program.
    pub args: Vec<String>,
    /// Environment variables for the program, in addition to those that commands get. `${NAME}` is replaced by a secret that commands get, or by one
    /// of the daemon's environment variables.
    pub env: BTreeMap<String, String>,
    /// URL of a server that uses HTTP.
    pub url: Option<String>,
    /// Headers for each request. `${NAME}` is replaced by a secret whose `hosts` include the server's host, or by one of the daemon's environment
    /// variables.
    pub headers: BTreeMap<String, String>,
    /// Whether calls to the server's tools need an approval. Default: `ask`.
    pub approval: McpApproval,
    /// Whether to trust the server's claim that a tool only reads. If so, no files are saved for undo before calls to that tool.
    pub trust_read_only: bool,
    /// Time limit for starting the server, in milliseconds. The same limit applies again to listing its tools. Default: 30000.
    pub start_timeout_ms: Option<u64>,
    /// Maximum time without a message from the server during a call, in milliseconds. Each progress message resets the timer. Default: 60000.
    pub timeout_ms: Option<u64>,
    /// Value of `timeout_ms` for a single tool, by the server's own name for the tool. Default: `timeout_ms`.
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

/// Transport of an MCP server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpServerType {
    /// A program that communicates over standard input and output.
    Stdio,
    /// A server that communicates over streamable HTTP.
    #[serde(alias = "streamable-http")]
    Http,
}

/// Whether calls of an MCP server's tools need an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum McpApproval {
    /// Each call needs an approval.
    #[default]
    Ask,
    /// Calls run without an approval.
    Never,
}

/// An external agent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BackendEntry {
    /// Protocol of the agent. Required unless the entry has the name of a built-in kind. Default: the kind with the entry's name.
    pub kind: Option<BackendKind>,
    /// Program of the agent. A name without a slash is searched for in `PATH`. Default: the usual program for the kind.
    pub command: Option<PathBuf>,
    /// Arguments for the program, added after those that the protocol requires.
    pub arguments: Vec<String>,
    /// Model for the agent to use. Default: the agent's choice.
    pub model: Option<String>,
    /// Names of the daemon's environment variables that the agent gets, in addition to `HOME`, `PATH`, `LANG` and `TERM`.
    pub variables: Vec<String>,
    /// Home directory of the agent. Default: `own`.
    pub home: BackendHome,
    /// Directory in your home directory that the agent can change if `home` is `user`. Default: the usual directory for the kind.
    pub settings: Option<PathBuf>,
    /// Maximum time without output from the agent during a turn, in seconds. 0 means no limit. Default: 600.
    pub silence_seconds: Option<u64>,
    /// Maximum duration of a turn, in seconds. Default: no limit.
    pub turn_seconds: Option<u64>,
}

/// Protocol of an external agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Claude Code, over its stream-json protocol.
    ClaudeCode,
    /// Codex, over its app-server protocol.
    Codex,
    /// Gemini CLI, over the Agent Client Protocol.
    Gemini,
    /// Any other agent that implements the Agent Client Protocol.
    Acp,
}

impl BackendKind {
    /// Returns the name that the configuration uses.
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

/// Home directory of an external agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackendHome {
    /// A private directory in the data directory, separate for each owner of threads. The operator's threads use your own login for the agent.
    #[default]
    Own,
    /// Your home directory, in which the agent sees only its working directory and its own settings. If the agent changes its settings, the changes also apply when you run the agent yourself.
    User,
}

/// What happens to a model name that is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownModels {
    /// The name is sent to the default model's provider.
    #[default]
    DefaultProvider,
    /// The request is refused.
    Refuse,
}

/// Limits for clients of the daemon.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Maximum size of a request body, in bytes. Default: 16777216.
    pub body_bytes: Option<usize>,
    /// Maximum number of threads. Default: 100000.
    pub threads: Option<usize>,
    /// Maximum number of open event streams. Default: 4096.
    pub subscribers: Option<usize>,
    /// Maximum number of open connections. The process's limit on file descriptors (`ulimit -n`) can reduce it. Default: 8192.
    pub connections: Option<usize>,
    /// Maximum number of calls in one thread that wait for a client. Default: 128.
    pub pending_calls: Option<usize>,
    /// Maximum number of waiting prompts in one thread. These are queued prompts, and steering prompts that the model has not read yet. Default: 128.
    pub waiting_inputs: Option<usize>,
    /// Maximum time that a turn waits for an approval, an answer or a client's result, in seconds. Default: 300.
    pub wait_seconds: Option<u64>,
    /// Maximum size of an external agent's output that one turn records, in bytes; at least 1. A turn that exceeds it fails with
    /// `backend_output_limit`. Default: 16777216.
    pub backend_output_bytes: Option<NonZeroUsize>,
}

/// Spending limits for turns, threads and days.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetLimits {
    /// Maximum cost of one turn, in US dollars.
    pub turn_usd: Option<f64>,
    /// Maximum number of input and output tokens in one turn.
    pub turn_tokens: Option<u64>,
    /// Maximum number of model calls in one turn.
    pub turn_model_calls: Option<u64>,
    /// Maximum number of tool calls in one turn. Further calls are not executed, and the model gets the reason.
    pub turn_tool_calls: Option<u64>,
    /// Maximum duration of one turn, in seconds, including waits.
    pub turn_seconds: Option<u64>,
    /// Maximum cost of all turns in a thread, in US dollars.
    pub thread_usd: Option<f64>,
    /// Maximum number of tokens in all turns of a thread.
    pub thread_tokens: Option<u64>,
    /// Maximum cost of all threads per day (UTC), in US dollars.
    pub day_usd: Option<f64>,
    /// Maximum number of tokens in all threads per day (UTC).
    pub day_tokens: Option<u64>,
    /// Maximum cost per day (UTC) of the threads that one agent's token created, in US dollars.
    pub token_day_usd: Option<f64>,
    /// Minimum amount to reserve before a model call, in US dollars. Default: 0.02.
    pub reserve_usd: Option<f64>,
    /// Minimum number of tokens to reserve before a model call. Default: 4000.
    pub reserve_tokens: Option<u64>,
}

/// Tracing of reported runs.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Runs {
    /// Time that a run stays open after its connection is lost, in milliseconds, if the connection requested no lease. Default: 250.
    pub grace_ms: Option<u64>,
    /// Time that a run with a lease waits for its owner to reconnect, in milliseconds. After a restart, this applies to all runs. Default: 10000.
    pub lease_ms: Option<u64>,
    /// Number of days for which to store ended runs. Default: no limit.
    pub keep_days: Option<u32>,
    /// Maximum size of one message over the socket, in bytes. Default: 1048576.
    pub message_bytes: Option<usize>,
}

/// Sandbox and limits for commands.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellConfig {
    /// How to confine commands. Default: `auto`.
    pub sandbox: Sandbox,
    /// Files and directories in your home directory that commands can read, such as `~/.gitconfig`. By default, the only parts of your home directory that commands see are the environment's root, the directories in `PATH`, and the files that the programs there need.
    pub home_paths: Vec<PathBuf>,
    /// Files and directories in your home directory that commands can read and change, such as `~/.cache/pip`.
    pub writable_home_paths: Vec<PathBuf>,
    /// Whether commands can create pseudo-terminals under Landlock. This also gives commands access to your other terminals. Under bubblewrap,
    /// commands can always create pseudo-terminals.
    pub terminals: bool,
    /// Maximum size of each process's data, in megabytes. 0 means no limit. Default: 8192.
    pub max_memory_mb: Option<u64>,
    /// Maximum number of processes and threads in one command under bubblewrap. 0 means no limit. Default: 2048.
    pub max_processes: Option<u64>,
    /// Network access for commands in the workspace, and for `windlass run` in directories without an entry in `[environments]`. Default: `inherit`.
    pub network: Option<EnvironmentNetwork>,
    /// Hosts that commands can reach if the network is filtered, such as `crates.io`, `*.example.com` or `git.example:9418`.
    pub hosts: Vec<String>,
    /// Maximum number of background commands that run in one thread at the same time. 0 disables background commands. Default: 8.
    pub max_background: Option<usize>,
    /// Maximum duration of a background command, in minutes. Default: 240.
    pub background_minutes: Option<u64>,
}

/// Settings for tools of all kinds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// Names of tools that no model is offered. `*` matches any characters.
    pub disabled: Vec<String>,
    /// Maximum duration of a call, in seconds, unless the tool has its own limit. 0 means no limit. Default: 300.
    pub timeout_seconds: Option<u64>,
    /// Maximum size of a result that the model gets, in bytes. Default: 65536.
    pub max_result_bytes: Option<usize>,
    /// Number of tools above which models are offered `tool_search` instead of the tools. The tools of all MCP servers are counted together, and
    /// those of each capability separately. 0 disables this. Default: 24.
    pub defer_above: Option<usize>,
}

/// Settings for web pages that agents read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Web {
    /// Whether models are offered `web_fetch`. Default: `true`.
    pub enabled: Option<bool>,
    /// Hosts and networks that agents can reach even if they are private, such as `127.0.0.1:8080`, `internal.example` or `10.0.0.0/8`. Pages of a
    /// host that is listed by its full name need no approval.
    pub allow: Vec<String>,
    /// Hosts and networks that agents cannot reach.
    pub deny: Vec<String>,
}

/// Settings for agents that models start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Subagents {
    /// Whether models are offered `spawn_agent`. Default: `true`.
    pub enabled: Option<bool>,
    /// Maximum number of levels of agents below a turn. 0 disables `spawn_agent`. Default: 2.
    pub max_depth: Option<u32>,
    /// Maximum number of agents that work at the same time in one turn. Further agents wait. 0 disables `spawn_agent`. Default: 8.
    pub at_once: Option<usize>,
    /// Maximum number of agents that one turn can start in total. 0 disables `spawn_agent`. Default: 32.
    pub per_turn: Option<usize>,
    /// Names of external agents that models can start.
    pub backends: Vec<String>,
}

/// Settings for tasks, and for the automations that queue them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tasks {
    /// Maximum number of tasks that run at the same time, from 1 to 8. `--workers` overrides this key. Default: 2.
    pub workers: Option<usize>,
    /// Time zone for automations that do not set one, such as `Europe/Berlin`. Default: the machine's time zone.
    pub time_zone: Option<String>,
}

/// An automation of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AutomationEntry {
    /// Prompt for each run. Required.
    pub prompt: String,
    /// Schedule as a cron expression with five fields, such as `0 9 * * 1-5`.
    pub cron: Option<String>,
    /// Schedule as an RRULE, such as `FREQ=DAILY;BYHOUR=9;BYMINUTE=0`.
    pub schedule: Option<String>,
    /// Time zone of the schedule. Default: `tasks.time_zone`.
    pub time_zone: Option<String>,
    /// Working directory for the runs. Default: the daemon's workspace.
    pub workspace: Option<PathBuf>,
    /// Model for the runs. Default: the daemon's default model.
    pub model: Option<String>,
    /// Agent mode for the runs. Default: `agent`.
    pub mode: Option<String>,
    /// External agent that executes the runs.
    pub backend: Option<String>,
    /// Whether the runs can execute commands. Default: the daemon's setting.
    pub allow_shell: Option<bool>,
    /// Whether the runs call tools without an approval. Default: `false`.
    pub auto_approve: Option<bool>,
    /// Maximum number of attempts for each run, from 1 to 10. Default: 1.
    pub max_attempts: Option<u32>,
    /// How to handle scheduled times that passed while no daemon was running. Default: `once`.
    pub missed: Option<MissedRunsPolicy>,
    /// Whether the schedule is suspended.
    pub paused: bool,
}

/// How to handle scheduled times that passed while no daemon was running.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedRunsPolicy {
    /// No run starts for a missed time.
    Skip,
    /// A run starts for the last missed time.
    Once,
    /// A run starts for each missed time, up to the last thousand.
    All,
}

/// Settings for fleet runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {
    /// Maximum number of workers that work at the same time, across all runs, from 1 to 64. Default: 8.
    pub workers: Option<usize>,
    /// Maximum number of open runs, from 1 to 256. One token can have at most half of this number. Default: 32.
    pub open_runs: Option<usize>,
}

/// Settings for the automatic compaction of long conversations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compaction {
    /// Whether to summarise a conversation that exceeds the model's context window. Default: `true`.
    pub enabled: Option<bool>,
    /// Size of the context window for every model, in tokens. The window contains a request and its answer. Default: the model's window, or else
    /// 64000.
    pub window_tokens: Option<u64>,
    /// Number of tokens in the window to reserve for the answer, at most half of the window. Default: a quarter of the window, but at most 32000 plus a twentieth of the window.
    pub reserve_tokens: Option<u64>,
}

/// Approval rules. The strictest matching rule applies: `deny`, then `ask`, then `allow`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// How to handle calls that change something and match no rule. Default: `ask`.
    pub default: Option<ApprovalAction>,
    /// Rules, as tables with `tool`, `arguments`, `command` and `action`. The strictest matching rule applies.
    pub rules: Vec<ApprovalRule>,
}

/// How to handle a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    /// The call runs without an approval.
    Allow,
    /// The call needs an approval, unless its turn approves everything.
    Ask,
    /// The call does not run, even if its turn approves everything.
    Deny,
}

/// Calls and how to handle them. An omitted condition matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Name of the tool; `*` matches any characters.
    pub tool: String,
    /// Patterns for arguments: `*` matches any characters except `/`, and `**` matches any characters.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
    /// First words of the command, such as `cargo test`.
    #[serde(default)]
    pub command: Option<String>,
    /// How to handle matching calls.
    pub action: ApprovalAction,
}

/// A directory in which threads can work.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentEntry {
    /// Root directory. Required.
    pub root: PathBuf,
    /// Whether files can be changed. Default: `true`.
    #[serde(default = "yes")]
    pub write: bool,
    /// Whether commands can run. Default: `true`.
    #[serde(default = "yes")]
    pub shell: bool,
    /// Network access for commands. Default: `inherit`.
    #[serde(default)]
    pub network: EnvironmentNetwork,
}

fn yes() -> bool {
    true
}

/// Network access for commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentNetwork {
    /// The same network access as the daemon.
    #[default]
    Inherit,
    /// No network access and no web pages.
    None,
    /// Access only to the hosts in `shell.hosts`, through a proxy.
    Filtered,
}

/// How to confine commands, and programs that inspect a workspace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// Bubblewrap if it works, or else Landlock.
    #[default]
    Auto,
    /// Only bubblewrap. Commands are refused if it does not work.
    Bubblewrap,
    /// Only Landlock. Commands are refused if it does not work.
    Landlock,
    /// No sandbox. Commands are refused.
    None,
}

/// Settings for storing file contents so that changes can be undone.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checkpoints {
    /// Whether to save the files that turns change, so that the changes can be undone. Default: `true`.
    pub enabled: Option<bool>,
    /// Maximum total size of the saved files, in megabytes. The files of the oldest turns are removed first. Default: 1024.
    pub max_mb: Option<u64>,
}

/// Settings for the agent's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prompt {
    /// Instructions for the agent. Default: the instructions that `windlass prompt` shows.
    pub text: Option<String>,
    /// Whether the prompt describes the working directory, the system, the sandbox, the approvals and the git status. Default: `true`.
    pub environment: Option<bool>,
}

/// Settings for instructions in the repository.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Repository {
    /// Whether models read the `AGENTS.md` files and the skills in the environment. Default: `true`.
    pub instructions: Option<bool>,
}

/// Settings for the output of commands on a terminal.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Terminal {
    /// How to notify you when a turn has ended or is waiting for you. Default: `off`.
    pub notify: Notify,
    /// Minimum time that you must have waited to be notified, in seconds. Default: 10.
    pub notify_after_seconds: Option<u64>,
}

/// A notification on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Notify {
    /// You are not notified.
    #[default]
    Off,
    /// The command writes the bell character.
    Bell,
    /// The command writes the escape sequence OSC 9, which some terminals show as a desktop notification.
    Osc9,
}

/// Settings for storing tool outputs that are too long to show in full.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Outputs {
    /// Maximum size of one output, in megabytes. Only the beginning and the end of a longer output are stored. Default: 16.
    pub each_mb: Option<u64>,
    /// Maximum total size of the stored outputs, in megabytes. The oldest outputs are removed first. Default: 1024.
    pub max_mb: Option<u64>,
}

/// Settings for deleting old records.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Number of days for which to store the records of ended turns. Default: no limit.
    pub max_age_days: Option<u32>,
    /// Maximum size of the database, in bytes. Ended jobs are removed first, then the oldest turns. If the rows that retention never removes exceed
    /// the limit, no turn is removed; the log, `windlass doctor` and the metric `windlass_unremovable_bytes_over_limit` report this. Default: no
    /// limit.
    pub max_bytes: Option<u64>,
    /// Number of hours for which to store chunks of streamed text, at least 24. The complete text remains in other records. Default: no limit.
    pub text_chunk_hours: Option<u32>,
    /// Interval between maintenance runs, in minutes. 0 disables maintenance runs. Default: 60.
    pub every_minutes: Option<u32>,
}

/// A model provider.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    /// API key. If possible, set it in an environment variable instead.
    pub api_key: Option<String>,
    /// HTTP or HTTPS URL of the API, without a user name, password or query. A local server such as Ollama often needs no key. Default: the
    /// provider's URL.
    pub base_url: Option<String>,
    /// Maximum number of calls to the provider at the same time. Default: no limit.
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
    /// Parses the text of a file. Relative paths start at the directory `from`, not at the working directory.
    ///
    /// # Errors
    ///
    /// If it is not TOML, or contains an unknown key or an invalid value.
    pub fn parse(text: &str, from: &Path) -> Result<Self, ConfigError> {
        let mut config: Self = toml::from_str(text).map_err(|error| parse_error(&error, text))?;
        for (_, path) in config.paths() {
            *path = from.join(&*path);
        }
        Ok(config)
    }

    /// Returns all configured paths, each with its key, table by table.
    fn paths(&mut self) -> impl Iterator<Item = (Vec<&str>, &mut PathBuf)> {
        let files = [
            ("secrets_key_file", &mut self.secrets_key_file),
            ("ca_file", &mut self.ca_file),
            ("prices_file", &mut self.prices_file),
        ];
        let files = files
            .into_iter()
            .filter_map(|(key, file)| Some((vec![key], file.as_mut()?)));
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

/// Converts an error of the TOML parser.
fn parse_error(error: &toml::de::Error, text: &str) -> ConfigError {
    let before = error.span().map_or("", |span| &text[..span.start]);
    let message = without_value(error.message());
    ConfigError {
        line: before.matches('\n').count() + 1,
        message: nearest::with_suggestion(&message)
            .or_else(|| plain::in_plain_words(&message))
            .unwrap_or(message),
    }
}

/// Removes the text from `invalid type: string "…", expected …`: it may contain a key.
fn without_value(message: &str) -> String {
    let shown = message.split_once(" string \"").and_then(|(before, text)| {
        let (_, expected) = text.rsplit_once("\", expected ")?;
        Some(format!("{before} string, expected {expected}"))
    });
    shown.unwrap_or_else(|| message.to_owned())
}

/// Removes the user name and the password from a URL.
#[must_use]
pub fn without_login(url: &str) -> String {
    let (scheme, host, rest) = split_url(url);
    format!("{scheme}://{host}{rest}")
}

/// Splits a URL into its scheme, its host with the port, and the rest. The login is omitted.
fn split_url(url: &str) -> (&str, &str, &str) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let host = rest[..end].rsplit('@').next().unwrap_or_default();
    (scheme, host, &rest[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message_of(text: &str) -> String {
        Config::parse(text, Path::new("")).unwrap_err().to_string()
    }

    #[test]
    fn error_names_its_line() {
        for (text, expected) in [
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
            let error = message_of(text);
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn error_does_not_quote_a_misplaced_key() {
        for text in [
            "[providers]\nopenai = \"sk-1\"",
            "[providers.openai]\nmax_parallel_calls = \"sk-1\"",
            "providers.openai = '''\nsk-1\", expected \"sk-1\n'''",
            "providers = \"sk-1\"",
        ] {
            let error = message_of(text);
            assert!(!error.contains("sk-1"), "{error}");
            assert!(error.contains("it is a text, but "), "{error}");
        }
    }

    #[test]
    fn relative_paths_start_at_the_file() {
        let config = Config::parse("ca_file = 'a'\nprices_file = '/b'", Path::new("/etc")).unwrap();
        assert_eq!(config.ca_file, Some(PathBuf::from("/etc/a")));
        assert_eq!(config.prices_file, Some(PathBuf::from("/b")));
    }
}
