//! `windlass acp`: gives an editor access to Windlass threads through the Agent Client Protocol on standard input and output.

mod prompt;
mod session;
mod updates;

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use windlass_core::json_rpc::Message;
use windlass_protocol::CreateThread;

use crate::cli::{GlobalOptions, note, or_current};
use crate::client::connect::{ConnectionPurpose, DaemonConnection, DaemonTarget};
use crate::client::thread_session::in_environment;
use crate::data;
use crate::stdio_rpc::{self, Peer, RpcFailure, StdinLines};
use session::{AcpSession, PromptGuard};

/// The supported version of the protocol.
const PROTOCOL_VERSION: u32 = 1;
/// JSON-RPC error code: the session does not exist.
const NO_SESSION: i64 = -32002;
/// How long pending answers may take after standard input has ended.
const GRACE: Duration = Duration::from_secs(10);

/// Serves threads as an agent of the Agent Client Protocol, over standard input and output.
#[derive(Args)]
#[command(after_help = "\
An editor starts this command. For Zed, in its settings:

  \"agent_servers\": { \"Windlass\": { \"command\": \"windlass\", \"args\": [\"acp\"] } }

If a daemon runs on the data directory, the command uses it, and its other clients see the same threads.")]
pub(crate) struct Acp {
    /// Data directory [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Model of new threads, as `provider/model`.
    #[arg(long, env = "WINDLASS_MODEL")]
    model: Option<String>,
    /// External agent that executes the turns of new threads, such as `claude-code`.
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
}

/// State shared by all requests.
struct AcpAgent {
    daemon: Arc<DaemonConnection>,
    peer: Peer,
    model: Option<String>,
    backend: Option<String>,
    sessions: Mutex<HashMap<String, Arc<AcpSession>>>,
}

impl Acp {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let GlobalOptions { workspace, config } = global;
        let workspace = or_current(workspace)?;
        let (data, purpose) = (data::directory(self.data)?, ConnectionPurpose::RunTurns);
        let target = DaemonTarget {
            model: self.model.clone(),
            ..DaemonTarget::new(data, workspace, config, purpose)
        };
        let daemon = Arc::new(DaemonConnection::open(target).await?);
        let agent = Arc::new(AcpAgent {
            daemon: Arc::clone(&daemon),
            peer: Peer::on_stdout(),
            model: self.model,
            backend: self.backend,
            sessions: Mutex::default(),
        });
        let served = agent.serve().await;
        agent.peer.flushed().await;
        daemon.close().await;
        served.map(|()| ExitCode::SUCCESS)
    }
}

impl AcpAgent {
    /// Serves requests until standard input ends.
    async fn serve(self: &Arc<Self>) -> Result<()> {
        let mut lines = StdinLines::on_stdin();
        let mut work = JoinSet::new();
        // Every unanswered request holds a clone of this sender.
        let (unanswered, mut all_answered) = mpsc::channel::<()>(1);
        while let Some(line) = lines.next().await? {
            match stdio_rpc::read(&line) {
                Ok(Message::Request { id, method, params }) => {
                    let agent = Arc::clone(self);
                    // Prompts are registered in the order in which they arrive.
                    let prompted = match method.as_str() {
                        "session/prompt" => {
                            let session = self.session(&params);
                            Some(session.and_then(|session| session.expect_turn()))
                        }
                        _ => None,
                    };
                    // The shutdown does not wait for turns: they can take arbitrarily long and are recorded.
                    let unanswered = prompted.is_none().then(|| unanswered.clone());
                    work.spawn(async move {
                        let answer = match prompted {
                            Some(prompted) => agent.prompt(prompted, &params).await,
                            None => agent.answer(&method, &params).await,
                        };
                        let is_loaded = method == "session/load" && answer.is_ok();
                        agent.peer.answer(&id, answer);
                        drop(unanswered);
                        if is_loaded && let Ok(session) = agent.session(&params) {
                            agent.follow_open_turn(&session).await;
                        }
                    });
                }
                Ok(Message::Notification { method, params }) => {
                    if method == "session/cancel"
                        && let Ok(session) = self.session(&params)
                    {
                        work.spawn(async move { session.cancel().await });
                    }
                }
                Ok(Message::Response { id, outcome }) => self.peer.resolve(&id, outcome),
                Err(failure) => self.peer.answer(&Value::Null, Err(failure)),
            }
            while work.try_join_next().is_some() {}
        }
        // Standard input has ended; pending requests are still answered. An open turn continues when its session is loaded again.
        drop(unanswered);
        let _ = tokio::time::timeout(GRACE, all_answered.recv()).await;
        work.shutdown().await;
        Ok(())
    }

