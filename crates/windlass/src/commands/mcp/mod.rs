//! `windlass mcp serve`: gives other agents access to Windlass threads and runs through the Model Context Protocol on standard input and output.

mod answer;
mod look;
mod run_agent;
mod tools;

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::watch;
use tokio::task::JoinSet;
use windlass_core::json_rpc::{INVALID_REQUEST, Message};

use crate::cli::{or_current, printable};
use crate::connect::{DaemonConnection, DaemonTarget, Purpose};
use crate::data;
use crate::stdio_rpc::{self, Failure, Lines, Peer};
use answer::Refusal;
use run_agent::Progress;
use tools::Tools;

/// The supported protocol versions, newest first.
const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Maximum number of open calls.
const MAX_CALLS: usize = 32;
/// How long open calls may take to end after standard input has ended.
const GRACE: Duration = Duration::from_secs(10);

/// Instructions sent to a client when it connects.
const INSTRUCTIONS: &str = "Windlass runs AI agents and records what they do. run_agent gives an agent something to do and waits for its answer; \
its thread_id goes on with the same thread. The other tools only look.";

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
Another agent starts this command by itself. In the file where it keeps its servers:

  { \"mcpServers\": { \"windlass\": { \"command\": \"windlass\", \"args\": [\"mcp\", \"serve\"] } } }

Agents work in the directory of --workspace (default: the current one) or below it, and only threads from there are shown. Nobody can be asked, so \
calls that change something are refused unless the approval rules of the configuration allow them; --yes allows everything.")]
struct Serve {
    /// The data directory [default: the user's own, under `$XDG_STATE_HOME/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// The model that answers where the caller names none, as `provider/model`.
    #[arg(long, env = "WINDLASS_MODEL")]
    model: Option<String>,
    /// The agent of others that carries the turns where the caller names none, such as `claude-code`.
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Allows everything without asking.
    #[arg(long, short)]
    yes: bool,
}

impl Mcp {
    pub(crate) async fn run(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let Subcommand::Serve(serve) = self.subcommand;
        serve.run(workspace, config).await
    }
}

impl Serve {
    async fn run(self, workspace: Option<PathBuf>, config: Option<&Path>) -> Result<ExitCode> {
        let named = or_current(workspace)?;
        let workspace = named.canonicalize();
        let workspace =
            workspace.with_context(|| format!("{} cannot be worked in", printable(&named)))?;
        let data = data::directory(self.data)?;
        let target = DaemonTarget {
            data: data.clone(),
            config: config.map(Path::to_owned),
            model: self.model.clone(),
            workspace: workspace.clone(),
            purpose: Purpose::Work,
            backend: None,
        };
        let link = Arc::new(DaemonConnection::open(target).await?);
        let tools = Tools {
            link: Arc::clone(&link),
            data,
            workspace,
            model: self.model,
            backend: self.backend,
            is_all_allowed: self.yes,
        };
        let service = Arc::new(Service {
            tools,
            peer: Peer::on_stdout(),
            calls: Mutex::default(),
        });
        let served = service.serve().await;
        service.peer.flushed().await;
        link.leave().await;
        served.map(|()| ExitCode::SUCCESS)
    }
}

/// State shared by all requests.
struct Service {
    tools: Tools,
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
        let mut lines = Lines::on_stdin();
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

    fn answer(&self, method: &str, params: &Value) -> Result<Value, Failure> {
        match method {
            "initialize" => Ok(initialized(params)),
            "ping" => Ok(json!({})),
            "tools/list" => Ok(json!({ "tools": self.tools.list() })),
            _ => Err(Failure::unknown_method(method)),
        }
    }

    /// Starts a call. A canceled call gets no response.
    fn begin(self: &Arc<Self>, id: Value, params: Value, work: &mut JoinSet<()>) {
        let key = id.to_string();
        let (cancel, canceled) = watch::channel(false);
        {
            let mut calls = self.calls();
            if calls.contains_key(&key) {
                let failure = Failure::new(INVALID_REQUEST, "a request with this id is open");
                return self.peer.answer(&id, Err(failure));
            }
            if calls.len() >= MAX_CALLS {
                let message = format!("{MAX_CALLS} calls are open already");
                let refusal = Refusal::new("limit_reached", message);
                return self.peer.answer(&id, Ok(refusal.result()));
            }
            calls.insert(key.clone(), cancel);
        }
        let service = Arc::clone(self);
        work.spawn(async move {
            let progress = Progress::new(&service.peer, &params["_meta"]["progressToken"]);
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
    let asked = params["protocolVersion"].as_str();
    let version = VERSIONS.into_iter().find(|version| asked == Some(version));
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
