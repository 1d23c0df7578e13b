//! `session.auth`: authenticates a connection and sets its role.

use crate::Role;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::rpc::access::{TokenRole, ValidToken};
use crate::rpc::connection::Connection;
use crate::rpc::error::RpcError;
use crate::rpc::hub::MethodResult;

#[derive(Deserialize)]
struct AuthParams {
    token: Option<String>,
    host_token: Option<String>,
    agent_id: Option<String>,
    /// The key of a browser's session; the connection has its cookie.
    key: Option<String>,
}

pub(crate) async fn authenticate(
    connection: &mut Connection,
    params: Map<String, Value>,
) -> MethodResult {
    let usage = "session.auth requires { token: string }";
    let AuthParams {
        token,
        host_token,
        agent_id,
        key,
    } = super::params(usage, &params)?;
    let result = match (token, host_token, key) {
        (_, Some(token), _) => host(connection, &token),
        (Some(token), None, _) => client(connection, &token, agent_id),
        (None, None, Some(key)) => browser(connection, &key),
        (None, None, None) => return Err(RpcError::invalid_params(usage)),
    };
    match result {
        Ok(answer) => {
            connection.is_admitted = true;
            Ok(answer)
        }
        Err(text) => {
            // Each failed attempt on a connection doubles the delay, and the number of attempts is limited.
            let delay =
                connection.hub.limits.auth_delay * 2_u32.pow(connection.auth_failures.min(8));
            connection.auth_failures += 1;
            tokio::time::sleep(delay).await;
            Err(RpcError::auth_failed(format!("auth failed: {text}")))
        }
    }
}

fn auth_disabled(connection: &Connection) -> Result<Value, ()> {
    if connection.hub.gate.requires_token() {
        Err(())
    } else {
        Ok(json!({"ok": true, "auth_enabled": false}))
    }
}

fn host(connection: &mut Connection, token: &str) -> Result<Value, String> {
    match connection.hub.gate.validate(token) {
        Some(ValidToken {
            role: TokenRole::Host,
            token_id,
        }) => {
            connection.caller.role = Role::Host;
            connection.token_id = token_id;
            Ok(json!({"ok": true, "auth_enabled": true, "role": "host"}))
        }
        _ => auth_disabled(connection).map_err(|()| "host token mismatch".to_owned()),
    }
}

/// A page acts for its user, so the session of an operator has the host role.
fn browser(connection: &mut Connection, key: &str) -> Result<Value, String> {
    let gate = &connection.hub.gate;
    let cookie = connection.cookie.as_deref();
    let session = cookie.and_then(|cookie| gate.validate_session(cookie, key));
    let Some(ValidToken { role, token_id }) = session else {
        return auth_disabled(connection).map_err(|()| "session mismatch".to_owned());
    };
    connection.caller.role = match role {
        TokenRole::Host => Role::Host,
        TokenRole::Client => Role::Unbound,
        TokenRole::Agent(agent) => Role::Bound(agent),
    };
    connection.caller.reads_all = false;
    connection.token_id = token_id;
    Ok(json!({"ok": true, "auth_enabled": true}))
}

/// An agent's token binds the connection to the agent, whether or not the request names it. The response never reveals which agents have tokens.
fn client(
    connection: &mut Connection,
    token: &str,
    agent_id: Option<String>,
) -> Result<Value, String> {
    let known = connection.hub.gate.validate(token);
    let token_id = known.as_ref().and_then(|known| known.token_id.clone());
    let is_host = known
        .as_ref()
        .is_some_and(|known| known.role == TokenRole::Host);
    match (known.map(|known| known.role), agent_id) {
        (Some(TokenRole::Agent(agent)), named)
            if named.as_ref().is_none_or(|named| *named == agent) =>
        {
            let answer = json!({"ok": true, "auth_enabled": true, "agent_id": agent});
            connection.caller.role = Role::Bound(agent);
            connection.token_id = token_id;
            Ok(answer)
        }
        (Some(TokenRole::Host | TokenRole::Client), None) => {
            // A role that another token granted remains while that token is valid.
            if connection.caller.role == Role::Unbound {
                connection.token_id = token_id;
                connection.caller.reads_all = is_host;
            }
            Ok(json!({"ok": true, "auth_enabled": true}))
        }
        (_, Some(agent_id)) => auth_disabled(connection)
            .map_err(|()| format!("agent_id `{agent_id}` is not supervised, or token mismatch")),
        (_, None) => auth_disabled(connection).map_err(|()| "token mismatch".to_owned()),
    }
}
