//! Runs the attempts of jobs: each job has a thread whose ID is known in advance, and each attempt is a turn of it.

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::error::AgentLoopError;
use windlass_core::items::{ItemKind, TurnStatus, TurnView};
use windlass_jobs::{
    Assignment, EndedTurn, HeldTurn, Hold, HoldCause, JobError, JobSpec, TurnEnd, TurnOutcome,
    TurnRunner, WorkerSlot,
};
use windlass_protocol::{CreateThread, ErrorCode, StartTurn};
use windlass_runtime::{OnBusy, TurnHandle, TurnOptions};
use windlass_store::queries::TurnDetail;

use super::owner::owner_agent;
use crate::error::{ApiError, Result};
use crate::operations::RequestContext;
use crate::operations::threads::thread_record::params;
use crate::service::Service;

/// The recorded reason of a turn that was interrupted because its job was cancelled.
const CANCELLED: &str = "the job was cancelled";
/// The code of a turn that a budget stopped.
const BUDGET_EXCEEDED: &str = "budget_exceeded";

/// Runs attempts on threads of the daemon.
pub(crate) struct ThreadTurnRunner {
    app: Service,
}

/// Result of starting a turn.
enum StartOutcome {
    Started(TurnHandle),
    /// Another turn of the thread is open.
    Busy,
    /// The turn cannot start now.
    Held(Hold),
}

/// Why the wait for a turn ended.
enum TurnSignal {
    /// The turn has changed, or ended.
    Changed,
    /// The thread's actor stopped; the turn is open.
    Lost(AgentLoopError),
    /// The thread was removed.
    Removed,
}

impl ThreadTurnRunner {
    pub(crate) fn new(app: &Service) -> Self {
        Self {
            app: Service::clone(app),
        }
    }
}

#[async_trait]
impl TurnRunner for ThreadTurnRunner {
    async fn run_attempt(
        &self,
        work: Assignment,
        stop: CancellationToken,
        slot: WorkerSlot,
    ) -> TurnEnd {
        let end = self.follow_attempt(&work, &stop, &slot).await;
        end.unwrap_or_else(|error| TurnEnd::Held(hold(&error, HeldTurn::MayBeOpen)))
    }
}

impl ThreadTurnRunner {
    /// Reads the state of the attempt's turn after each change, and starts the turn if there is none. After an error, the turn may or may not
    /// exist.
    async fn follow_attempt(
        &self,
        work: &Assignment,
        stop: &CancellationToken,
        slot: &WorkerSlot,
    ) -> Result<TurnEnd> {
        let (app, stream) = (&self.app, work.thread_id.into());
        let mut head = app.runtime.journal().watch(&stream).await?;
        let mut is_interrupted = false;
        loop {
            head.borrow_and_update();
            let turn = app.queries.turn(&stream, work.turn_id).await?;
            let handle = match turn {
                Some(turn) if turn.view.is_ended() => return self.recorded_end(work).await,
                // A cancelled turn ends even if its model or environment is missing now.
                Some(_) if stop.is_cancelled() && !is_interrupted => {
                    is_interrupted = true;
                    interrupt(app, work).await?;
                    continue;
                }
                Some(_) => {
                    let open = app.runtime.resume_open_turn(work.thread_id).await?;
                    open.filter(|open| open.turn_id() == work.turn_id)
                }
                None if stop.is_cancelled() => return Ok(refused(CANCELLED)),
                None => match self.start_turn_of_job(work).await {
                    Ok(StartOutcome::Started(handle)) => Some(handle),
                    Ok(StartOutcome::Busy) => None,
                    Ok(StartOutcome::Held(hold)) => return Ok(TurnEnd::Held(hold)),
                    Err(error) => return Ok(failed_start(&error)),
                },
            };
            if handle.is_some() {
                slot.unpark();
            }
            tokio::select! {
                signal = wait(handle, &mut head, slot) => match signal {
                    TurnSignal::Changed => {}
                    TurnSignal::Lost(error) => return Err(error.into()),
                    TurnSignal::Removed => return Ok(refused("the thread was removed")),
                },
                () = stop.cancelled(), if !is_interrupted => {}
            }
        }
    }

