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
    /// Default model, as `provider/model`. Default: the standard model of the first provider with a key, else the demonstration model.
    pub model: Option<String>,
    /// Further models that clients can name, as `provider/model`.
    pub models: Vec<String>,
    /// What happens to other model names that clients send. Default: `default_provider`.
    pub unknown_models: UnknownModels,
    /// Limits for clients of the daemon. A request beyond a limit gets 429, a body that is too large 413.
    pub limits: Limits,
    /// Spending limits; an unset key is no limit. See [budgets](budgets.md).
    pub budget: BudgetLimits,
    /// Tracing of runs that other programs report. See [runs](runs.md).
    pub runs: Runs,
    /// Commands that agents execute. See [the sandbox](sandbox.md) and [commands](commands.md).
    pub shell: ShellConfig,
    /// Limits for tools of all kinds.
    pub tools: Tools,
    /// Web pages that agents read. See [web](web.md).
    pub web: Web,
    /// Agents that models start. See [subagents](subagents.md).
    pub subagents: Subagents,
    /// Unattended work. See [tasks](tasks.md).
    pub tasks: Tasks,
    /// Automations of the operator, by name. Set exactly one of `cron` and `schedule`. See [tasks](tasks.md#automations-in-the-configuration).
    pub automations: BTreeMap<String, AutomationEntry>,
    /// Runs of many tasks over several workers. See [fleet](fleet.md).
    pub fleet: Fleet,
    /// Calls that run, need an approval, or are denied. See [approvals](approvals.md).
    pub approvals: Approvals,
    /// Automatic compaction of long conversations. See [compaction](compaction.md).
    pub compaction: Compaction,
    /// Directories in which threads can work, in addition to `local`. Clients refer to them by name and cannot remove them.
    pub environments: BTreeMap<String, EnvironmentEntry>,
    /// File contents that are stored for undo. See [checkpoints](checkpoints.md).
    pub checkpoints: Checkpoints,
    /// The agent's prompt. See [the prompt](repository.md#the-prompt).
    pub prompt: Prompt,
    /// Instructions of the repository. See [repository](repository.md).
    pub repository: Repository,
    /// Output of `windlass run` and `windlass chat`. Read from your own file and from `--config`.
    pub terminal: Terminal,
    /// Tool outputs that are too long to show. See [commands](commands.md#long-outputs).
    pub outputs: Outputs,
    /// Deletion of old records. Without these keys nothing is deleted. See [operations](operations.md#retention-and-maintenance).
    pub retention: Retention,
    /// File with the key that encrypts secrets of sessions, as 64 hexadecimal digits. Default: `secrets.key` in the data directory.
    pub secrets_key_file: Option<PathBuf>,
    /// Proxy for calls to model providers, such as `http://proxy.example:3128`. No environment variable is read for it.
    #[serde(deserialize_with = "validate::proxy")]
    pub proxy: Option<String>,
    /// PEM file of certificates to trust in addition to the system's.
    pub ca_file: Option<PathBuf>,
    /// File with model prices that override the built-in ones. See [budgets](budgets.md#prices).
    pub prices_file: Option<PathBuf>,
    /// Model providers, by name: `openai`, `openai-chat`, `anthropic`, `gemini`, `openrouter` or `azure-openai`.
    pub providers: BTreeMap<String, Provider>,
    /// External agents that execute turns, by the name that threads use; `claude-code`, `codex` and `gemini` need no entry. See [external
    /// agents](backends.md).
    pub backends: BTreeMap<String, BackendEntry>,
    /// MCP servers whose tools all threads have, by name. See [MCP](mcp.md).
    pub mcp_servers: BTreeMap<String, McpServerEntry>,
    /// Secrets that tools put into commands and requests, by the name that models see; set exactly one of `variable` and `file`. See
    /// [secrets](secrets.md).
    pub secrets: BTreeMap<String, SecretEntry>,
}

