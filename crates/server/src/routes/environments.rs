//! The registry of environments.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use windlass_protocol::{CreateEnvironment, Environment, EnvironmentList, ErrorCode};
use windlass_store::queries::{ThreadQuery, ThreadState};

use super::{Answer, json, ok};
use crate::app::Shared;
use crate::environments::{LOCAL, checked, for_tools, not_found};
use crate::error::ApiError;
use crate::http::body::Payload;
use crate::http::scope;

pub(super) async fn list(State(app): State<Shared>) -> Answer {
    let environments = app.environments().to_vec();
    ok(&EnvironmentList { environments })
}

pub(super) async fn get(State(app): State<Shared>, Path(id): Path<String>) -> Answer {
    ok(&app.environment(&id)?)
}

pub(super) async fn create(
    State(app): State<Shared>,
    Payload(request): Payload<CreateEnvironment>,
) -> Answer {
    let environment = checked(request)?;
    app.refuse_hidden(&environment.root)?;
    let is_new = environment.id != LOCAL && app.store.add_environment(environment.clone()).await?;
    if !is_new {
        // What the same request has made is what it asked for, though its answer was lost.
        let made = app.environment(&environment.id)?;
        if scope::repeatable().is_some() && is_alike(&made, &environment) {
            return json(StatusCode::CREATED, &made);
        }
        return Err(ApiError::new(
            ErrorCode::EnvironmentExists,
            "an environment of this id exists",
        ));
    }
    app.settings.environments.put(for_tools(&environment));
    app.reload_environments().await?;
    json(StatusCode::CREATED, &environment)
}

fn is_alike(one: &Environment, other: &Environment) -> bool {
    let other = Environment {
        created_at: one.created_at.clone(),
        ..other.clone()
    };
    *one == other
}

pub(super) async fn delete(State(app): State<Shared>, Path(id): Path<String>) -> Answer {
    if id == LOCAL {
        return Err(ApiError::new(
            ErrorCode::EnvironmentProtected,
            "the environment `local` cannot be removed",
        ));
    }
    app.environment(&id)?;
    let at_work = ThreadQuery {
        states: vec![ThreadState::Running, ThreadState::Waiting],
        ..ThreadQuery::first(usize::MAX)
    };
    let at_work = app.queries.threads(at_work).await?.entries.into_iter();
    let mut environments = at_work.filter_map(|thread| thread.latest?.environment);
    if environments.any(|environment| environment.environment_id == id) {
        return Err(ApiError::new(
            ErrorCode::EnvironmentInUse,
            "a turn works in the environment",
        ));
    }
    match app.store.remove_environment(&id).await? {
        true => {
            app.settings.environments.remove(&id);
            app.reload_environments().await?;
            Ok(StatusCode::NO_CONTENT.into_response())
        }
        false => Err(not_found()),
    }
}