    /// Starts the turn, and creates the thread if it does not exist.
    async fn start_turn_of_job(&self, work: &Assignment) -> Result<StartOutcome> {
        let app = &self.app;
        let ctx = RequestContext::new(app.owner_as_caller(&work.owner)?);
        app.check_serving()?;
        let agent = owner_agent(&work.owner);
        if let Some(refusal) = app.runtime.day_budget_refusal(agent).await? {
            return Ok(StartOutcome::Held(Hold {
                cause: HoldCause::Budget,
                reason: refusal.to_string(),
                until: Some(refusal.renews_at),
                turn: HeldTurn::NotBegun,
            }));
        }
        let prompt = &work.spec.prompt;
        let input = match app.look_up(work.thread_id).await? {
            Some(found) => app.input(&ctx, &found.record, prompt, StartTurn::default())?,
            None => {
                let request = CreateThread {
                    task_id: Some(work.task.clone()),
                    ..thread_request(&work.spec)?
                };
                let draft = app.draft(&ctx, request)?;
                let input = app.input(&ctx, &draft, prompt, StartTurn::default())?;
                app.open_thread_as(&ctx, work.thread_id, draft).await?;
                input
            }
        };
        let options = TurnOptions {
            on_busy: OnBusy::Refuse,
            turn_id: Some(work.turn_id),
            ..TurnOptions::default()
        };
        let submitted = app.runtime.submit_with(work.thread_id, input, options);
        match submitted.await {
            Ok(handle) => Ok(StartOutcome::Started(handle)),
            Err(AgentLoopError::TurnBusy { .. } | AgentLoopError::TurnWaiting { .. }) => {
                Ok(StartOutcome::Busy)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads the recorded end of the turn: the only source of [`TurnEnd::Ended`].
    async fn recorded_end(&self, work: &Assignment) -> Result<TurnEnd> {
        let stream = work.thread_id.into();
        let detail = self.app.queries.turn_detail(&stream, work.turn_id).await?;
        let detail = detail.ok_or_else(ApiError::turn_not_found)?;
        let view = &detail.row.view;
        let error = || view.error.clone().unwrap_or_default();
        let outcome = match view.status {
            TurnStatus::InProgress => return Err(ApiError::turn_active(view.id)),
            TurnStatus::Completed => TurnOutcome::Completed {
                summary: last_message(&detail),
            },
            TurnStatus::Failed => TurnOutcome::Failed {
                error: error(),
                budget_renews_at: self.budget_renews_at(work, view).await?,
            },
            TurnStatus::Interrupted => TurnOutcome::Interrupted { reason: error() },
        };
        Ok(TurnEnd::Ended(EndedTurn {
            outcome,
            unapproved: view.unapproved,
        }))
    }

    /// Returns the time at which the budget that stopped a turn renews; `None` if something else stopped it. The limits of a turn and its thread
    /// never renew.
    async fn budget_renews_at(
        &self,
        work: &Assignment,
        view: &TurnView,
    ) -> Result<Option<DateTime<Utc>>> {
        if view.error_code.as_deref() != Some(BUDGET_EXCEEDED) {
            return Ok(None);
        }
        // The end may be read after midnight, when the budget of that day no longer refuses anything.
        let Some(ended_at) = view.ended_at else {
            return Ok(None);
        };
        let owner = owner_agent(&work.owner);
        let refusal = self.app.runtime.day_budget_refusal_at(owner, ended_at);
        Ok(refusal.await?.map(|refusal| refusal.renews_at))
    }
}

/// Waits for a change of the turn. A parked turn occupies no worker meanwhile.
async fn wait(
    handle: Option<TurnHandle>,
    head: &mut watch::Receiver<u64>,
    slot: &WorkerSlot,
) -> TurnSignal {
    if let Some(handle) = handle {
        match handle.wait().await {
            Ok(result) if result.waiting_for.is_none() => return TurnSignal::Changed,
            Ok(_) => {}
            Err(error) => return TurnSignal::Lost(error),
        }
    }
    // The turn waits for a client or for another turn; either ends with a record.
    slot.park();
    match head.changed().await {
        Ok(()) => TurnSignal::Changed,
        Err(_) => TurnSignal::Removed,
    }
}

/// Interrupts the turn of an attempt, unless it has ended or never started.
async fn interrupt(app: &Service, work: &Assignment) -> Result<(), AgentLoopError> {
    let (runtime, reason) = (&app.runtime, Some(CANCELLED.to_owned()));
    let interrupted = runtime.interrupt(work.thread_id, Some(work.turn_id), reason);
    match interrupted.await {
        Err(
            AgentLoopError::NoActiveTurn(_)
            | AgentLoopError::TurnNotFound { .. }
            | AgentLoopError::SessionNotFound(_),
        ) => Ok(()),
        other => other,
    }
}

/// Interrupts the open turns of cancelled jobs, before any turn of a previous process resumes.
pub(crate) async fn interrupt_cancelled(app: &Service) -> Result<(), JobError> {
    let Some(jobs) = &app.jobs else {
        return Ok(());
    };
    let mut attempts = jobs.tasks.cancelled_attempts().await?;
    attempts.extend(jobs.fleet.cancelled_attempts().await?);
    for attempt in attempts {
        if let Err(error) = interrupt(app, &attempt).await {
            tracing::error!(job = attempt.task, %error, "the turn of a cancelled job cannot be interrupted now");
        }
    }
    Ok(())
}

/// Returns the agent's last message.
fn last_message(TurnDetail { row, log, .. }: &TurnDetail) -> String {
    log.items_of(row.view.id)
        .filter(|item| item.kind == ItemKind::AgentMessage)
        .last()
        .map(|item| item.detail().into_owned())
        .unwrap_or_default()
}

fn refused(error: impl ToString) -> TurnEnd {
    let error = error.to_string();
    TurnEnd::Refused { error }
}

/// Decides whether a turn that could not start is refused or held. A job is validated when it is queued, so a model, a backend or a directory that is
/// missing now existed then and may exist again.
fn failed_start(error: &ApiError) -> TurnEnd {
    match error.code() {
        // This daemon never works in a directory outside its workspace.
        ErrorCode::Forbidden
        | ErrorCode::CwdOutsideRoot
        | ErrorCode::InvalidToolSpec
        | ErrorCode::ToolNameTaken => refused(error),
        ErrorCode::InvalidField if !matches!(error.pointer(), Some("/model" | "/backend")) => {
            refused(error)
        }
        ErrorCode::InvalidField
        | ErrorCode::NotConfigured
        | ErrorCode::EnvironmentNotFound
        | ErrorCode::CwdNotFound
        | ErrorCode::LimitReached
        | ErrorCode::BudgetExceeded
        | ErrorCode::TokensUnavailable => TurnEnd::Held(hold(error, HeldTurn::NotBegun)),
        _ => TurnEnd::Held(hold(error, HeldTurn::MayBeOpen)),
    }
}

fn hold(error: &ApiError, turn: HeldTurn) -> Hold {
    Hold {
        cause: match error.code() {
            ErrorCode::LimitReached => HoldCause::NoRoom,
            ErrorCode::BudgetExceeded => HoldCause::Budget,
            ErrorCode::NotConfigured | ErrorCode::InvalidField => HoldCause::Configuration,
            ErrorCode::EnvironmentNotFound | ErrorCode::CwdNotFound => HoldCause::Environment,
            ErrorCode::TokensUnavailable => HoldCause::Token,
            ErrorCode::StoreUnavailable => HoldCause::Store,
            ErrorCode::ShuttingDown => HoldCause::Shutdown,
            _ => HoldCause::Fault,
        },
        reason: error.message().to_owned(),
        until: None,
        turn,
    }
}

/// Returns the request for the thread of a job, as a client would send it.
pub(crate) fn thread_request(spec: &JobSpec) -> Result<CreateThread> {
    let policy = params(&spec.policy);
    let policy = policy.map_err(|error| ApiError::field("/mode", error.to_string()))?;
    let thread = CreateThread {
        workspace: spec.workspace.clone(),
        ..CreateThread::default()
    };
    Ok(thread.with_policy(&policy))
}