    /// Sends updates about a turn that was open when its session was loaded.
    async fn follow_open_turn(&self, session: &AcpSession) {
        if let Err(failure) = session.follow_open_turn(&self.peer).await {
            note(format!("the open turn cannot be followed: {failure}"));
        }
    }

    async fn prompt(
        &self,
        session: Result<PromptGuard, RpcFailure>,
        params: &Value,
    ) -> Result<Value, RpcFailure> {
        let session = session?;
        self.daemon.ensure_connected().await?;
        let text = prompt::text(&params["prompt"])?;
        session.prompt(&self.peer, &text).await
    }

    async fn answer(&self, method: &str, params: &Value) -> Result<Value, RpcFailure> {
        if method.starts_with("session/") {
            self.daemon.ensure_connected().await?;
        }
        match method {
            "initialize" => Ok(initialized()),
            "authenticate" => Ok(json!({})),
            "session/new" => self.new_session(params).await,
            "session/load" => self.load_session(params).await,
            "session/set_mode" => {
                let mode = params["modeId"].as_str().unwrap_or_default();
                self.session(params)?.set_mode(mode).await
            }
            _ => Err(RpcFailure::unknown_method(method)),
        }
    }

    async fn new_session(&self, params: &Value) -> Result<Value, RpcFailure> {
        let cwd = cwd(params)?;
        warn_of_servers(params);
        let environment = self.daemon.environment(&cwd).await?;
        let cwd = cwd.canonicalize().unwrap_or(cwd);
        let request = CreateThread {
            environments: Some(vec![in_environment(environment, &cwd)]),
            model: self.model.clone(),
            backend: self.backend.clone(),
            ..CreateThread::default()
        };
        let session = AcpSession::new(&self.daemon, request).await?;
        Ok(self.open(session))
    }

    async fn load_session(&self, params: &Value) -> Result<Value, RpcFailure> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        warn_of_servers(params);
        let session = AcpSession::load(&self.daemon, id, &cwd(params)?, &self.peer).await?;
        let mut opened = self.open(session);
        if let Some(opened) = opened.as_object_mut() {
            opened.remove("sessionId");
        }
        Ok(opened)
    }

    /// Registers a session and returns its initial state for the client.
    fn open(&self, session: AcpSession) -> Value {
        let opened = json!({ "sessionId": session.id(), "modes": session.modes() });
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        sessions.insert(session.id().to_owned(), Arc::new(session));
        opened
    }

    fn session(&self, params: &Value) -> Result<Arc<AcpSession>, RpcFailure> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        let sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        let session = sessions.get(id).cloned();
        session.ok_or_else(|| {
            let message =
                format!("there is no session `{id}`; create it with session/new, or load it");
            RpcFailure::new(NO_SESSION, message)
        })
    }
}

/// The capabilities of this agent.
fn initialized() -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {
            "name": "windlass",
            "title": "Windlass",
            "version": env!("CARGO_PKG_VERSION"),
        },
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities": { "image": false, "audio": false, "embeddedContext": true },
            "mcpCapabilities": { "http": false, "sse": false },
        },
        "authMethods": [],
    })
}

/// Returns the working directory of a session. It must be absolute.
fn cwd(params: &Value) -> Result<PathBuf, RpcFailure> {
    let cwd = params["cwd"].as_str().map(PathBuf::from);
    cwd.filter(|cwd| cwd.is_absolute())
        .ok_or_else(|| RpcFailure::invalid_params("cwd must be an absolute path"))
}

/// Warns that the client's MCP servers are not used.
fn warn_of_servers(params: &Value) {
    let servers = params["mcpServers"].as_array();
    if servers.is_some_and(|servers| !servers.is_empty()) {
        note(
            "the MCP servers of the client are not used; configure them under [mcp_servers] in windlass.toml",
        );
    }
}
