//! `session.init`: what a client brings along.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::connection::Connection;
use crate::error::RpcError;
use crate::hub::Answer;

#[derive(Deserialize)]
struct Params {
    #[serde(default)]
    tools: Vec<Tool>,
    #[serde(default)]
    policies: Vec<Value>,
}

#[derive(Deserialize)]
struct Tool {
    #[expect(
        dead_code,
        reason = "a tool must have a name; proposals name the tool themselves"
    )]
    name: String,
}

pub(super) fn init(connection: &Connection, params: &Map<String, Value>) -> Answer {
    let wants = "session.init requires { tools?: [{ name }], policies?: [] }";
    let Params { tools, policies } = super::params(wants, params)?;
    if let Some(policy) = policies.first() {
        let rule = policy.get("rule").unwrap_or(policy);
        return Err(RpcError::invalid_params(format!(
            "session.init: no policy has the rule {rule}; leave it out"
        )));
    }
    Ok(json!({
        "session_id": connection.caller.client_id.as_str(),
        "tools_registered": tools.len(),
        "policies_registered": 0,
    }))
}
