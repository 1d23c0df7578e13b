//! The events of a run: its records in their wire format.

use std::collections::VecDeque;

use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_jobs::fleet::{FleetEvent, FleetHistory, FleetRecord, ReleaseCause, WorkerCommand};
use windlass_jobs::{Fleet, FleetRun};
use windlass_protocol::api::{CallFuture, Parts, ResponseStream};
use windlass_protocol::fleet as wire;
use windlass_protocol::operations::FleetEventsQuery;

use super::show;
use crate::ids;
use crate::limits::subscribers::Subscriber;
use crate::operations::prelude::*;

/// Default and maximum number of events per response.
const DEFAULT_EVENTS: usize = 250;
const MAX_EVENTS: usize = 1_000;

fn sequence(cursor: Option<&str>) -> Result<u64> {
    let invalid = |_| ApiError::query("after is not the cursor of an event");
    cursor.unwrap_or("0").parse().map_err(invalid)
}

/// Converts a record to an event; `None` if clients do not need it.
fn event(run: &FleetRun, record: &FleetRecord) -> Option<wire::FleetRunEvent> {
    let worker_id = |worker: &usize| {
        let spec = run.plan.workers.get(*worker)?;
        Some(super::worker_id(run.id, &spec.worker_id))
    };
    let task_id = |task: &usize| Some(run.plan.tasks.get(*task)?.task_id.clone());
    let mut shown = wire::FleetRunEvent {
        cursor: record.seq.to_string(),
        event: "fleet.run.status_changed".to_owned(),
        run_id: run.id.to_string(),
        worker_id: None,
        task_id: None,
        timestamp: ids::time(record.at),
        payload: json!({}),
    };
    match &record.event {
        FleetEvent::Created { plan, .. } => {
            shown.event = "fleet.run.created".to_owned();
            let (tasks, workers) = (plan.tasks.len(), plan.workers.len());
            shown.payload =
                json!({"name": plan.name, "task_count": tasks, "worker_count": workers});
        }
        FleetEvent::Started => shown.payload = json!({"status": "queued"}),
        FleetEvent::Leased {
            worker,
            task,
            attempt,
        } => {
            shown.event = "fleet.task.leased".to_owned();
            shown.worker_id = worker_id(worker);
            shown.task_id = task_id(task);
            shown.payload = json!({ "attempt": attempt });
        }
        FleetEvent::WorkerCommanded { worker, command } => {
            let event = match command {
                WorkerCommand::Interrupt => "fleet.worker.interrupted",
                WorkerCommand::Restart => "fleet.worker.restarted",
                WorkerCommand::Stop => return None,
            };
            shown.event = event.to_owned();
            shown.worker_id = worker_id(worker);
        }
        FleetEvent::Released {
            worker,
            cause,
            error,
            ..
        } => {
            let cause = match cause {
                ReleaseCause::Failure => "failure",
                ReleaseCause::Restart => "restart",
                ReleaseCause::NoRoom => "no_room",
                ReleaseCause::Held => "held",
                ReleaseCause::Budget => "budget",
            };
            shown.event = "fleet.task.enqueued".to_owned();
            shown.worker_id = worker_id(worker);
            shown.payload = json!({"cause": cause, "reason": error});
        }
        FleetEvent::TaskEnded {
            task,
            status,
            error,
            ..
        } => {
            shown.event = "fleet.task.terminal".to_owned();
            shown.task_id = task_id(task);
            shown.payload = json!({"status": show::task_status(*status), "reason": error});
        }
        FleetEvent::Stopped => shown.payload = json!({"status": "stopping"}),
        FleetEvent::Completed => {
            shown.payload = json!({"status": show::run_status(run.status())});
        }
    }
    Some(shown)
}

/// Converts records to events. The last event contains the outcome of the run, so a run that was still open is read again.
async fn events(
    fleet: &Fleet,
    run: &mut FleetRun,
    history: &FleetHistory,
) -> Result<Vec<wire::FleetRunEvent>> {
    if is_end(history) && run.completed_at.is_none() {
        *run = fleet.get(run.id).await?;
    }
    let records = history.records.iter();
    Ok(records.filter_map(|it| event(run, it)).collect())
}

fn is_end(history: &FleetHistory) -> bool {
    let last = history.records.last();
    last.is_some_and(|last| last.event == FleetEvent::Completed)
}

