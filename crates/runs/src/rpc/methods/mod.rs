//! The methods of the run RPC.

pub(crate) mod auth;
mod fields;
mod handshake;
mod init;
mod proposal;
pub(crate) mod runs;
pub(crate) mod tools;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::rpc::connection::Connection;
use crate::rpc::error::RpcError;
use crate::rpc::hub::{Hub, MethodResult, Peer};

/// The method that an unauthenticated connection may call.
pub(crate) const HANDSHAKE: &str = "server.handshake";

/// Parses parameters; the error message includes the expected parameters.
pub fn params<T: DeserializeOwned>(
    usage: &str,
    params: &Map<String, Value>,
) -> Result<T, RpcError> {
    T::deserialize(params).map_err(|error| RpcError::invalid_params(format!("{usage}: {error}")))
}

/// Runs a method that is executed in order; `None` if the method is not one of those.
pub(crate) async fn call(
    connection: &mut Connection,
    method: &str,
    params: &Map<String, Value>,
) -> Option<MethodResult> {
    Some(match method {
        HANDSHAKE => handshake::negotiate(connection, params),
        "session.init" => init::init(connection, params),
        "runs.start" => runs::start(connection, params).await,
        "runs.record_turns" => runs::record_turns(connection, params).await,
        "runs.record_model_turn" => runs::record_model_turn(connection, params).await,
        "runs.complete" => runs::complete(connection, params).await,
        "runs.cancel" => runs::cancel(connection, params).await,
        "runs.resume" => runs::resume(connection, params).await,
        "runs.list" => runs::list(connection, params).await,
        "runs.get_trace" => runs::get_trace(connection, params).await,
        "runs.subscribe" => runs::subscribe(connection, params).await,
        "runs.unsubscribe" => runs::unsubscribe(connection, params),
        _ => return None,
    })
}

/// Runs a method that may take long; an unknown method is an error.
pub(crate) async fn call_long(
    hub: &Hub,
    peer: &Peer,
    method: &str,
    params: Map<String, Value>,
) -> MethodResult {
    if method == "proposal.submit" {
        return proposal::submit(hub, peer, &params).await;
    }
    let answer = hub.methods.call(peer, method, params).await;
    answer.unwrap_or_else(|| Err(RpcError::unknown_method(method)))
}
