//! The registry of environments.

use axum::http::StatusCode;
use axum::response::IntoResponse;
use windlass_protocol::{CreateEnvironment, EnvironmentList};

use super::{Answer, Id, created, ok};
use crate::http::body::Payload;
use crate::http::path::Path;
use crate::http::request::Asked;

pub(super) async fn list(asked: Asked) -> Answer {
    let environments = asked.environments().to_vec();
    ok(&EnvironmentList { environments })
}

pub(super) async fn get(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.environment(&id)?)
}

pub(super) async fn create(asked: Asked, body: Payload<CreateEnvironment>) -> Answer {
    created(&asked.create_environment(body.0).await?)
}

pub(super) async fn delete(asked: Asked, Path(id): Id) -> Answer {
    asked.remove_environment(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
