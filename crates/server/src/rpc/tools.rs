//! `tools.register`: tools that a connection carries out. The thread knows them as tools of a client, and each call goes
//! out as `tools.execute` and comes back as a result, as it would over HTTP.

use axum::http::Method;
use serde_json::{Map, Value, json};
use windlass_rpc::{Answer, Peer, RpcError};

use super::sessions::{Sessions, take_id};

/// How long a client may take; the wait of the turn itself ends earlier.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(24 * 60 * 60);

pub(super) async fn register(
    sessions: &Sessions,
    peer: &Peer,
    mut params: Map<String, Value>,
) -> Answer {
    let method = "tools.register";
    let thread = take_id(method, &mut params, "thread_id")?;
    let Some(Value::Array(tools)) = params.remove("tools") else {
        return Err(RpcError::invalid_params(format!(
            "{method} requires {{ thread_id, tools: [{{ name, description, input_schema }}] }}"
        )));
    };
    let path = format!("/v1/threads/{thread}");
    let since = sessions.ask(peer, Method::GET, &path, None).await?["latest_seq"].clone();
    let count = tools.len();
    let names: Vec<Value> = tools.iter().map(|tool| tool["name"].clone()).collect();
    let change = json!({ "dynamic_tools": tools });
    sessions
        .ask(peer, Method::PATCH, &path, Some(&change))
        .await?;
    let since = since.as_u64().unwrap_or(0);
    let mut events = sessions.follow(peer, &thread, since).await?;
    let (sessions, peer, followed) = (sessions.clone(), peer.clone(), thread.clone());
    tokio::spawn(async move {
        while let Some(event) = events.next().await {
            let call = &event["payload"];
            if event["event"] == "tool_call.requested" && names.contains(&call["tool"]) {
                let (sessions, peer) = (sessions.clone(), peer.clone());
                tokio::spawn(execute(sessions, peer, followed.clone(), call.clone()));
            }
        }
    });
    Ok(json!({"thread_id": thread, "tools_registered": count}))
}

/// Lets the client carry a call out, and hands its result in. A client that goes away leaves the call waiting.
async fn execute(sessions: Sessions, peer: Peer, thread: String, call: Value) {
    let params = json!({
        "action_id": call["call_id"],
        "attempt": 1,
        "parameters": call["arguments"],
        "timeout_ms": null,
        "tool": call["tool"],
    });
    let result = match peer.calls.call("tools.execute", &params, PATIENCE).await {
        Ok(Ok(output)) => {
            json!({"success": true, "content": [{"type": "input_text", "text": text_of(&output)}]})
        }
        Ok(Err(error)) => {
            let said = error
                .get("message")
                .map_or_else(|| text_of(&error), text_of);
            json!({"success": false, "content": [{"type": "input_text", "text": said}]})
        }
        Err(_) => return,
    };
    let (turn, id) = (text_of(&call["turn_id"]), text_of(&call["call_id"]));
    let path = format!("/v1/threads/{thread}/turns/{turn}/tool-calls/{id}/result");
    if let Err(error) = sessions
        .ask(&peer, Method::POST, &path, Some(&result))
        .await
    {
        tracing::debug!(
            call = id,
            error = error.message,
            "the result of a socket's tool was not taken"
        );
    }
}

fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