/// A named secret: where its value is, and where it may be sent.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SecretEntry {
    /// Environment variable of the daemon that contains the value.
    pub variable: Option<String>,
    /// File that contains the value; a trailing line end is ignored.
    pub file: Option<PathBuf>,
    /// Whether commands get the secret, in the variable of its name.
    pub commands: bool,
    /// Hosts whose requests contain the secret, such as `api.example.com`; over https, unless `http://` is written.
    pub hosts: Vec<String>,
    /// Header that contains the secret, with `{}` in its place. Default: `Authorization: Bearer {}`.
    pub header: Option<String>,
    /// Agents whose threads also have the secret. Without them only the operator's threads do.
    pub agents: Vec<String>,
}

/// An MCP server: a program, or a URL.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct McpServerEntry {
    /// Transport. Default: `stdio` with `command`, `http` with `url`.
    #[serde(rename = "type")]
    pub kind: Option<McpServerType>,
    /// Program to start, in the sandbox of commands.
    #[serde(deserialize_with = "validate::program")]
    pub command: Option<String>,
    /// Arguments of the program.
    pub args: Vec<String>,
    /// Variables of the program, in addition to those of commands. `${NAME}` is a secret that commands get, or a variable of the daemon.
    pub env: BTreeMap<String, String>,
    /// URL of an HTTP server.
    pub url: Option<String>,
    /// Headers of each request. `${NAME}` is a secret that names the server's host, or a variable of the daemon.
    pub headers: BTreeMap<String, String>,
    /// Whether calls of its tools need an approval. Default: `ask`.
    pub approval: McpApproval,
    /// Whether to believe the server that a tool only reads. Then no files are saved for undo before its calls.
    pub trust_read_only: bool,
    /// Milliseconds in which the server must start and list its tools. Default: 30000.
    pub start_timeout_ms: Option<u64>,
    /// Milliseconds that a call may stay silent; progress messages reset it. Default: 60000.
    pub timeout_ms: Option<u64>,
    /// The same for single tools, by the server's own names. Default: `timeout_ms`.
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
    /// A program, over its standard input and output.
    Stdio,
    /// HTTP with streamed responses.
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
    /// Protocol of the agent. Default: by its name.
    pub kind: Option<BackendKind>,
    /// Its program, searched in `PATH` if it contains no slash. Default: the usual program of its kind.
    pub command: Option<PathBuf>,
    /// Arguments after those of its protocol.
    pub arguments: Vec<String>,
    /// Model that the agent requests. Default: the agent's choice.
    pub model: Option<String>,
    /// Variables of the daemon that the agent gets, in addition to `HOME`, `PATH`, `LANG` and `TERM`.
    pub variables: Vec<String>,
    /// Home directory of the agent. Default: `own`.
    pub home: BackendHome,
    /// With `home = "user"`: the directory in your home that the agent may change. Default: that of its kind.
    pub settings: Option<PathBuf>,
    /// Seconds that the agent may stay silent during a turn; 0 is no limit. Default: 600.
    pub silence_seconds: Option<u64>,
    /// Seconds that a turn may take. Default: no limit.
    pub turn_seconds: Option<u64>,
}

/// Protocol of an external agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum BackendKind {
    /// Claude Code, over stream-json.
    ClaudeCode,
    /// Codex, over its app-server.
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
    /// A private directory in the data directory, one for each owner of threads. You log in there.
    #[default]
    Own,
    /// Your home, of which it sees its working directory and its own settings. Your own copy of the agent obeys what it writes there.
    User,
}

/// What happens to a model name that is not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnknownModels {
    /// The provider of the default model gets the name.
    #[default]
    DefaultProvider,
    /// The request is refused.
    Refuse,
}

/// Limits for clients of the daemon.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Bytes of a request body. Default: 16777216.
    pub body_bytes: Option<usize>,
    /// Threads. Default: 100000.
    pub threads: Option<usize>,
    /// Open event streams. Default: 4096.
    pub subscribers: Option<usize>,
    /// Open connections, and never more than the process's file descriptors allow (`ulimit -n`). Default: 8192.
    pub connections: Option<usize>,
    /// Calls of one thread that wait for a client. Default: 128.
    pub pending_calls: Option<usize>,
    /// Queued prompts of one thread, and steered prompts that the model has not read. Default: 128.
    pub waiting_inputs: Option<usize>,
    /// Seconds that a turn waits for an approval, an answer or a client's result. Default: 300.
    pub wait_seconds: Option<u64>,
    /// Bytes of an external agent's output that one turn records, at least 1; beyond it the turn fails with `backend_output_limit`. Default:
    /// 16777216.
    pub backend_output_bytes: Option<NonZeroUsize>,
}

