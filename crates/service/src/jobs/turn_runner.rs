//! Runs the attempts of jobs: a thread under an id that is known before, and a turn of it for each attempt.

use crate::operations::thread_record::params;
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

use super::owner::agent_of;
use crate::error::{ApiError, Result};
use crate::operations::RequestContext;
use crate::service::Service;

/// The recorded reason of a turn that was interrupted because its job was cancelled.
const CANCELLED_BY_CALL: &str = "the work was called off";
/// The code of a turn that a budget stopped.
const BUDGET_EXCEEDED: &str = "budget_exceeded";

/// Runs attempts on threads of the daemon.
pub(crate) struct ThreadTurnRunner {
    app: Service,
}

/// What became of the start of a turn.
enum Begun {
    Turn(TurnHandle),
    /// Another turn of the thread is in its way.
    Busy,
    /// It cannot start now.
    Held(Hold),
}

/// Why an attempt stopped to wait for its turn.
enum Woken {
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
    /// Reads the status of the attempt's turn, starts the turn where there is none, and looks again at each change. An error leaves
    /// open whether there is a turn.
    async fn follow_attempt(
        &self,
        work: &Assignment,
        stop: &CancellationToken,
        slot: &WorkerSlot,
    ) -> Result<TurnEnd> {
        let (app, stream) = (&self.app, work.thread_id.into());
        let bell = app.runtime.journal().watch(&stream).await;
        let mut bell = bell.map_err(|error| AgentLoopError::StoreUnavailable(error.to_string()))?;
        let mut is_told = false;
        loop {
            bell.borrow_and_update();
            let turn = app.queries.turn(&stream, work.turn_id).await?;
            let handle = match turn {
                Some(turn) if turn.view.is_ended() => return self.recorded_end(work).await,
                // The end of a cancelled turn needs nothing that may be missing.
                Some(_) if stop.is_cancelled() && !is_told => {
                    is_told = true;
                    interrupt(app, work).await?;
                    continue;
                }
                Some(_) => {
                    let open = app.runtime.resume_open_turn(work.thread_id).await?;
                    open.filter(|open| open.turn_id() == work.turn_id)
                }
                None if stop.is_cancelled() => {
                    let error = CANCELLED_BY_CALL.to_owned();
                    return Ok(TurnEnd::Refused { error });
                }
                None => match self.begin(work).await {
                    Ok(Begun::Turn(handle)) => Some(handle),
                    Ok(Begun::Busy) => None,
                    Ok(Begun::Held(hold)) => return Ok(TurnEnd::Held(hold)),
                    Err(error) => return Ok(not_begun(&error)),
                },
            };
            if handle.is_some() {
                slot.go_on();
            }
            tokio::select! {
                woken = wait(handle, &mut bell, slot) => match woken {
                    Woken::Changed => {}
                    Woken::Lost(error) => return Err(error.into()),
                    Woken::Removed => {
                        let error = "the thread was removed".to_owned();
                        return Ok(TurnEnd::Refused { error });
                    }
                },
                () = stop.cancelled(), if !is_told => {}
            }
        }
    }

