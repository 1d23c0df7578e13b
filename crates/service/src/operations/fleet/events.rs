//! The events of a run: its records in their wire format.

use std::collections::VecDeque;

use serde_json::{Value, json};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_jobs::fleet::{FleetEvent, FleetHistory, FleetRecord, ReleaseCause, WorkerCommand};
use windlass_jobs::{Fleet, FleetRun, JobError};
use windlass_protocol::api::{Call, CallFuture, Parts, Stream};
use windlass_protocol::fleet as wire;
use windlass_protocol::operations::{self as op, FleetEventsQuery};

use super::{show, worker_id};
use crate::error::{ApiError, Result};
use crate::handle::Handle;
use crate::ids;
use crate::operations::{RequestContext, saturated};
use crate::service::Service;
use crate::subscribers::Subscriber;

/// Default and maximum number of events per response.
const DEFAULT_EVENTS: usize = 250;
const MAX_EVENTS: usize = 1_000;

fn number(cursor: Option<&str>) -> Result<u64> {
    let Some(cursor) = cursor else {
        return Ok(0);
    };
    let number = cursor.parse().ok();
    number.ok_or_else(|| ApiError::query("after is not the cursor of an event"))
}

/// Converts a record to an event; `None` if it is not relevant to clients.
fn event(run: &FleetRun, record: &FleetRecord) -> Option<wire::FleetRunEvent> {
    let of_worker = |worker: &usize| {
        let spec = run.plan.workers.get(*worker)?;
        Some(worker_id(run.id, &spec.worker_id))
    };
    let of_task = |task: &usize| Some(run.plan.tasks.get(*task)?.task_id.clone());
    let changed = |status: &str| {
        (
            "fleet.run.status_changed",
            None,
            None,
            json!({"status": status}),
        )
    };
    let (name, worker_id, task_id, payload): (&str, Option<String>, Option<String>, Value) =
        match &record.event {
            FleetEvent::Created { plan, .. } => {
                let (tasks, workers) = (plan.tasks.len(), plan.workers.len());
                let payload =
                    json!({"name": plan.name, "task_count": tasks, "worker_count": workers});
                ("fleet.run.created", None, None, payload)
            }
            FleetEvent::Started => changed("queued"),
            FleetEvent::Leased {
                worker,
                task,
                attempt,
            } => {
                let payload = json!({ "attempt": attempt });
                (
                    "fleet.task.leased",
                    of_worker(worker),
                    of_task(task),
                    payload,
                )
            }
            FleetEvent::WorkerCommanded { worker, command } => {
                let name = match command {
                    WorkerCommand::Interrupt => "fleet.worker.interrupted",
                    WorkerCommand::Restart => "fleet.worker.restarted",
                    WorkerCommand::Stop => return None,
                };
                (name, of_worker(worker), None, json!({}))
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
                let payload = json!({"cause": cause, "reason": error});
                ("fleet.task.enqueued", of_worker(worker), None, payload)
            }
            FleetEvent::TaskEnded {
                task,
                status,
                error,
                ..
            } => {
                let status = show::task_status(*status);
                let payload = json!({"status": status, "reason": error});
                ("fleet.task.terminal", None, of_task(task), payload)
            }
            FleetEvent::Stopped => changed("stopping"),
            FleetEvent::Completed => {
                let payload = json!({"status": show::run_status(run.status())});
                ("fleet.run.status_changed", None, None, payload)
            }
        };
    Some(wire::FleetRunEvent {
        cursor: record.seq.to_string(),
        event: name.to_owned(),
        run_id: run.id.to_string(),
        worker_id,
        task_id,
        timestamp: ids::time(record.at),
        payload,
    })
}

/// Converts records to events. The last event contains the outcome of the run, so a run that was still open is read again.
async fn events(
    fleet: &Fleet,
    run: &mut FleetRun,
    history: &FleetHistory,
) -> std::result::Result<Vec<wire::FleetRunEvent>, JobError> {
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
    place: Subscriber,
}

impl FleetFollower {
    /// Returns a token that is cancelled when the follower's token is revoked.
    #[must_use]
    pub fn revoked(&self) -> CancellationToken {
        self.place.revoked().clone()
    }

    async fn read(
        &mut self,
    ) -> std::result::Result<(FleetHistory, Vec<wire::FleetRunEvent>), JobError> {
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
            match history.has_more || self.is_ended {
                true => {}
                // The run had ended before, and its last record was already returned.
                false if self.run.completed_at.is_some() => return None,
                false => self.changed.changed().await.ok()?,
            }
        }
        None
    }
}

/// Returns the events of a run after a cursor.
impl Handle<op::ReplayFleetEvents> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::ReplayFleetEvents>,
    ) -> Result<wire::FleetEventReplay> {
        let id = &call.path.run_id;
        let after = call.query.after.as_deref();
        let limit = page_size(&call.query)?;
        let after = number(after)?;
        let mut run = self.fleet_run(context, id).await?;
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
        Err(ApiError::query(format!(
            "limit must be from 1 to {MAX_EVENTS}"
        )))
    }
}

impl Handle<op::StreamFleetEvents> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::StreamFleetEvents>,
    ) -> Result<Stream<wire::FleetRunEvent>> {
        Ok(Box::new(self.follow_fleet_run(context, call).await?))
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
        context: &RequestContext,
        call: Call<op::StreamFleetEvents>,
    ) -> Result<FleetFollower> {
        let (id, limit) = (&call.path.run_id, page_size(&call.query)?);
        let after = number(call.query.after.as_deref())?;
        let run = self.fleet_run(context, id).await?;
        let fleet = self.fleet()?.clone();
        Ok(FleetFollower {
            changed: fleet.watch(),
            is_ended: false,
            ready: VecDeque::new(),
            fleet,
            run,
            after,
            limit,
            place: Subscriber::take(self, &context.caller)?,
        })
    }
}
