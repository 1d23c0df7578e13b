//! The tools, their arguments, and the directories they may work in.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tokio::sync::watch;
use windlass_protocol::{Call, Thread};

use super::answer::Refusal;
use super::look::shown;
use super::run_agent::Progress;
use crate::calls::{self, by_id};
use crate::cli::printable;
use crate::connect::DaemonConnection;
use crate::stdio_rpc::Failure;

/// Maximum number of entries of a list.
const MAX_LISTED: u64 = 100;
/// Default number of entries of a list.
const LISTED: u64 = 20;
/// The environment of threads that name none.
const LOCAL: &str = "local";

/// Shared state of the tools.
pub(super) struct Tools {
    pub(super) link: Arc<DaemonConnection>,
    pub(super) data: PathBuf,
    /// Agents work in this directory or below it.
    pub(super) workspace: PathBuf,
    pub(super) model: Option<String>,
    pub(super) backend: Option<String>,
    pub(super) is_all_allowed: bool,
}

/// The arguments of `run_agent`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RunAgent {
    pub(super) prompt: String,
    pub(super) cwd: Option<PathBuf>,
    pub(super) model: Option<String>,
    pub(super) backend: Option<String>,
    pub(super) thread_id: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Listing {
    limit: Option<u64>,
}

impl Listing {
    fn limit(&self) -> Result<usize, Refusal> {
        let limit = self.limit.unwrap_or(LISTED);
        let is_in_range = (1..=MAX_LISTED).contains(&limit);
        let limit = usize::try_from(limit).ok().filter(|_| is_in_range);
        limit.ok_or_else(|| Refusal::field(format!("limit is a number from 1 to {MAX_LISTED}")))
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfThread {
    thread_id: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct OfEvents {
    thread_id: String,
    since: Option<u64>,
}

impl Tools {
    /// Returns the descriptions of the tools.
    pub(super) fn list(&self) -> Value {
        let allowed = if self.is_all_allowed {
            "Everything that the agent does is allowed without asking, commands too."
        } else {
            "Nobody can be asked, so calls of the agent that change something are refused unless the operator's rules allow them; the answer \
             lists them as refused."
        };
        let about = format!(
            "Gives an AI agent something to do and waits until it is done, which may take minutes. Returns its answer, the thread_id to go on with the \
             same thread, and the tokens used. Without thread_id a new thread begins that knows nothing of yours, so the prompt must say \
             everything. {allowed} Canceling stops the agent; what it did is kept."
        );
        let thread_id = json!({ "type": "string", "description": "The thread, such as thr_0123…" });
        let limit = json!({
            "type": "integer", "minimum": 1, "maximum": MAX_LISTED,
            "description": format!("How many at most; {LISTED} if left out"),
        });
        let looks = json!({ "readOnlyHint": true, "openWorldHint": false });
        json!([
            {
                "name": "run_agent",
                "title": "Run an agent",
                "description": about,
                "inputSchema": schema(&json!({
                    "prompt": { "type": "string", "minLength": 1, "description": "What to do" },
                    "cwd": { "type": "string", "description": "The directory to work in, in the workspace or relative to it; the workspace if left out. Not with thread_id" },
                    "model": { "type": "string", "description": "The model as provider/model; with thread_id for this turn alone" },
                    "backend": { "type": "string", "description": "Another agent that does the work, such as claude-code. Not with thread_id" },
                    "thread_id": { "type": "string", "description": "The thread to go on with" },
                }), &["prompt"]),
                "annotations": { "readOnlyHint": false, "destructiveHint": true, "idempotentHint": false, "openWorldHint": true },
            },
            {
                "name": "list_threads",
                "title": "List threads",
                "description": "Lists the threads with agents in the workspace, the newest first.",
                "inputSchema": schema(&json!({ "limit": limit }), &[]),
                "annotations": looks,
            },
            {
                "name": "show_thread",
                "title": "Show a thread",
                "description": "Shows a thread as text: what was said, and which tools were called. Of a long one the end is shown.",
                "inputSchema": schema(&json!({ "thread_id": thread_id }), &["thread_id"]),
                "annotations": looks,
            },
            {
                "name": "thread_events",
                "title": "Read the events of a thread",
                "description": "Reads what is recorded of a thread, event by event, oldest first. Where `more` is true, go on with `since` set to `next_since`.",
                "inputSchema": schema(&json!({
                    "thread_id": thread_id,
                    "since": { "type": "integer", "minimum": 0, "description": "The number of the last event that is known already" },
                }), &["thread_id"]),
                "annotations": looks,
            },
            {
                "name": "list_runs",
                "title": "List runs",
                "description": "Lists what agents did, the newest first: each turn of a thread in the workspace, and runs that other programs reported.",
                "inputSchema": schema(&json!({ "limit": limit }), &[]),
                "annotations": looks,
            },
        ])
    }

    /// Runs a call; `None` if it was canceled.
    pub(super) async fn call(
        &self,
        params: &Value,
        progress: Progress,
        canceled: watch::Receiver<bool>,
    ) -> Result<Option<Value>, Failure> {
        let Some(name) = params["name"].as_str() else {
            return Err(Failure::bad("a call has the name of a tool"));
        };
        let arguments = match &params["arguments"] {
            Value::Null => json!({}),
            arguments => arguments.clone(),
        };
        let done = match name {
            "run_agent" => self.run_agent(arguments, progress, canceled).await,
            "list_threads" => self.list_threads(arguments).await.map(Some),
            "show_thread" => self.show_thread(arguments).await.map(Some),
            "thread_events" => self.thread_events(arguments).await.map(Some),
            "list_runs" => self.list_runs(arguments).await.map(Some),
            _ => return Err(Failure::bad(format!("there is no tool `{name}`"))),
        };
        Ok(done.unwrap_or_else(|refusal| Some(refusal.result())))
    }

    async fn run_agent(
        &self,
        arguments: Value,
        progress: Progress,
        canceled: watch::Receiver<bool>,
    ) -> Result<Option<Value>, Refusal> {
        let wanted: RunAgent = read(arguments)?;
        self.link.is_there().await?;
        Box::pin(self.run(wanted, progress, canceled)).await
    }

    async fn list_threads(&self, arguments: Value) -> Result<Value, Refusal> {
        let limit = read::<Listing>(arguments)?.limit()?;
        self.link.is_there().await?;
        self.threads(limit).await
    }

    async fn show_thread(&self, arguments: Value) -> Result<Value, Refusal> {
        let OfThread { thread_id } = read(arguments)?;
        self.link.is_there().await?;
        self.thread(&thread_id).await?;
        shown(&calls::whole_thread(&*self.link.api(), &thread_id).await?)
    }

    async fn thread_events(&self, arguments: Value) -> Result<Value, Refusal> {
        let OfEvents { thread_id, since } = read(arguments)?;
        self.link.is_there().await?;
        let thread = self.thread(&thread_id).await?;
        self.events(&thread.id, since.unwrap_or(0)).await
    }

    async fn list_runs(&self, arguments: Value) -> Result<Value, Refusal> {
        let limit = read::<Listing>(arguments)?.limit()?;
        self.link.is_there().await?;
        self.runs(limit).await
    }

    /// Returns whether a directory is in the workspace.
    pub(super) fn is_within(&self, directory: impl AsRef<Path>) -> bool {
        directory.as_ref().starts_with(&self.workspace)
    }

    /// Looks up a thread of the workspace.
    pub(super) async fn thread(&self, id: &str) -> Result<Thread, Refusal> {
        let is_id = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
        if id.is_empty() || !id.bytes().all(is_id) {
            return Err(Refusal::field("thread_id is no id of a thread"));
        }
        let thread = calls::newest_turns(&*self.link.api(), id, 0).await?.thread;
        if self.is_within(&thread.workspace) {
            Ok(thread)
        } else {
            Err(self.outside(Path::new(&thread.workspace)))
        }
    }

    /// Checks that no environment of the thread gives access outside the workspace.
    pub(super) async fn check_roots(&self, thread: &Thread) -> Result<(), Refusal> {
        let named = thread.environments.iter().flatten();
        let mut ids: Vec<&str> = named.map(|named| named.environment_id.as_str()).collect();
        if ids.is_empty() {
            ids.push(LOCAL);
        }
        for id in ids {
            let call = Call::new(by_id(id), ());
            let environment = self.link.api().get_environment(call).await?;
            if !self.is_within(&environment.root) {
                return Err(self.outside(&environment.root));
            }
        }
        Ok(())
    }

    /// Returns the working directory of a new thread.
    pub(super) fn cwd(&self, named: Option<&Path>) -> Result<PathBuf, Refusal> {
        let named = self.workspace.join(named.unwrap_or(Path::new("")));
        let cwd = named.canonicalize().ok().filter(|cwd| cwd.is_dir());
        let not_found = || {
            let message = format!("{} is no directory", printable(&named));
            Refusal::new("cwd_not_found", message)
        };
        let cwd = cwd.ok_or_else(not_found)?;
        if self.is_within(&cwd) {
            Ok(cwd)
        } else {
            Err(self.outside(&cwd))
        }
    }

    fn outside(&self, directory: &Path) -> Refusal {
        let (directory, workspace) = (printable(directory), printable(&self.workspace));
        let message = format!("{directory} lies outside of the workspace {workspace}");
        Refusal::new("cwd_outside_root", message)
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

fn read<T: DeserializeOwned>(arguments: Value) -> Result<T, Refusal> {
    // Serde would accept an array as the fields in their order.
    if !arguments.is_object() {
        return Err(Refusal::field("the arguments are no object"));
    }
    serde_json::from_value(arguments).map_err(|error| Refusal::field(error.to_string()))
}
