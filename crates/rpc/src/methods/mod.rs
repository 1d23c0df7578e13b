//! The methods.

pub(crate) mod auth;
mod fields;
mod handshake;
mod init;
mod proposal;
pub(crate) mod runs;
pub(crate) mod tools;

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use crate::connection::Connection;
use crate::error::RpcError;
use crate::hub::{Answer, Hub, Peer};

/// What a connection may ask before it has shown a token.
pub(crate) const SHAKE: &str = "server.handshake";

/// Reads parameters; what is wrong is told together with what a method wants.
pub fn params<T: DeserializeOwned>(
    wants: &str,
    params: &Map<String, Value>,
) -> Result<T, RpcError> {
    T::deserialize(params).map_err(|error| RpcError::invalid_params(format!("{wants}: {error}")))
}

/// Carries out what is done in order; `None` when the method is not one of those.
pub(crate) async fn call(
    connection: &mut Connection,
    method: &str,
    params: &Map<String, Value>,
) -> Option<Answer> {
    Some(match method {
        SHAKE => handshake::shake(connection, params),
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

/// Carries out what may take long, or nothing.
pub(crate) async fn call_long(
    hub: &Hub,
    peer: &Peer,
    method: &str,
    params: Map<String, Value>,
) -> Answer {
    if method == "proposal.submit" {
        return proposal::submit(hub, peer, &params).await;
    }
    let answer = hub.methods.call(peer, method, params).await;
    answer.unwrap_or_else(|| Err(RpcError::unknown_method(method)))
}
