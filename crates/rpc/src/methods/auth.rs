//! `session.auth`: what a connection shows, and what it is then.

use serde::Deserialize;
use serde_json::{Map, Value, json};
use windlass_runs::Role;

use crate::connection::Connection;
use crate::error::RpcError;
use crate::hub::Answer;

#[derive(Deserialize)]
struct Params {
    token: Option<String>,
    host_token: Option<String>,
    agent_id: Option<String>,
}

pub(crate) async fn authenticate(
    connection: &mut Connection,
    params: Map<String, Value>,
) -> Answer {
    let wants = "session.auth requires { token: string }";
    let Params {
        token,
        host_token,
        agent_id,
    } = super::params(wants, &params)?;
    let judged = match (token, host_token, agent_id) {
        (_, Some(shown), _) => host(connection, &shown),
        (Some(shown), None, Some(agent_id)) => agent(connection, &shown, agent_id),
        (Some(shown), None, None) => server(connection, &shown),
        (None, None, _) => return Err(RpcError::invalid_params(wants)),
    };
    match judged {
        Ok(answer) => {
            connection.is_admitted = true;
            Ok(answer)
        }
        Err(text) => {
            // Guessing takes longer and longer, on this connection; there are only so many of them.
            let delay =
                connection.hub.limits.auth_delay * 2_u32.pow(connection.auth_failures.min(8));
            connection.auth_failures += 1;
            tokio::time::sleep(delay).await;
            Err(RpcError::auth_failed(format!("auth failed: {text}")))
        }
    }
}

fn server(connection: &Connection, shown: &str) -> Result<Value, String> {
    match &connection.hub.credentials.server {
        None => Ok(json!({"ok": true, "auth_enabled": false})),
        Some(is_token) if is_token(shown) => Ok(json!({"ok": true, "auth_enabled": true})),
        Some(_) => Err("token mismatch".to_owned()),
    }
}

fn host(connection: &mut Connection, shown: &str) -> Result<Value, String> {
    let credentials = &connection.hub.credentials;
    match &credentials.host {
        Some(token) if token.is(shown) => {
            connection.caller.role = Role::Host;
            Ok(json!({"ok": true, "auth_enabled": true, "role": "host"}))
        }
        None if !credentials.are_needed() => Ok(json!({"ok": true, "auth_enabled": false})),
        _ => Err("host token mismatch".to_owned()),
    }
}

/// An agent without a token of its own cannot be bound to, and nobody is told which agents have one.
fn agent(connection: &mut Connection, shown: &str, agent_id: String) -> Result<Value, String> {
    let credentials = &connection.hub.credentials;
    match credentials.agents.get(&agent_id) {
        Some(token) if token.is(shown) => {
            let answer = json!({"ok": true, "auth_enabled": true, "agent_id": agent_id});
            connection.caller.role = Role::Bound(agent_id);
            Ok(answer)
        }
        None if !credentials.are_needed() => Ok(json!({"ok": true, "auth_enabled": false})),
        _ => Err(format!(
            "agent_id `{agent_id}` is not supervised, or token mismatch"
        )),
    }
}
