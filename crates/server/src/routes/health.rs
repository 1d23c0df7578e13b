//! The daemon itself: alive, ready, its features and its metrics.

use axum::extract::State;
use axum::response::IntoResponse;

use super::{Answer, ok};
use crate::app::Shared;

pub(super) async fn health(State(app): State<Shared>) -> Answer {
    ok(&app.service.health())
}

pub(super) async fn ready(State(app): State<Shared>) -> Answer {
    ok(&app.service.ready().await?)
}

pub(super) async fn info(State(app): State<Shared>) -> Answer {
    ok(&app.service.runtime_info())
}

pub(super) async fn metrics(State(app): State<Shared>) -> Answer {
    let media = [("content-type", "text/plain; version=0.0.4; charset=utf-8")];
    Ok((media, app.service.metrics().await).into_response())
}
