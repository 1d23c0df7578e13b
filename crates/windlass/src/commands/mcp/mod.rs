//! `windlass mcp serve`: gives other agents access to Windlass threads and runs through the Model Context Protocol on standard input and output.

mod read_tools;
mod result;
mod run_agent;
mod tools;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_core::json_rpc::{INVALID_REQUEST, Message};

use crate::cli::{GlobalOptions, or_current, printable};
use crate::client::connect::{ConnectionPurpose, DaemonConnection, DaemonTarget};
use crate::data;
use crate::stdio_rpc::{self, Peer, RpcFailure, StdinLines};
use result::ToolRefusal;
use run_agent::CallProgress;
use tools::McpTools;

/// The supported protocol versions, newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Maximum number of open calls.
const MAX_CALLS: usize = 32;
/// How long open calls may take to end after standard input has ended.
const GRACE: Duration = Duration::from_secs(10);

/// Instructions sent to a client when it connects.
const INSTRUCTIONS: &str = "Windlass runs AI agents and records every step. run_agent gives a prompt to an agent and waits for its answer; pass its \
thread_id to continue the thread. The other tools only read.";

/// Serves threads and runs to other agents.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass mcp serve
  windlass mcp serve --workspace src --model openai/gpt-5-mini
  claude mcp add windlass -- windlass mcp serve")]
pub(crate) struct Mcp {
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Serves tools over standard input and output: run_agent, list_threads, show_thread, thread_events, list_runs.
    Serve(Serve),
}

/// Serves tools over standard input and output.
#[derive(Args)]
#[command(after_help = "\
Another agent starts this command. In its configuration of MCP servers:

  { \"mcpServers\": { \"windlass\": { \"command\": \"windlass\", \"args\": [\"mcp\", \"serve\"] } } }

Agents work in the directory of --workspace (default: the current one) or below it, and only its threads are shown. No user can be asked, so calls \
that change something are refused unless the approval rules of the configuration allow them; --yes allows all calls.")]
struct Serve {
    /// Data directory [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Model of threads for which the caller names none, as `provider/model`.
    #[arg(long, env = "WINDLASS_MODEL")]
    model: Option<String>,
    /// External agent of threads for which the caller names none, such as `claude-code`.
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Allows all calls without asking.
    #[arg(long, short)]
    yes: bool,
}

impl Mcp {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let Subcommand::Serve(serve) = self.subcommand;
        serve.run(global).await
    }
}

impl Serve {
    async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let GlobalOptions { workspace, config } = global;
        let named = or_current(workspace)?;
        let workspace = named.canonicalize();
        let workspace =
            workspace.with_context(|| format!("cannot work in {}", printable(&named)))?;
        let data = data::directory(self.data)?;
        let (directory, purpose) = (workspace.clone(), ConnectionPurpose::RunTurns);
        let target = DaemonTarget {
            model: self.model.clone(),
            ..DaemonTarget::new(data.clone(), directory, config, purpose)
        };
        let daemon = Arc::new(DaemonConnection::open(target).await?);
        let tools = McpTools {
            daemon: Arc::clone(&daemon),
            data,
            workspace,
            model: self.model,
            backend: self.backend,
            approves_all: self.yes,
        };
        let service = Arc::new(Service {
            tools,
            peer: Peer::on_stdout(),
            calls: Mutex::default(),
        });
        let served = service.serve().await;
        service.peer.flushed().await;
        daemon.close().await;
        served.map(|()| ExitCode::SUCCESS)
    }
}

/// State shared by all requests.
struct Service {
    tools: McpTools,
    peer: Peer,
    /// Cancellation of the open calls, by request ID.
    calls: Mutex<HashMap<String, watch::Sender<bool>>>,
}

impl Service {
    /// Serves requests until standard input ends.
    async fn serve(self: &Arc<Self>) -> Result<()> {
        let mut work = JoinSet::new();
        let served = self.read(&mut work).await;
        // The client is gone, so its turns are interrupted. Their progress is recorded.
        for cancel in self.calls().values() {
            cancel.send_replace(true);
        }
        let ended = async { while work.join_next().await.is_some() {} };
        let _ = tokio::time::timeout(GRACE, ended).await;
        work.shutdown().await;
        served
    }

    async fn read(self: &Arc<Self>, work: &mut JoinSet<()>) -> Result<()> {
        let mut lines = StdinLines::on_stdin();
        while let Some(line) = lines.next().await? {
            match stdio_rpc::read(&line) {
                Ok(Message::Request { id, method, params }) => match method.as_str() {
                    "tools/call" => self.begin(id, params, work),
                    _ => self.peer.answer(&id, self.answer(&method, &params)),
                },
                Ok(Message::Notification { method, params }) => {
                    if method == "notifications/cancelled"
                        && let Some(cancel) = self.calls().get(&params["requestId"].to_string())
                    {
                        cancel.send_replace(true);
                    }
                }
                // This server sends no requests, so a response is ignored.
                Ok(Message::Response { .. }) => {}
                Err(failure) => self.peer.answer(&Value::Null, Err(failure)),
            }
            while work.try_join_next().is_some() {}
        }
        Ok(())
    }

    fn answer(&self, method: &str, params: &Value) -> Result<Value, RpcFailure> {
        match method {
            "initialize" => Ok(initialized(params)),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({ "tools": self.tools.list() })),
            _ => Err(RpcFailure::unknown_method(method)),
        }
    }

    /// Starts a call. A canceled call gets no response.
    fn begin(self: &Arc<Self>, id: Value, params: Value, work: &mut JoinSet<()>) {
        let key = id.to_string();
        let (cancel, canceled) = watch::channel(false);
        {
            let mut calls = self.calls();
            if calls.contains_key(&key) {
                let failure = RpcFailure::new(INVALID_REQUEST, "a request with this ID is open");
                return self.peer.answer(&id, Err(failure));
            }
            if calls.len() >= MAX_CALLS {
                let message = format!("{MAX_CALLS} calls are open already");
                let refusal = ToolRefusal::new("limit_reached", message);
                return self.peer.answer(&id, Ok(refusal.result()));
            }
            calls.insert(key.clone(), cancel);
        }
        let service = Arc::clone(self);
        work.spawn(async move {
            let progress = CallProgress::new(&service.peer, &params["_meta"]["progressToken"]);
            let answer = service.tools.call(&params, progress, canceled).await;
            service.calls().remove(&key);
            if let Some(answer) = answer.transpose() {
                service.peer.answer(&id, answer);
            }
        });
    }

    fn calls(&self) -> MutexGuard<'_, HashMap<String, watch::Sender<bool>>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The capabilities of this server, in the client's protocol version if it is supported, else in the newest.
fn initialized(params: &Value) -> Value {
    let requested = params["protocolVersion"].as_str();
    let version = VERSIONS
        .into_iter()
        .find(|version| requested == Some(version));
    json!({
        "protocolVersion": version.unwrap_or(VERSIONS[0]),
        "capabilities": { "tools": {} },
        "serverInfo": {
            "name": "windlass",
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "instructions": INSTRUCTIONS,
    })
}
