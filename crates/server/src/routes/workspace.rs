//! The daemon's directory.

use axum::extract::State;

use super::{Answer, ok};
use crate::app::Shared;

pub(super) async fn status(State(app): State<Shared>) -> Answer {
    let workspace = app.fixed.local.root.display().to_string();
    ok(&app.git.read(&workspace).await)
}
