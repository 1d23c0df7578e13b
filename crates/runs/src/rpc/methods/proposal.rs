//! `proposal.submit`: actions that the client executes one after the other. Each is recorded as a turn of the current run as soon as it ends.

use std::time::Duration;

use chrono::Utc;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_core::runs::RunTurn;

use crate::rpc::error::RpcError;
use crate::rpc::hub::{Hub, MethodResult, Peer};

const USAGE: &str =
    "proposal.submit requires { proposal: { actions: [{ id, type, tool, parameters }] } }";
const TOOL_CALL: &str = "tool_call";
const MAX_ACTIONS: usize = 256;

#[derive(Deserialize)]
struct ProposalParams {
    proposal: Proposal,
}

#[derive(Deserialize)]
struct Proposal {
    #[serde(default)]
    id: Option<String>,
    actions: Vec<Action>,
}

#[derive(Deserialize)]
struct Action {
    id: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    tool: Option<String>,
    #[serde(default)]
    parameters: Value,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

pub(super) async fn submit(hub: &Hub, peer: &Peer, params: &Map<String, Value>) -> MethodResult {
    let ProposalParams { proposal } = super::params(USAGE, params)?;
    if proposal.actions.len() > MAX_ACTIONS {
        return Err(RpcError::limit(format!(
            "proposal.submit takes {MAX_ACTIONS} actions, not {}",
            proposal.actions.len()
        )));
    }
    let wrong = proposal
        .actions
        .iter()
        .find(|action| action.kind != TOOL_CALL || action.tool.is_none());
    if let Some(action) = wrong {
        return Err(RpcError::invalid_params(format!(
            "proposal.submit: action `{}` must have the type `{TOOL_CALL}` and a tool",
            action.id
        )));
    }
    let run = hub.runs.current_run(&peer.caller.client_id);
    let mut results = Vec::with_capacity(proposal.actions.len());
    for action in proposal.actions {
        let result = execute(hub, peer, &action).await?;
        if let Some(run_id) = &run {
            let turn = turn_of(action, result.get("output").cloned());
            let recorded = hub
                .runs
                .record_turns(&peer.caller, run_id, vec![turn])
                .await;
            // A run that has ended meanwhile accepts no more turns, which is no reason to stop.
            recorded?;
        }
        results.push(result);
    }
    Ok(json!({"proposal_id": proposal.id, "results": results}))
}

async fn execute(hub: &Hub, peer: &Peer, action: &Action) -> Result<Value, RpcError> {
    let timeout = action
        .timeout_ms
        .map_or(hub.limits.tool_time, Duration::from_millis);
    let params = json!({
        "action_id": action.id,
        "attempt": 1,
        "parameters": action.parameters,
        "timeout_ms": action.timeout_ms,
        "tool": action.tool,
    });
    let outcome = peer
        .calls
        .call("tools.execute", &params, timeout.min(hub.limits.tool_time))
        .await?;
    let timestamp = Utc::now();
    Ok(match outcome {
        Ok(output) => {
            json!({"action_id": action.id, "output": output, "state_changes": {}, "status": "succeeded",
            "timestamp": timestamp})
        }
        Err(error) => {
            let text = error
                .get("message")
                .and_then(Value::as_str)
                .map_or_else(|| error.to_string(), str::to_owned);
            json!({"action_id": action.id, "error": text, "state_changes": {}, "status": "failed", "timestamp": timestamp})
        }
    })
}

fn turn_of(action: Action, output: Option<Value>) -> RunTurn {
    let prompt = action.parameters.get("prompt").and_then(Value::as_str);
    let mut turn = RunTurn {
        prompt: prompt.map(str::to_owned),
        tool: action.tool,
        parameters: Some(action.parameters),
        output,
        ..RunTurn::default()
    };
    turn.derive_outcomes();
    turn
}
