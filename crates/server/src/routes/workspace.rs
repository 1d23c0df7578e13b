//! The daemon's directory.

use axum::extract::State;

use super::{Answer, ok};
use crate::app::Shared;

pub(super) async fn status(State(app): State<Shared>) -> Answer {
    ok(&app.service.workspace_status().await)
}
