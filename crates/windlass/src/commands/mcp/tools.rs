//! The tools, their arguments, and the directories they may work in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_protocol::{Call, Thread};

use super::result::ToolRefusal;
use super::run_agent::CallProgress;
use crate::cli::printable;
use crate::client::calls::{self, by_id};
use crate::client::connect::DaemonConnection;
use crate::stdio_rpc::RpcFailure;

/// Maximum number of entries of a list.
const MAX_LISTED: u64 = 100;
/// Default number of entries of a list.
const DEFAULT_LISTED: u64 = 20;
/// The environment of threads that name none.
const LOCAL: &str = "local";

/// Shared state of the tools.
pub(super) struct McpTools {
    pub(super) daemon: Arc<DaemonConnection>,
    pub(super) data: PathBuf,
    /// Agents work in this directory or below it.
    pub(super) workspace: PathBuf,
    pub(super) model: Option<String>,
    pub(super) backend: Option<String>,
    pub(super) approves_all: bool,
}

/// The arguments of `run_agent`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunAgentArguments {
    pub(super) prompt: String,
    pub(super) cwd: Option<PathBuf>,
    pub(super) model: Option<String>,
    pub(super) backend: Option<String>,
    pub(super) thread_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListArguments {
    limit: Option<u64>,
}

