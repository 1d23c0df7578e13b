//! Handlers that read a request, call the service and write its response, one for each operation of the contract.

mod agent_runs;
mod apps;
mod automations;
mod config;
mod environments;
mod events;
mod fleet;
mod health;
mod openapi;
mod queue;
mod sessions;
mod snapshots;
mod stream;
mod table;
mod tasks;
mod threads;
mod turns;
mod usage;
mod workspace;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use axum::middleware::from_fn_with_state;
use axum::response::{IntoResponse, Response};
use futures_util::stream::try_unfold;
use serde::Serialize;
use tower_http::catch_panic::CatchPanicLayer;
use windlass_protocol::ErrorCode;
use windlass_protocol::operations as op;

use crate::app::Shared;
use windlass_service::ApiError;

use crate::error::{Refusal, Result};
use crate::http::path::Path;
use crate::http::request::Asked;
use crate::http::{auth, cors, idempotency, request, whole};
use windlass_service::DetailJson;

use table::Routes;
pub(crate) use table::required_scope;
pub(crate) use threads::NEXT_CURSOR;

/// The longest answer with items that is made in memory, in bytes.
const SHORT_BYTES: usize = 64 * 1024;

/// What a handler answers.
type Answer<T = Response> = Result<T, Refusal>;

/// Makes a JSON answer.
fn json(status: StatusCode, value: &impl Serialize) -> Answer {
    let body = serde_json::to_vec(value).map_err(ApiError::internal)?;
    let media = [("content-type", "application/json")];
    Ok((status, media, body).into_response())
}

fn ok(value: &impl Serialize) -> Answer {
    json(StatusCode::OK, value)
}

/// Answers with something that has items. What is short is made in memory; what is long takes one of the places of its token
/// and is written as fast as the client reads.
async fn with_items<F, M>(app: &Shared, asked: &Asked, make: M) -> Answer
where
    M: Fn() -> F,
    F: Future<Output = Result<DetailJson>>,
{
    let media = [("content-type", "application/json")];
    let composing = app.large_answers.compose().await;
    if let Some(whole) = make().await?.whole(SHORT_BYTES).await? {
        return Ok((media, whole).into_response());
    }
    drop(composing);
    let place = app.large_answers.take(app, &asked.caller).await?;
    let app = Shared::clone(app);
    let begun = (make().await?, place, app);
    let chunks = try_unfold(begun, |(mut detail, place, app)| async {
        let composing = app.large_answers.compose().await;
        let chunk = detail.next().await?;
        drop(composing);
        Ok::<_, ApiError>(chunk.map(|chunk| (chunk, (detail, place, app))))
    });
    Ok((media, Body::from_stream(chunks)).into_response())
}

fn created(value: &impl Serialize) -> Answer {
    json(StatusCode::CREATED, value)
}

fn accepted(value: &impl Serialize) -> Answer {
    json(StatusCode::ACCEPTED, value)
}

/// The id in a path.
type Id = Path<String>;

