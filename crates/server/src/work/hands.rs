//! Carries work out: a thread under an id that is known before, and a turn of it for each attempt.

use async_trait::async_trait;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use windlass_core::error::AgentLoopError;
use windlass_core::items::{ItemKind, TurnStatus};
use windlass_protocol::{CreateThread, ErrorCode, Mode, StartTurn};
use windlass_runtime::{OnBusy, StopReason, TurnHandle, TurnOptions, TurnResult};
use windlass_store::queries::TurnDetail;
use windlass_work::{Assignment, Hands, TurnEnd, WorkSpec, WorkerSlot};

use crate::app::Shared;
use crate::error::{ApiError, Result};
use crate::service::Asked;

/// What is recorded as the reason of a turn that was stopped because its work was called off.
const CALLED_OFF: &str = "the work was called off";

/// Carries work out on threads of the daemon.
pub(crate) struct ThreadHands {
    app: Shared,
}

impl ThreadHands {
    pub(crate) fn new(app: &Shared) -> Self {
        Self {
            app: Shared::clone(app),
        }
    }
}

#[async_trait]
impl Hands for ThreadHands {
    async fn carry(&self, work: Assignment, stop: CancellationToken, slot: WorkerSlot) -> TurnEnd {
        let carried = self.try_carry(&work, &stop, &slot).await;
        carried.unwrap_or_else(|error| refused(&error))
    }
}