    /// Starts the turn, on a new thread where there is none.
    async fn begin(&self, work: &Assignment) -> Result<Begun> {
        let app = &self.app;
        let context = RequestContext::new(app.caller_of(&work.owner)?);
        app.check_serving()?;
        if let Some(refusal) = app
            .runtime
            .day_budget_refusal(agent_of(&work.owner))
            .await?
        {
            return Ok(Begun::Held(Hold {
                cause: HoldCause::Budget,
                reason: refusal.to_string(),
                until: Some(refusal.renews_at),
                turn: HeldTurn::NotBegun,
            }));
        }
        let prompt = &work.spec.prompt;
        let input = match app.look_up(work.thread_id).await? {
            Some(found) => app.input(&context, &found.record, prompt, StartTurn::default())?,
            None => {
                let wanted = CreateThread {
                    task_id: Some(work.task.clone()),
                    ..thread_for(&work.spec)?
                };
                let draft = app.draft(&context, wanted)?;
                let input = app.input(&context, &draft, prompt, StartTurn::default())?;
                app.open_thread_as(&context, work.thread_id, draft).await?;
                input
            }
        };
        let options = TurnOptions {
            on_busy: OnBusy::Refuse,
            turn_id: Some(work.turn_id),
            ..TurnOptions::default()
        };
        let begun = app.runtime.submit_with(work.thread_id, input, options);
        match begun.await {
            Ok(handle) => Ok(Begun::Turn(handle)),
            Err(AgentLoopError::TurnBusy { .. } | AgentLoopError::TurnWaiting { .. }) => {
                Ok(Begun::Busy)
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Reads how the turn ended: the only source of [`TurnEnd::Ended`].
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

    /// Returns when the budget renews that stopped a turn; `None` where something else stopped it. The limits of the turn and its
    /// thread never renew.
    async fn budget_renews_at(
        &self,
        work: &Assignment,
        view: &TurnView,
    ) -> Result<Option<DateTime<Utc>>> {
        if view.error_code.as_deref() != Some(BUDGET_EXCEEDED) {
            return Ok(None);
        }
        let refusal = self.app.runtime.day_budget_refusal(agent_of(&work.owner));
        Ok(refusal.await?.map(|refusal| refusal.renews_at))
    }
}

/// Waits until something has happened to the turn. A turn that waits itself needs no worker meanwhile.
async fn wait(
    handle: Option<TurnHandle>,
    bell: &mut watch::Receiver<u64>,
    slot: &WorkerSlot,
) -> Woken {
    if let Some(handle) = handle {
        match handle.wait().await {
            Ok(result) if result.waiting_for.is_none() => return Woken::Changed,
            Ok(_) => {}
            Err(error) => return Woken::Lost(error),
        }
    }
    // It waits for a client, or for another turn: that changes with a record.
    slot.park();
    match bell.changed().await {
        Ok(()) => Woken::Changed,
        Err(_) => Woken::Removed,
    }
}

/// Interrupts the turn of an attempt. One that has ended, or never began, is left alone.
async fn interrupt(app: &Service, work: &Assignment) -> Result<(), AgentLoopError> {
    let reason = Some(CANCELLED_BY_CALL.to_owned());
    let interrupted = app
        .runtime
        .interrupt(work.thread_id, Some(work.turn_id), reason);
    match interrupted.await {
        Err(
            AgentLoopError::NoActiveTurn(_)
            | AgentLoopError::TurnNotFound { .. }
            | AgentLoopError::SessionNotFound(_),
        ) => Ok(()),
        other => other,
    }
}

/// Interrupts the open turns of cancelled jobs, before any turn of an earlier process resumes.
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
    let said = log.items_of(row.view.id);
    let said = said.filter(|item| item.kind == ItemKind::AgentMessage);
    said.last()
        .map(|item| item.detail().into_owned())
        .unwrap_or_default()
}

/// What follows when a turn could not start. A job is checked when it is queued, so a model, a backend or a directory that is
/// missing now was there then, and may be there again.
fn not_begun(error: &ApiError) -> TurnEnd {
    match error.code() {
        // A directory outside of the workspace is not this daemon's to work in, whatever is there later.
        ErrorCode::Forbidden
        | ErrorCode::CwdOutsideRoot
        | ErrorCode::InvalidToolSpec
        | ErrorCode::ToolNameTaken => {
            let error = error.to_string();
            TurnEnd::Refused { error }
        }
        ErrorCode::InvalidField if !matches!(error.pointer(), Some("/model" | "/backend")) => {
            let error = error.to_string();
            TurnEnd::Refused { error }
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

/// Says what thread work asks for, as a client would.
pub(crate) fn thread_for(spec: &JobSpec) -> Result<CreateThread> {
    let policy = params(&spec.policy);
    let policy = policy.map_err(|error| ApiError::field("/mode", error.to_string()))?;
    let thread = CreateThread {
        workspace: spec.workspace.clone(),
        ..CreateThread::default()
    };
    Ok(thread.with_policy(&policy))
}