/// The handler of every operation.
fn routes() -> Routes {
    Routes::default()
        .add::<op::GetHealth, _, _>(health::health)
        .add::<op::GetReady, _, _>(health::ready)
        .add::<op::GetRuntimeInfo, _, _>(health::info)
        .add::<op::GetMetrics, _, _>(health::metrics)
        .add::<op::ListThreads, _, _>(threads::list)
        .add::<op::CreateThread, _, _>(threads::create)
        .add::<op::SummarizeThreads, _, _>(threads::summary)
        .add::<op::GetThread, _, _>(threads::detail)
        .add::<op::PatchThread, _, _>(threads::patch)
        .add::<op::DeleteThread, _, _>(threads::delete)
        .add::<op::GetThreadContext, _, _>(threads::context)
        .add::<op::ExportThread, _, _>(events::export)
        .add::<op::ResumeThread, _, _>(threads::resume)
        .add::<op::ForkThread, _, _>(threads::fork)
        .add::<op::UndoThread, _, _>(threads::undo)
        .add::<op::PatchUndoThread, _, _>(threads::patch_undo)
        .add::<op::RetryThread, _, _>(threads::retry)
        .add::<op::CompactThread, _, _>(threads::compact)
        .add::<op::ReplayThread, _, _>(threads::replay)
        .add::<op::StreamEvents, _, _>(events::events)
        .add::<op::StartTurn, _, _>(turns::start)
        .add::<op::GetTurn, _, _>(turns::detail)
        .add::<op::SteerTurn, _, _>(turns::steer)
        .add::<op::InterruptTurn, _, _>(turns::interrupt)
        .add::<op::ListQueue, _, _>(queue::list)
        .add::<op::EditQueuedInput, _, _>(queue::edit)
        .add::<op::RemoveQueuedInput, _, _>(queue::remove)
        .add::<op::SubmitToolResult, _, _>(turns::submit_result)
        .add::<op::CancelAgentRun, _, _>(agent_runs::cancel)
        .add::<op::NudgeAgentRuns, _, _>(agent_runs::nudge)
        .add::<op::ListSessions, _, _>(sessions::list)
        .add::<op::SaveSession, _, _>(sessions::save)
        .add::<op::UpdateSession, _, _>(sessions::update)
        .add::<op::SummarizeSessions, _, _>(sessions::summary)
        .add::<op::GetSession, _, _>(sessions::get)
        .add::<op::PatchSession, _, _>(sessions::patch)
        .add::<op::DeleteSession, _, _>(sessions::delete)
        .add::<op::GetSessionContext, _, _>(sessions::context)
        .add::<op::ResumeSession, _, _>(sessions::resume)
        .add::<op::ListSnapshots, _, _>(snapshots::list)
        .add::<op::RestoreSnapshot, _, _>(snapshots::restore)
        .add::<op::DecideApproval, _, _>(turns::decide)
        .add::<op::AnswerUserInput, _, _>(turns::answer_input)
        .add::<op::StreamOneTurn, _, _>(stream::one_shot)
        .add::<op::ListTasks, _, _>(tasks::list)
        .add::<op::CreateTask, _, _>(tasks::create)
        .add::<op::GetTask, _, _>(tasks::get)
        .add::<op::CancelTask, _, _>(tasks::cancel)
        .add::<op::ListAutomations, _, _>(automations::list)
        .add::<op::CreateAutomation, _, _>(automations::create)
        .add::<op::GetAutomation, _, _>(automations::get)
        .add::<op::PatchAutomation, _, _>(automations::patch)
        .add::<op::DeleteAutomation, _, _>(automations::delete)
        .add::<op::RunAutomation, _, _>(automations::run)
        .add::<op::PauseAutomation, _, _>(automations::pause)
        .add::<op::ResumeAutomation, _, _>(automations::resume)
        .add::<op::ListAutomationRuns, _, _>(automations::runs)
        .add::<op::GetUsage, _, _>(usage::usage)
        .add::<op::ListEnvironments, _, _>(environments::list)
        .add::<op::CreateEnvironment, _, _>(environments::create)
        .add::<op::GetEnvironment, _, _>(environments::get)
        .add::<op::DeleteEnvironment, _, _>(environments::delete)
        .add::<op::ListFleetRuns, _, _>(fleet::list)
        .add::<op::CreateFleetRun, _, _>(fleet::create)
        .add::<op::GetFleetRun, _, _>(fleet::get)
        .add::<op::StartFleetRun, _, _>(fleet::start)
        .add::<op::StopFleetRun, _, _>(fleet::stop)
        .add::<op::ListFleetWorkers, _, _>(fleet::workers)
        .add::<op::StreamFleetEvents, _, _>(fleet::events)
        .add::<op::ReplayFleetEvents, _, _>(fleet::replay)
        .add::<op::GetFleetWorker, _, _>(fleet::worker)
        .add::<op::InterruptFleetWorker, _, _>(fleet::interrupt)
        .add::<op::StopFleetWorker, _, _>(fleet::stop_worker)
        .add::<op::RestartFleetWorker, _, _>(fleet::restart)
        .add::<op::ListAgentRuns, _, _>(agent_runs::list)
        .add::<op::GetAgentRun, _, _>(agent_runs::get)
        .add::<op::GetConfig, _, _>(config::get)
        .add::<op::SetConfig, _, _>(config::set)
        .add::<op::ReloadConfig, _, _>(config::reload)
        .add::<op::ListModels, _, _>(config::current_models)
        .add::<op::ListProviders, _, _>(config::providers)
        .add::<op::ListProviderModels, _, _>(config::models)
        .add::<op::SwitchProvider, _, _>(config::switch)
        .add::<op::ListSkills, _, _>(apps::skills)
        .add::<op::SwitchSkill, _, _>(apps::switch_skill)
        .add::<op::ListMcpServers, _, _>(apps::servers)
        .add::<op::ListMcpTools, _, _>(apps::tools)
        .add::<op::GetOpenapi, _, _>(openapi::openapi)
        .add::<op::GetWorkspaceStatus, _, _>(workspace::status)
}

/// Builds the router with the layers that every request passes.
pub(crate) fn router(app: &Shared) -> Router {
    let routes = routes().into_router();
    // The last one is passed first.
    routes
        .fallback(unknown_path)
        .method_not_allowed_fallback(wrong_method)
        .layer(from_fn_with_state(Shared::clone(app), idempotency::check))
        .layer(from_fn_with_state(Shared::clone(app), auth::check))
        .layer(CatchPanicLayer::custom(panicked))
        .layer(cors::layer(&app.service.settings))
        .layer(from_fn_with_state(Shared::clone(app), request::enter))
        .layer(from_fn_with_state(Shared::clone(app), whole::carry))
        .with_state(Shared::clone(app))
}

async fn unknown_path() -> Refusal {
    Refusal(ApiError::new(
        ErrorCode::UnknownPath,
        "there is no such route",
    ))
}

async fn wrong_method() -> Refusal {
    let text = "the route does not serve this method";
    Refusal(ApiError::new(ErrorCode::MethodNotAllowed, text))
}

fn panicked(panic: Box<dyn std::any::Any + Send>) -> Response {
    let text = panic
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| panic.downcast_ref::<&str>().copied());
    Refusal(ApiError::internal(text.unwrap_or("a panic without words"))).into_response()
}
