//! `session.init`: registers the client's capabilities.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::rpc::connection::Connection;
use crate::rpc::error::RpcError;
use crate::rpc::hub::MethodResult;

use super::tools;

#[derive(Deserialize)]
struct InitParams {
    #[serde(default)]
    tools: Vec<Value>,
    #[serde(default)]
    policies: Vec<Value>,
}

pub(super) fn init(connection: &Connection, params: &Map<String, Value>) -> MethodResult {
    let usage = "session.init requires { tools?: [{ name }], policies?: [] }";
    let InitParams { tools, policies } = super::params(usage, params)?;
    let registered = tools::checked("session.init", &tools)?;
    if let Some(policy) = policies.first() {
        let rule = policy.get("rule").unwrap_or(policy);
        return Err(RpcError::invalid_params(format!(
            "session.init: no policy has the rule {rule}; leave it out"
        )));
    }
    Ok(json!({
        "session_id": connection.caller.client_id.as_str(),
        "tools_registered": registered,
        "policies_registered": 0,
    }))
}