/// Spending limits of turns, threads and days.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct BudgetLimits {
    /// US dollars of one turn.
    pub turn_usd: Option<f64>,
    /// Input and output tokens of one turn.
    pub turn_tokens: Option<u64>,
    /// Model calls of one turn.
    pub turn_model_calls: Option<u64>,
    /// Tool calls of one turn. A further call is not executed, and the model gets the reason.
    pub turn_tool_calls: Option<u64>,
    /// Seconds of one turn, waits included.
    pub turn_seconds: Option<u64>,
    /// US dollars of all turns of a thread.
    pub thread_usd: Option<f64>,
    /// Tokens of all turns of a thread.
    pub thread_tokens: Option<u64>,
    /// US dollars of all threads per day (UTC).
    pub day_usd: Option<f64>,
    /// Tokens of all threads per day (UTC).
    pub day_tokens: Option<u64>,
    /// US dollars per day (UTC) of the threads that one agent's token created.
    pub token_day_usd: Option<f64>,
    /// Minimum of US dollars that are reserved before a model call. Default: 0.02.
    pub reserve_usd: Option<f64>,
    /// Minimum of tokens that are reserved before a model call. Default: 4000.
    pub reserve_tokens: Option<u64>,
}

/// Tracing of reported runs.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Runs {
    /// Milliseconds that a run waits for late messages of a lost connection. Default: 250.
    pub grace_ms: Option<u64>,
    /// Milliseconds that a run waits for its owner to reconnect. Default: 10000.
    pub lease_ms: Option<u64>,
    /// Days for which ended runs are stored. Default: no limit.
    pub keep_days: Option<u32>,
    /// Bytes of one message over the socket. Default: 1048576.
    pub message_bytes: Option<usize>,
}

/// Limits and sandbox of commands.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ShellConfig {
    /// How commands are confined. Default: `auto`.
    pub sandbox: Sandbox,
    /// Files and directories of your home that commands may read, such as `~/.gitconfig`. By default they see only the directories in `PATH` and what
    /// the programs there need.
    pub home_paths: Vec<PathBuf>,
    /// Files and directories of your home that commands may also change, such as `~/.cache/pip`.
    pub writable_home_paths: Vec<PathBuf>,
    /// Whether commands may create pseudo-terminals under Landlock, which also opens your other terminals to them. Under bubblewrap they always may.
    pub terminals: bool,
    /// Megabytes of data memory of each process; 0 is no limit. Default: 8192.
    pub max_memory_mb: Option<u64>,
    /// Processes and threads of one command under bubblewrap; 0 is no limit. Default: 2048.
    pub max_processes: Option<u64>,
    /// Network of commands in the workspace, and of `windlass run` in directories without an entry in `[environments]`. Default: `inherit`.
    pub network: Option<EnvironmentNetwork>,
    /// Hosts that commands reach if the network is filtered, such as `crates.io`, `*.example.com` or `git.example:9418`.
    pub hosts: Vec<String>,
    /// Background commands of one thread; 0 disables them. Default: 8.
    pub max_background: Option<usize>,
    /// Minutes that a background command may take. Default: 240.
    pub background_minutes: Option<u64>,
}

/// Limits for tools of all kinds.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tools {
    /// Tools that no model is offered, by name; `*` matches any characters.
    pub disabled: Vec<String>,
    /// Seconds that a call may take, unless the tool has its own limit; 0 is no limit. Default: 300.
    pub timeout_seconds: Option<u64>,
    /// Bytes of a result that the model gets. Default: 65536.
    pub max_result_bytes: Option<usize>,
    /// Number of tools of MCP servers, or of one capability, above which models find them by `tool_search` instead of being offered all; 0 disables
    /// this. Default: 24.
    pub defer_above: Option<usize>,
}

/// Web pages that agents read.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Web {
    /// Whether models are offered `web_fetch`. Default: `true`.
    pub enabled: Option<bool>,
    /// Hosts and networks that need no approval and may be private, such as `127.0.0.1:8080`, `internal.example` or `10.0.0.0/8`.
    pub allow: Vec<String>,
    /// Hosts and networks that are never read.
    pub deny: Vec<String>,
}

