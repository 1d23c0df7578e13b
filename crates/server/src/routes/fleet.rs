//! Runs of the fleet and their workers.

use windlass_protocol::fleet::CreateFleetRun;

use super::{Answer, Id, accepted, created, ok};
use windlass_service::ApiError;

use crate::error::Result;
use crate::http::body::{Nothing, Payload};
use crate::http::outflow::Outflow;
use crate::http::path::Path;
use crate::http::query::Query;
use crate::http::request::Asked;
use crate::sse;
use windlass_service::WorkerAction;

/// How many runs are listed when nobody says, and at most.
const DEFAULT_LIMIT: usize = 50;
const MAX_LIMIT: usize = 100;
/// How many events are told at once when nobody says, and at most.
const DEFAULT_EVENTS: usize = 250;
const MAX_EVENTS: usize = 1_000;

pub(super) async fn list(asked: Asked, query: Query) -> Answer {
    let limit = query.get("limit")?.unwrap_or(DEFAULT_LIMIT);
    let before = query.text("before");
    ok(&asked
        .list_fleet_runs(before, limit.clamp(1, MAX_LIMIT))
        .await?)
}

pub(super) async fn create(asked: Asked, body: Payload<CreateFleetRun>) -> Answer {
    let Payload(request, unknown) = body;
    // An unknown field may be meant to limit something. A retry policy limits nothing and may have more.
    unknown.refuse(&["retry_policy"])?;
    created(&asked.create_fleet_run(request).await?)
}

pub(super) async fn get(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.fleet_run_detail(&id).await?)
}

pub(super) async fn start(asked: Asked, Path(id): Id, _: Nothing) -> Answer {
    accepted(&asked.start_fleet_run(&id).await?)
}

pub(super) async fn stop(asked: Asked, Path(id): Id, _: Nothing) -> Answer {
    ok(&asked.stop_fleet_run(&id).await?)
}

pub(super) async fn workers(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.fleet_workers(&id).await?)
}

pub(super) async fn worker(asked: Asked, Path(id): Id) -> Answer {
    ok(&asked.fleet_worker(&id).await?)
}

pub(super) async fn interrupt(asked: Asked, Path(id): Id, _: Nothing) -> Answer {
    ok(&asked.tell_worker(&id, WorkerAction::Interrupt).await?)
}

pub(super) async fn stop_worker(asked: Asked, Path(id): Id, _: Nothing) -> Answer {
    ok(&asked.tell_worker(&id, WorkerAction::Stop).await?)
}

pub(super) async fn restart(asked: Asked, Path(id): Id, _: Nothing) -> Answer {
    ok(&asked.tell_worker(&id, WorkerAction::Restart).await?)
}

pub(super) async fn replay(asked: Asked, Path(id): Id, query: Query) -> Answer {
    let (after, limit) = wanted(&query)?;
    ok(&asked.fleet_events(&id, after, limit).await?)
}

pub(super) async fn events(asked: Asked, Path(id): Id, query: Query, outflow: Outflow) -> Answer {
    let (after, limit) = wanted(&query)?;
    let mut follower = asked.follow_fleet_run(&id, after, limit).await?;
    let (frames, response) = sse::channel(outflow);
    let stopping = asked.stopping.clone();
    let revoked = follower.revoked();
    tokio::spawn(async move {
        let telling = async {
            while let Some(events) = follower.next().await {
                for event in events {
                    let frame = windlass_service::frame(Some(&event.cursor), &event.event, &event);
                    frames.send(frame.into()).await?;
                }
            }
            Ok(())
        };
        tokio::select! {
            () = sse::until_stopped(&frames, &stopping, telling) => {}
            () = revoked.cancelled() => {}
        }
    });
    Ok(response)
}

/// Reads behind which event to go on, and how many are wanted at once.
fn wanted(query: &Query) -> Result<(Option<&str>, usize)> {
    let limit = query.get("limit")?.unwrap_or(DEFAULT_EVENTS);
    match (1..=MAX_EVENTS).contains(&limit) {
        true => Ok((query.text("after"), limit)),
        false => Err(ApiError::query(format!(
            "limit must be from 1 to {MAX_EVENTS}"
        ))),
    }
}
