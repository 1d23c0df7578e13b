//! The registry of environments.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use windlass_protocol::{CreateEnvironment, EnvironmentList};

use super::{Answer, json, ok};
use crate::app::Shared;
use crate::http::body::Payload;
use crate::service::Asked;

pub(super) async fn list(State(app): State<Shared>) -> Answer {
    let environments = app.environments().to_vec();
    ok(&EnvironmentList { environments })
}

pub(super) async fn get(State(app): State<Shared>, Path(id): Path<String>) -> Answer {
    ok(&app.environment(&id)?)
}

pub(super) async fn create(
    State(app): State<Shared>,
    asked: Asked,
    Payload(request): Payload<CreateEnvironment>,
) -> Answer {
    let made = app.create_environment(&asked, request).await?;
    json(StatusCode::CREATED, &made)
}

pub(super) async fn delete(State(app): State<Shared>, Path(id): Path<String>) -> Answer {
    app.remove_environment(&id).await?;
    Ok(StatusCode::NO_CONTENT.into_response())
}