/// Agents that models start.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Subagents {
    /// Whether models are offered `spawn_agent`. Default: `true`.
    pub enabled: Option<bool>,
    /// Levels of agents below a turn; 0 disables them. Default: 2.
    pub max_depth: Option<u32>,
    /// Agents of one turn that work at the same time; further ones wait; 0 disables them. Default: 8.
    pub at_once: Option<usize>,
    /// Agents that one turn may start in total; 0 disables them. Default: 32.
    pub per_turn: Option<usize>,
    /// External agents that models may start, by name.
    pub backends: Vec<String>,
}

/// Tasks, and the automations that queue them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Tasks {
    /// Tasks that run at the same time, 1 to 8; `--workers` overrides it. Default: 2.
    pub workers: Option<usize>,
    /// Time zone of automations without one, such as `Europe/Berlin`. Default: that of the machine.
    pub time_zone: Option<String>,
}

/// An automation of the operator.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AutomationEntry {
    /// Prompt of each run; required.
    pub prompt: String,
    /// Schedule as a cron expression of five fields, such as `0 9 * * 1-5`.
    pub cron: Option<String>,
    /// Schedule as an RRULE, such as `FREQ=DAILY;BYHOUR=9;BYMINUTE=0`.
    pub schedule: Option<String>,
    /// Time zone of the schedule. Default: `tasks.time_zone`.
    pub time_zone: Option<String>,
    /// Working directory of its runs. Default: the daemon's workspace.
    pub workspace: Option<PathBuf>,
    /// Model of its runs. Default: the daemon's.
    pub model: Option<String>,
    /// Mode of the agent. Default: `agent`.
    pub mode: Option<String>,
    /// External agent that executes its runs.
    pub backend: Option<String>,
    /// Whether its runs may execute commands. Default: that of the daemon.
    pub allow_shell: Option<bool>,
    /// Whether its runs call tools without an approval. Default: `false`.
    pub auto_approve: Option<bool>,
    /// Attempts of a run that fails, 1 to 10. Default: 1.
    pub max_attempts: Option<u32>,
    /// What happens to times that passed without a daemon. Default: `once`.
    pub missed: Option<MissedRunsPolicy>,
    /// Whether the schedule is suspended.
    pub paused: bool,
}

/// What happens to scheduled times that passed without a daemon.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MissedRunsPolicy {
    /// They are skipped.
    Skip,
    /// The last one runs.
    Once,
    /// The last thousand run.
    All,
}

/// Limits of fleet runs.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fleet {
    /// Workers of all runs that work at the same time, 1 to 64. Default: 8.
    pub workers: Option<usize>,
    /// Open runs, 1 to 256; one token may have half of them. Default: 32.
    pub open_runs: Option<usize>,
}

/// Automatic compaction of long conversations.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Compaction {
    /// Whether a conversation that exceeds the model's context window is summarised. Default: `true`.
    pub enabled: Option<bool>,
    /// Tokens of a request and its answer, whatever the model. Default: that of the model, else 64000.
    pub window_tokens: Option<u64>,
    /// Tokens of the window that are reserved for the answer, at most half of it. Default: a quarter of the window; for large windows 32000 plus a
    /// twentieth.
    pub reserve_tokens: Option<u64>,
}

/// Approval rules. The strictest matching rule applies: `deny`, then `ask`, then `allow`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Approvals {
    /// What happens to calls that change something and match no rule. Default: `ask`.
    pub default: Option<ApprovalAction>,
    /// Rules, as tables of `tool`, `arguments`, `command` and `action`.
    pub rules: Vec<ApprovalRule>,
}

/// What happens to a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ApprovalAction {
    /// It runs without an approval.
    Allow,
    /// It needs an approval, unless its turn approves everything.
    Ask,
    /// It does not run, even if its turn approves everything.
    Deny,
}

