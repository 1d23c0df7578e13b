//! The inputs of a thread that wait for their turns.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use windlass_protocol::EditQueuedInput;

use super::{Answer, Id, ok};
use crate::http::body::{Nothing, Payload};
use crate::http::path::Path;
use crate::http::request::Asked;

type Ids = Path<(String, String)>;

pub(super) async fn list(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.list_queue(&id).await?)
}

pub(super) async fn edit(
    asked: Asked,
    Path((id, turn)): Ids,
    body: Payload<EditQueuedInput>,
) -> Answer {
    ok(&asked.edit_queued(&id, &turn, body.0).await?)
}

pub(super) async fn remove(asked: Asked, Path((id, turn)): Ids, _: Nothing) -> Answer {
    asked.remove_queued(&id, &turn).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