impl ListArguments {
    pub(super) fn limit(&self) -> Result<usize, ToolRefusal> {
        let limit = self.limit.unwrap_or(DEFAULT_LISTED);
        let is_in_range = (1..=MAX_LISTED).contains(&limit);
        let limit = usize::try_from(limit).ok().filter(|_| is_in_range);
        limit.ok_or_else(|| ToolRefusal::field(format!("limit is a number from 1 to {MAX_LISTED}")))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ThreadArguments {
    pub(super) thread_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EventsArguments {
    pub(super) thread_id: String,
    pub(super) since: Option<u64>,
}

impl McpTools {
    /// Returns the descriptions of the tools.
    pub(super) fn list(&self) -> Value {
        let allowed = if self.approves_all {
            "All calls of the agent are allowed without asking, commands included."
        } else {
            "No user can be asked, so calls of the agent that change something are refused unless the operator's rules allow them; the result \
             lists them as refused."
        };
        let about = format!(
            "Gives a prompt to an AI agent and waits for its answer, which may take minutes. Returns the answer, the thread_id with which the thread \
             can be continued, and the tokens used. Without thread_id, a new thread starts without your context, so the prompt must be \
             complete. {allowed} Canceling stops the agent; its changes remain."
        );
        let thread_id =
            json!({ "type": "string", "description": "ID of the thread, such as thr_0123…" });
        let limit = json!({
            "type": "integer", "minimum": 1, "maximum": MAX_LISTED,
            "description": format!("Maximum number; {DEFAULT_LISTED} by default"),
        });
        let looks = json!({ "readOnlyHint": true, "openWorldHint": false });
        json!([
            {
                "name": "run_agent",
                "title": "Run an agent",
                "description": about,
                "inputSchema": schema(&json!({
                    "prompt": { "type": "string", "minLength": 1, "description": "The prompt" },
                    "cwd": { "type": "string", "description": "Working directory, in the workspace or relative to it; the workspace by default. Not with thread_id" },
                    "model": { "type": "string", "description": "The model as provider/model; with thread_id only for this turn" },
                    "backend": { "type": "string", "description": "External agent that does the work, such as claude-code. Not with thread_id" },
                    "thread_id": { "type": "string", "description": "The thread to continue" },
                }), &["prompt"]),
                "annotations": { "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true },
            },
            {
                "name": "list_threads",
                "title": "List threads",
                "description": "Lists the threads of the workspace, newest first.",
                "inputSchema": schema(&json!({ "limit": limit }), &[]),
                "annotations": looks,
            },
            {
                "name": "show_thread",
                "title": "Show a thread",
                "description": "Shows a thread as text, with its messages and tool calls. Only the end of a long thread is shown.",
                "inputSchema": schema(&json!({ "thread_id": thread_id }), &["thread_id"]),
                "annotations": looks,
            },
            {
                "name": "thread_events",
                "title": "Read the events of a thread",
                "description": "Reads the events of a thread, oldest first. If `more` is true, continue with `since` set to `next_since`.",
                "inputSchema": schema(&json!({
                    "thread_id": thread_id,
                    "since": { "type": "integer", "minimum": 0, "description": "Number of the event after which the result starts" },
                }), &["thread_id"]),
                "annotations": looks,
            },
            {
                "name": "list_runs",
                "title": "List runs",
                "description": "Lists runs of agents, newest first: each turn of a thread in the workspace, and runs that other programs reported.",
                "inputSchema": schema(&json!({ "limit": limit }), &[]),
                "annotations": looks,
            },
        ])
    }

    /// Runs a call; `None` if it was canceled.
    pub(super) async fn call(
        &self,
        params: &Value,
        progress: CallProgress,
        canceled: watch::Receiver<bool>,
    ) -> Result<Option<Value>, RpcFailure> {
        let Some(name) = params["name"].as_str() else {
            return Err(RpcFailure::invalid_params("the call has no tool name"));
        };
        let arguments = match &params["arguments"] {
            Value::Null => json!({}),
            arguments => arguments.clone(),
        };
        let done = match name {
            "run_agent" => Box::pin(self.run_agent(arguments, progress, canceled)).await,
            "list_threads" => self.list_threads(arguments).await.map(Some),
            "show_thread" => self.show_thread(arguments).await.map(Some),
            "thread_events" => self.thread_events(arguments).await.map(Some),
            "list_runs" => self.list_runs(arguments).await.map(Some),
            _ => {
                let message = format!("there is no tool `{name}`");
                return Err(RpcFailure::invalid_params(message));
            }
        };
        Ok(done.unwrap_or_else(|refusal| Some(refusal.result())))
    }

    /// Returns whether a directory is in the workspace.
    pub(super) fn is_within(&self, directory: impl AsRef<Path>) -> bool {
        directory.as_ref().starts_with(&self.workspace)
    }

    /// Looks up a thread of the workspace.
    pub(super) async fn thread(&self, id: &str) -> Result<Thread, ToolRefusal> {
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if id.is_empty() || !id.bytes().all(is_id) {
            return Err(ToolRefusal::field("thread_id is not the ID of a thread"));
        }
        let thread = calls::newest_turns(&*self.daemon.api(), id, 0)
            .await?
            .thread;
        if self.is_within(&thread.workspace) {
            Ok(thread)
        } else {
            Err(self.outside(Path::new(&thread.workspace)))
        }
    }

    /// Checks that no environment of the thread gives access outside the workspace.
    pub(super) async fn check_roots(&self, thread: &Thread) -> Result<(), ToolRefusal> {
        let named = thread.environments.iter().flatten();
        let mut ids: Vec<&str> = named.map(|named| named.environment_id.as_str()).collect();
        if ids.is_empty() {
            ids.push(LOCAL);
        }
        for id in ids {
            let call = Call::new(by_id(id), ());
            let environment = self.daemon.api().get_environment(call).await?;
            if !self.is_within(&environment.root) {
                return Err(self.outside(&environment.root));
            }
        }
        Ok(())
    }

    /// Returns the working directory of a new thread.
    pub(super) fn cwd(&self, named: Option<&Path>) -> Result<PathBuf, ToolRefusal> {
        let named = self.workspace.join(named.unwrap_or(Path::new("")));
        let cwd = named.canonicalize().ok().filter(|cwd| cwd.is_dir());
        let not_found = || {
            let message = format!("{} is not a directory", printable(&named));
            ToolRefusal::new("cwd_not_found", message)
        };
        let cwd = cwd.ok_or_else(not_found)?;
        if self.is_within(&cwd) {
            Ok(cwd)
        } else {
            Err(self.outside(&cwd))
        }
    }

    fn outside(&self, directory: &Path) -> ToolRefusal {
        let (directory, workspace) = (printable(directory), printable(&self.workspace));
        let message = format!("{directory} is outside of the workspace {workspace}");
        ToolRefusal::new("cwd_outside_root", message)
    }
}

fn schema(properties: &Value, required: &[&str]) -> Value {
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

pub(super) fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, ToolRefusal> {
    // Serde would also accept an array with the fields in order.
    if !arguments.is_object() {
        return Err(ToolRefusal::field("the arguments are not an object"));
    }
    serde_json::from_value(arguments).map_err(|error| ToolRefusal::field(error.to_string()))
}