impl ThreadHands {
    /// Looks how the turn of the attempt stands, begins it where it is not there, and looks again when something has happened.
    async fn try_carry(
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
            slot.go_on();
            let turn = app.queries.turn(&stream, work.turn_id).await?;
            let handle = match turn {
                Some(turn) if turn.view.is_ended() => return self.recorded_end(work).await,
                Some(_) => {
                    let open = app.runtime.resume_open_turn(work.thread_id).await?;
                    open.filter(|open| open.turn_id() == work.turn_id)
                }
                None if stop.is_cancelled() => {
                    let reason = CALLED_OFF.to_owned();
                    return Ok(TurnEnd::Interrupted { reason });
                }
                None => self.begin(work).await?,
            };
            tokio::select! {
                end = wait(handle, &mut bell, slot) => {
                    if let Some(end) = end {
                        return Ok(end);
                    }
                }
                () = stop.cancelled(), if !is_told => {
                    is_told = true;
                    let reason = Some(CALLED_OFF.to_owned());
                    let told = app.runtime.interrupt(work.thread_id, Some(work.turn_id), reason);
                    match told.await {
                        // It has ended meanwhile, or has not begun yet.
                        Ok(()) | Err(AgentLoopError::NoActiveTurn(_) | AgentLoopError::TurnNotFound { .. }) => {}
                        Err(error) => return Err(error.into()),
                    }
                }
            }
        }
    }

    /// Begins the turn, on a new thread where there is none; `None` while another turn is in its way.
    async fn begin(&self, work: &Assignment) -> Result<Option<TurnHandle>> {
        let app = &self.app;
        let asked = Asked {
            app: Shared::clone(app),
            caller: app.caller_of(&work.owner)?,
            repeatable: None,
        };
        asked.check_serving()?;
        let prompt = &work.spec.prompt;
        let input = match app.look_up(work.thread_id).await? {
            Some(found) => asked.input(&found.thread, prompt, StartTurn::default())?,
            None => {
                let wanted = CreateThread {
                    task_id: Some(work.task.clone()),
                    ..thread_for(&work.spec)?
                };
                let draft = asked.draft(wanted)?;
                let input = asked.input(&draft, prompt, StartTurn::default())?;
                asked.open_thread_as(work.thread_id, draft).await?;
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
            Ok(handle) => Ok(Some(handle)),
            Err(AgentLoopError::TurnBusy { .. } | AgentLoopError::TurnWaiting { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Reads how a turn ended that nobody here waited for.
    async fn recorded_end(&self, work: &Assignment) -> Result<TurnEnd> {
        let stream = work.thread_id.into();
        let detail = self.app.queries.turn_detail(&stream, work.turn_id).await?;
        let detail = detail.ok_or_else(ApiError::turn_not_found)?;
        let view = &detail.row.view;
        let why = || view.error.clone().unwrap_or_default();
        Ok(match view.status {
            TurnStatus::InProgress => TurnEnd::NotNow {
                reason: "the turn has not ended".to_owned(),
            },
            TurnStatus::Completed => TurnEnd::Completed {
                summary: last_words(&detail),
            },
            TurnStatus::Failed => TurnEnd::Failed {
                error: why(),
                may_retry: true,
            },
            TurnStatus::Interrupted => TurnEnd::Interrupted { reason: why() },
        })
    }
}

/// Waits until the turn has ended; `None` when it is to be looked at again. A turn that waits itself needs no worker meanwhile.
async fn wait(
    handle: Option<TurnHandle>,
    bell: &mut watch::Receiver<u64>,
    slot: &WorkerSlot,
) -> Option<TurnEnd> {
    let outcome = match handle {
        Some(handle) => Some(handle.wait().await),
        None => None,
    };
    match outcome {
        Some(Ok(result)) if result.waiting_for.is_none() => Some(end_of(result)),
        Some(Err(error)) => Some(TurnEnd::NotNow {
            reason: error.to_string(),
        }),
        // It waits for somebody, or for another turn: that changes with a record.
        Some(Ok(_)) | None => {
            slot.park();
            match bell.changed().await {
                Ok(()) => None,
                Err(_) => Some(TurnEnd::Failed {
                    error: "the thread was removed".to_owned(),
                    may_retry: false,
                }),
            }
        }
    }
}

fn end_of(result: TurnResult) -> TurnEnd {
    let why = result.error.unwrap_or_default();
    match (result.success, result.stop_reason) {
        (true, _) => TurnEnd::Completed {
            summary: result.response,
        },
        (false, StopReason::Cancelled) => TurnEnd::Interrupted { reason: why },
        (false, _) => TurnEnd::Failed {
            error: why,
            may_retry: true,
        },
    }
}

/// Returns what the agent said last.
fn last_words(TurnDetail { row, log, .. }: &TurnDetail) -> String {
    let said = log.items_of(row.view.id);
    let said = said.filter(|item| item.kind == ItemKind::AgentMessage);
    said.last()
        .map(|item| item.detail().into_owned())
        .unwrap_or_default()
}

/// Why a turn could not be begun or looked at.
fn refused(error: &ApiError) -> TurnEnd {
    let text = error.to_string();
    match error.code() {
        ErrorCode::LimitReached => TurnEnd::NoRoom {
            reason: format!(
                "{}: it begins when threads were removed, or with a greater limit",
                error.message().trim_end_matches("; try again later")
            ),
        },
        ErrorCode::StoreUnavailable | ErrorCode::ShuttingDown => TurnEnd::NotNow { reason: text },
        code => TurnEnd::Failed {
            error: text,
            may_retry: matches!(
                code,
                ErrorCode::NotConfigured | ErrorCode::BudgetExceeded | ErrorCode::Internal
            ),
        },
    }
}

/// Says what thread work asks for, as a client would.
pub(crate) fn thread_for(spec: &WorkSpec) -> Result<CreateThread> {
    let mode = spec.mode.as_deref().map(str::parse::<Mode>).transpose();
    Ok(CreateThread {
        model: spec.model.clone(),
        workspace: spec.workspace.clone(),
        mode: mode.map_err(|error| ApiError::field("/mode", error.to_string()))?,
        backend: spec.backend.clone(),
        allow_shell: spec.allow_shell,
        trust_mode: spec.trust_mode,
        auto_approve: spec.auto_approve,
        ..CreateThread::default()
    })
}