/// Calls and what happens to them. An omitted condition matches everything.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApprovalRule {
    /// Name of the tool; `*` matches any characters.
    pub tool: String,
    /// Patterns of arguments: `*` matches any characters except `/`, `**` matches any.
    #[serde(default)]
    pub arguments: BTreeMap<String, String>,
    /// First words of the command, such as `cargo test`.
    #[serde(default)]
    pub command: Option<String>,
    /// What happens to matching calls.
    pub action: ApprovalAction,
}

/// A directory in which threads can work.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct EnvironmentEntry {
    /// Root directory; required.
    pub root: PathBuf,
    /// Whether files may be changed. Default: `true`.
    #[serde(default = "yes")]
    pub write: bool,
    /// Whether commands may run. Default: `true`.
    #[serde(default = "yes")]
    pub shell: bool,
    /// Network of its commands. Default: `inherit`.
    #[serde(default)]
    pub network: EnvironmentNetwork,
}

fn yes() -> bool {
    true
}

/// Network of commands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EnvironmentNetwork {
    /// The daemon's network.
    #[default]
    Inherit,
    /// No network, and no web pages.
    None,
    /// The hosts of `shell.hosts`, through a proxy.
    Filtered,
}

/// How commands, and programs that inspect a workspace, are confined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Sandbox {
    /// Bubblewrap if it works, else Landlock.
    #[default]
    Auto,
    /// Only bubblewrap; commands are refused without it.
    Bubblewrap,
    /// Only Landlock; commands are refused without it.
    Landlock,
    /// No sandbox: commands are refused.
    None,
}

/// File contents that are stored for undo.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Checkpoints {
    /// Whether the files that turns change are saved for [undo](checkpoints.md). Default: `true`.
    pub enabled: Option<bool>,
    /// Megabytes of saved files; the oldest turns are removed first. Default: 1024.
    pub max_mb: Option<u64>,
}

/// The agent's prompt.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Prompt {
    /// Instructions of the agent. Default: those that `windlass prompt` shows.
    pub text: Option<String>,
    /// Whether the prompt describes the working directory, the system, the sandbox, the approvals and the git status. Default: `true`.
    pub environment: Option<bool>,
}

/// Instructions of the repository.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Repository {
    /// Whether models read the `AGENTS.md` files and skills of the environment. Default: `true`.
    pub instructions: Option<bool>,
}

/// Output of commands on a terminal.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Terminal {
    /// How you are notified of a turn that has ended or waits for you: `off`, `bell`, or `osc9`, a desktop notification that some terminals
    /// support. Default: `off`.
    pub notify: Notify,
    /// Seconds after which you are notified. Default: 10.
    pub notify_after_seconds: Option<u64>,
}

/// A notification on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Notify {
    /// Turns end silently.
    #[default]
    Off,
    /// The bell character.
    Bell,
    /// The escape sequence OSC 9.
    Osc9,
}

/// Tool outputs that are too long to show.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Outputs {
    /// Megabytes of one output; of a longer one its beginning and its end are stored. Default: 16.
    pub each_mb: Option<u64>,
    /// Megabytes of all outputs; the oldest are removed first. Default: 1024.
    pub max_mb: Option<u64>,
}

/// Deletion of old records.
#[derive(Debug, Clone, PartialEq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Retention {
    /// Days for which records of ended turns are stored. Default: no limit.
    pub max_age_days: Option<u32>,
    /// Bytes of the database. Ended jobs are removed first, then the oldest turns. If rows that retention never removes exceed the limit, no turn is
    /// removed, and the log, `windlass doctor` and the metric `windlass_unremovable_bytes_over_limit` report it. Default: no limit.
    pub max_bytes: Option<u64>,
    /// Hours for which chunks of streamed text are stored, at least 24; later records contain the whole text. Default: no limit.
    pub text_chunk_hours: Option<u32>,
    /// Minutes between two maintenance runs; 0 disables them. Default: 60.
    pub every_minutes: Option<u32>,
}

/// A model provider.
#[derive(Clone, PartialEq, Eq, Default, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Provider {
    /// API key; better set in the environment.
    pub api_key: Option<String>,
    /// URL of the API, `http` or `https`, without user, password and query. A local server such as Ollama often needs no key. Default: the
    /// provider's.
    pub base_url: Option<String>,
    /// Calls that are sent at the same time. Default: no limit.
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
