//! `server.handshake`: negotiates the protocol version.

use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::rpc::connection::Connection;
use crate::rpc::error::RpcError;
use crate::rpc::hub::MethodResult;

const OLDEST: u64 = 1;
const NEWEST: u64 = 3;
const RESUME: &str = "runs.resume.v1";
const CAPABILITIES: [&str; 3] = ["runs.pagination.v1", RESUME, "runs.cancel.v1"];

#[derive(Deserialize)]
struct HandshakeParams {
    protocol_version: u64,
    #[serde(default)]
    protocol_version_min: Option<u64>,
    #[serde(default)]
    client_version: Option<String>,
    #[serde(default)]
    required_capabilities: Vec<String>,
    #[serde(default)]
    optional_capabilities: Vec<String>,
}

pub(super) fn negotiate(connection: &mut Connection, params: &Map<String, Value>) -> MethodResult {
    let requested: HandshakeParams =
        super::params("server.handshake requires { protocol_version }", params)?;
    let oldest = requested.protocol_version_min.unwrap_or(OLDEST);
    let version = requested.protocol_version.min(NEWEST);
    if version < oldest.max(OLDEST) {
        return Err(RpcError::protocol(format!(
            "protocol version mismatch: the client speaks {oldest} to {}, the server {OLDEST} to {NEWEST}",
            requested.protocol_version
        )));
    }
    let is_known = |name: &String| CAPABILITIES.contains(&name.as_str());
    if let Some(unknown) = requested
        .required_capabilities
        .iter()
        .find(|name| !is_known(name))
    {
        return Err(RpcError::capability(format!(
            "protocol capability mismatch: the server does not have `{unknown}`"
        )));
    }
    let offered = requested
        .required_capabilities
        .iter()
        .chain(&requested.optional_capabilities);
    let mut negotiated: Vec<&String> = offered.filter(|name| is_known(name)).collect();
    negotiated.sort_unstable();
    negotiated.dedup();
    connection.completed_handshake = true;
    connection.caller.wants_lease = negotiated.iter().any(|name| *name == RESUME);
    Ok(json!({
        "protocol_version": version,
        "server_version": connection.hub.server_version,
        "client_protocol_version": requested.protocol_version,
        "negotiated_capabilities": negotiated,
        "server_protocol_version_min": OLDEST,
        "server_protocol_version_max": NEWEST,
        "client_version": requested.client_version,
    }))
}
