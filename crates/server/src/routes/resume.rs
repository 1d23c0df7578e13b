//! Looking a thread up to go on with it. Nothing has to be loaded: threads are always there.

use axum::extract::{Path, State};

use super::{Answer, ok};
use crate::app::Shared;

pub(super) async fn resume(State(app): State<Shared>, Path(id): Path<String>) -> Answer {
    ok(&app.find(&id).await?.thread)
}
