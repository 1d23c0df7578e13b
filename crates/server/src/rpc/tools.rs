//! `tools.register`: tools that a connection carries out. The thread knows them as tools of a client, and each call goes
//! out as `tools.execute` and comes back as a result, as it would over HTTP.

use serde_json::{Value, json};
use windlass_protocol::{
    DynamicToolCallContent, DynamicToolCallParams, DynamicToolCallResult, EventPayload, PatchThread,
};
use windlass_rpc::{Answer, Peer, RpcError};

use super::methods::{Call, heard_by};
use crate::app::Shared;
use crate::service::fields;
use crate::service::follow::{Heard, Wanted};

/// How long a client may take; the wait of the turn itself ends earlier.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

pub(super) async fn register(mut call: Call) -> Answer {
    let Some(Value::Array(tools)) = call.params.remove("tools") else {
        return Err(RpcError::invalid_params(format!(
            "{} requires {{ thread_id, tools: [{{ name, description, input_schema }}] }}",
            call.method
        )));
    };
    let (peer, asked, thread) = (call.peer, call.asked, call.thread);
    let since = asked.find(&thread).await?.row.seq;
    let names: Vec<Value> = tools.iter().map(|tool| tool["name"].clone()).collect();
    let answer = json!({"thread_id": thread, "tools_registered": tools.len()});
    let change = [("dynamic_tools".to_owned(), Value::Array(tools))];
    let (change, _) = fields::read::<PatchThread>(change.into_iter().collect())?;
    asked.patch_thread(&thread, change).await?;
    let wanted = Wanted {
        since,
        ..Wanted::default()
    };
    let mut events = asked.follow(&thread, wanted).await?;
    tokio::spawn(async move {
        while let Some(heard) = heard_by(&peer, events.next()).await {
            if let Heard::Event(event) = heard
                && let EventPayload::ToolCallRequested(pending) = event.payload
                && names.contains(&Value::from(pending.call.tool.as_str()))
            {
                let (app, peer) = (Shared::clone(&asked.app), peer.clone());
                tokio::spawn(execute(app, peer, thread.clone(), pending.call));
            }
        }
    });
    Ok(answer)
}

/// Lets the client carry a call out, and hands its result in. A client that goes away leaves the call waiting.
async fn execute(app: Shared, peer: Peer, thread: String, call: DynamicToolCallParams) {
    let params = json!({
        "action_id": call.call_id,
        "attempt": 1,
        "parameters": call.arguments,
        "timeout_ms": null,
        "tool": call.tool,
    });
    let (success, text) = match peer.calls.call("tools.execute", &params, PATIENCE).await {
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
        let (app, id) = (Shared::clone(&app), id.clone());
        async move { app.submit_result(&thread, &turn, &id, result).await }
    };
    if let Err(error) = app.carry(submitting).await.flatten() {
        tracing::debug!(call = id, %error, "the result of a socket's tool was not taken");
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
