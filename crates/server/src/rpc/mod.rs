//! JSON-RPC over WebSocket, at `/` and `/v1/rpc`.

mod socket;
mod upgrade;

use axum::Router;
use axum::routing::get;
use windlass_service::rpc::Rpc;

use crate::app::SharedApp;

/// State of the WebSocket routes.
#[derive(Clone)]
struct Sockets {
    app: SharedApp,
    rpc: Rpc,
}

/// Returns the routes. A socket presents its token in its own protocol, so the upgrade request needs none.
pub(crate) fn router(app: &SharedApp, rpc: &Rpc) -> Router {
    let sockets = Sockets {
        app: SharedApp::clone(app),
        rpc: rpc.clone(),
    };
    Router::new()
        .route("/", get(upgrade::upgrade))
        .route("/v1/rpc", get(upgrade::upgrade))
        .with_state(sockets)
}