/// Follows a run to its end.
pub struct FleetFollower {
    fleet: Fleet,
    run: FleetRun,
    after: u64,
    limit: usize,
    changed: watch::Receiver<u64>,
    is_ended: bool,
    /// Events that were read and not returned yet.
    ready: VecDeque<wire::FleetRunEvent>,
    subscriber: Subscriber,
}

impl FleetFollower {
    /// Returns a token that is cancelled when the follower's token is revoked.
    #[must_use]
    pub fn revoked(&self) -> CancellationToken {
        self.subscriber.revoked().clone()
    }

    async fn read(&mut self) -> Result<(FleetHistory, Vec<wire::FleetRunEvent>)> {
        let history = self.fleet.history(&self.run, self.after, self.limit);
        let history = history.await?;
        let events = events(&self.fleet, &mut self.run, &history).await?;
        Ok((history, events))
    }

    /// Waits for the next event; `None` after the end of the run.
    pub async fn next_event(&mut self) -> Option<wire::FleetRunEvent> {
        if self.ready.is_empty() {
            self.ready = self.next_page().await?.into();
        }
        self.ready.pop_front()
    }

    async fn next_page(&mut self) -> Option<Vec<wire::FleetRunEvent>> {
        while !self.is_ended {
            self.changed.borrow_and_update();
            let read = self.read().await;
            let (history, events) = read
                .inspect_err(|error| tracing::warn!(%error, "events of a run cannot be read"))
                .ok()?;
            self.after = history.read_to;
            self.is_ended = is_end(&history);
            if !events.is_empty() {
                return Some(events);
            }
            if history.has_more || self.is_ended {
                continue;
            }
            // The run had ended before, and its last record was already returned.
            if self.run.completed_at.is_some() {
                return None;
            }
            self.changed.changed().await.ok()?;
        }
        None
    }
}

/// Returns the events of a run after a cursor.
impl Handle<op::ReplayFleetEvents> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::ReplayFleetEvents>,
    ) -> Result<wire::FleetEventReplay> {
        let limit = page_size(&call.query)?;
        let after = sequence(call.query.after.as_deref())?;
        let mut run = self.fleet_run(ctx, &call.path.run_id).await?;
        let fleet = self.fleet()?;
        let history = fleet.history(&run, after, limit).await?;
        Ok(wire::FleetEventReplay {
            run_id: run.id.to_string(),
            events: events(fleet, &mut run, &history).await?,
            has_more: history.has_more,
            history_truncated: history.is_pruned,
            next_cursor: Some(history.read_to.to_string()),
        })
    }
}

/// Validates the number of events per response.
fn page_size(query: &FleetEventsQuery) -> Result<usize> {
    let limit = query.limit.map_or(DEFAULT_EVENTS, saturated);
    if (1..=MAX_EVENTS).contains(&limit) {
        Ok(limit)
    } else {
        let text = format!("limit must be from 1 to {MAX_EVENTS}");
        Err(ApiError::query(text))
    }
}

impl Handle<op::StreamFleetEvents> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::StreamFleetEvents>,
    ) -> Result<ResponseStream<wire::FleetRunEvent>> {
        Ok(Box::new(self.follow_fleet_run(ctx, call).await?))
    }
}

impl Parts<wire::FleetRunEvent> for FleetFollower {
    fn next(&mut self) -> CallFuture<'_, Option<wire::FleetRunEvent>> {
        Box::pin(async { Ok(self.next_event().await) })
    }
}

impl Service {
    /// Follows a run from a cursor to its end.
    pub async fn follow_fleet_run(
        &self,
        ctx: &RequestContext,
        call: Call<op::StreamFleetEvents>,
    ) -> Result<FleetFollower> {
        let (id, limit) = (&call.path.run_id, page_size(&call.query)?);
        let after = sequence(call.query.after.as_deref())?;
        let run = self.fleet_run(ctx, id).await?;
        let fleet = self.fleet()?.clone();
        Ok(FleetFollower {
            changed: fleet.watch(),
            is_ended: false,
            ready: VecDeque::new(),
            fleet,
            run,
            after,
            limit,
            subscriber: Subscriber::take(self, &ctx.caller)?,
        })
    }
}
