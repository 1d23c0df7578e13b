//! `tools.register`: tools that a connection executes. The thread treats them as client tools: each call is sent as `tools.execute`, and its result
//! is submitted as over HTTP.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::task::AbortHandle;
use windlass_core::items::WaitKind;
use windlass_protocol::operations::{self as op, IdPath};
use windlass_protocol::{
    DynamicToolCallContent, DynamicToolCallParams, DynamicToolCallResult, EventName, EventPayload,
    PatchThread,
};
use windlass_runs::ClientId;
use windlass_runs::rpc::{MethodResult, Peer, RpcError};

use super::methods::{RpcCall, next_unless_gone};
use crate::error::Result;
use crate::handle::Handle;
use crate::ids;
use crate::operations::RequestContext;
use crate::operations::fields;
use crate::operations::threads::follow::{FollowItem, FollowOptions, Follower};
use crate::service::Service;
use crate::threads::FoundThread;

/// Time limit for a client; the wait of the turn itself ends earlier.
const CALL_TIME: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

/// The followers that deliver calls: at most one per connection and thread, so that no call is delivered twice.
#[derive(Default)]
pub(super) struct ToolExecutors(Mutex<HashMap<(ClientId, String), ToolExecutor>>);

struct ToolExecutor {
    follower: AbortHandle,
    running: RunningCalls,
}

/// The ids of calls that the client executes now.
#[derive(Clone, Default)]
struct RunningCalls(Arc<Mutex<HashSet<String>>>);

impl ToolExecutors {
    /// Starts delivering calls, and replaces an earlier registration for the same thread.
    fn replace(self: &Arc<Self>, peer: Peer, app: Service, calls: DueCalls) {
        let key = (peer.caller.client_id.clone(), calls.thread.clone());
        // The lock is held until the entry exists, so that a follower that ends at once removes its own entry.
        let mut table = self.0.lock();
        let previous = table.remove(&key);
        let running = previous.map_or_else(RunningCalls::default, |previous| {
            previous.follower.abort();
            previous.running
        });
        let (executors, calls_running) = (Arc::clone(self), running.clone());
        let follower = tokio::spawn({
            let key = key.clone();
            async move {
                calls.deliver(&app, &peer, &calls_running).await;
                let mut table = executors.0.lock();
                let is_own = |own: &ToolExecutor| own.follower.id() == tokio::task::id();
                if table.get(&key).is_some_and(is_own) {
                    table.remove(&key);
                }
            }
        });
        let follower = follower.abort_handle();
        table.insert(key, ToolExecutor { follower, running });
    }
}

/// The calls of a thread that a connection has to execute: those that wait already, then new ones.
struct DueCalls {
    thread: String,
    names: Vec<String>,
    events: Follower,
    /// The calls that waited at the time of registration, and the thread's newest record then.
    pending: HashSet<String>,
    head: u64,
}

impl DueCalls {
    async fn find(
        service: &Service,
        ctx: &RequestContext,
        found: &FoundThread,
        names: Vec<String>,
    ) -> Result<Self> {
        let thread = ids::thread(found.id);
        let head = found.row.seq;
        let waits = service.queries.waits(Some(&found.row.stream)).await?;
        let waits = waits.into_iter();
        let waits = waits.filter(|wait| wait.is_open && wait.kind == WaitKind::ExternalTool);
        let (seqs, pending): (Vec<u64>, HashSet<String>) = waits
            .map(|wait| (wait.seq, ids::call(wait.exec_id)))
            .unzip();
        let oldest = seqs.into_iter().min();
        let options = FollowOptions {
            since: oldest.map_or(head, |oldest| head.min(oldest.saturating_sub(1))),
            ..FollowOptions::default()
        };
        Ok(Self {
            events: service.follow(ctx, &thread, options).await?,
            thread,
            names,
            pending,
            head,
        })
    }

    fn has(&self, seq: u64, call: &DynamicToolCallParams) -> bool {
        self.names.contains(&call.tool) && (seq > self.head || self.pending.contains(&call.call_id))
    }

    async fn deliver(mut self, app: &Service, peer: &Peer, running: &RunningCalls) {
        while let Some(item) = next_unless_gone(peer, self.events.next_item()).await {
            if let FollowItem::Event(event) = item
                && let Some(shown) = &event.record.shown
                && shown.name == EventName::ToolCallRequested.as_str()
                && let Some(event) = shown.envelope()
                && let EventPayload::ToolCallRequested(requested) = event.payload
                && self.has(event.seq, &requested.call)
                && running.0.lock().insert(requested.call.call_id.clone())
            {
                let (app, peer) = (Service::clone(app), peer.clone());
                let (thread, running) = (self.thread.clone(), running.clone());
                tokio::spawn(async move {
                    let id = requested.call.call_id.clone();
                    execute(app, peer, thread, requested.call).await;
                    running.0.lock().remove(&id);
                });
            }
        }
    }
}

pub(super) async fn register(mut call: RpcCall) -> MethodResult {
    let Some(Value::Array(tools)) = call.params.remove("tools") else {
        return Err(RpcError::invalid_params(format!(
            "{} requires {{ thread_id, tools: [{{ name, description, input_schema }}] }}",
            call.method
        )));
    };
    let (peer, service, thread) = (call.peer, call.service, call.thread);
    let found = service.find(&thread).await?;
    let answer = json!({"thread_id": thread, "tools_registered": tools.len()});
    let change = [("dynamic_tools".to_owned(), Value::Array(tools))];
    let (change, _) = fields::read::<PatchThread>(change.into_iter().collect())?;
    let tools = change.dynamic_tools.iter().flatten();
    let names = tools.map(|tool| tool.name.clone()).collect();
    let path = IdPath { id: thread };
    let patch = windlass_protocol::api::Call::<op::PatchThread>::new(path, change);
    service.handle(&call.ctx, patch).await?;
    let calls = DueCalls::find(&service, &call.ctx, &found, names).await?;
    call.executors.replace(peer, service, calls);
    Ok(answer)
}

/// Sends a call to the client and submits its result. The call of a client that disconnects keeps waiting.
async fn execute(app: Service, peer: Peer, thread: String, call: DynamicToolCallParams) {
    let params = json!({
        "action_id": call.call_id,
        "attempt": 1,
        "parameters": call.arguments,
        "timeout_ms": null,
        "tool": call.tool,
    });
    let (success, text) = match peer.calls.call("tools.execute", &params, CALL_TIME).await {
        Ok(Ok(output)) => (true, text_of(&output)),
        Ok(Err(error)) => (false, text_of(error.get("message").unwrap_or(&error))),
        Err(_) => return,
    };
    let result = DynamicToolCallResult {
        success,
        content: vec![DynamicToolCallContent::InputText { text }],
    };
    let (turn, id) = (call.turn_id, call.call_id);
    let submitting = {
        let (app, id) = (Service::clone(&app), id.clone());
        async move { app.submit_result(&thread, &turn, &id, result).await }
    };
    if let Err(error) = app.run_detached(submitting).await.flatten() {
        tracing::debug!(call = id, %error, "the result of a socket's tool was refused");
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
