//! Starting a turn.

use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

use axum::extract::{Path, State};
use axum::http::StatusCode;
use chrono::{DateTime, SubsecRound, Utc};
use windlass_core::events::EventData;
use windlass_core::items::{Change, change};
use windlass_core::message::{Controls, InputMessage, ReasoningConfig};
use windlass_core::turn_request::{TurnLabels, TurnRequest};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::{ErrorCode, Mode, OnRestart, StartTurn, Thread, ThreadAndTurn, Turn};
use windlass_runtime::{EventObserver, OnBusy, TurnOptions};

use super::{Answer, json};
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::external;
use crate::http::body::Payload;
use crate::http::{rules, scope};
use crate::ids;
use crate::threads::FoundThread;
use crate::view;

pub(super) async fn start(
    State(app): State<Shared>,
    Path(id): Path<String>,
    Payload(request): Payload<StartTurn>,
) -> Answer {
    let prompt = said(&request.prompt)?.to_owned();
    let found = app.find(&id).await?;
    if let Some(answer) = app.started_before(&found).await? {
        return json(StatusCode::CREATED, &answer);
    }
    let input = app.input(&found.thread, &prompt, request).await?;
    let (_, answer) = app.start_turn(found, input).await?;
    json(StatusCode::CREATED, &answer)
}

/// What a turn is for.
#[derive(Clone, Copy)]
pub(super) enum Work {
    /// To answer its input.
    Answer,
    /// To make the history shorter.
    Compact,
}

/// Refuses a blank prompt.
pub(super) fn said(prompt: &str) -> Result<&str, ApiError> {
    if prompt.trim().is_empty() {
        return Err(ApiError::new(
            ErrorCode::PromptRequired,
            "prompt is required",
        ));
    }
    Ok(prompt)
}

/// What is kept on the records of a turn.
pub(super) fn labels(thread: &Thread) -> Option<TurnLabels> {
    Some(TurnLabels {
        provider: thread.model_provider.clone(),
        request_digest: scope::repeatable(),
    })
}

impl App {
    /// Makes the input of a turn: what is said, and everything that the turn is to work with. All of it is checked
    /// here, and travels with the input, so that a resumed turn works with the same.
    pub(super) async fn input(
        &self,
        thread: &Thread,
        prompt: &str,
        request: StartTurn,
    ) -> Result<InputMessage, ApiError> {
        rules::check_trust(request.auto_approve, request.trust_mode, request.mode)?;
        let models = &self.settings.models;
        let model = match request.model.as_deref() {
            None => models.still(&thread.model)?,
            wished => models.name(wished)?,
        };
        let own = request.dynamic_tools.clone().unwrap_or_default();
        external::check(&own, &self.builtin_tools)?;
        let of_thread = thread.dynamic_tools.as_deref().unwrap_or_default();
        let tools = external::joined(of_thread, &own)?;
        let environment = self.turn_environment(thread, request.environment_id.as_deref())?;
        let narrowed = self.narrowed(&environment, thread, &request)?;
        let mut disallowed_tools = request.disallowed_tools.unwrap_or_default();
        disallowed_tools.extend(narrowed.idle_tools);
        let mode = request.mode.unwrap_or(thread.mode);
        let turn = TurnRequest {
            model: models.other_name(&model),
            system_prompt: thread.system_prompt.clone(),
            tools: external::definitions(&tools, &self.builtin_tools),
            allowed_tools: request.allowed_tools,
            disallowed_tools,
            needs_output: true,
            interrupt_on_restart: thread.on_restart == Some(OnRestart::Interrupt),
            approve_all: mode == Mode::Yolo || request.auto_approve.unwrap_or(thread.auto_approve),
            environment: Some(narrowed.environment),
            input_summary: request.input_summary.filter(|text| !text.trim().is_empty()),
            labels: labels(thread),
        };
        let effort = request
            .reasoning_effort
            .or_else(|| thread.reasoning_effort.clone());
        let controls = Controls {
            model_id: models.id(&model),
            reasoning: effort.map(|effort| ReasoningConfig {
                effort: Some(effort),
            }),
            turn: Some(Box::new(turn)),
            ..Controls::default()
        };
        Ok(InputMessage {
            controls: Some(controls),
            ..InputMessage::user(prompt)
        })
    }

    /// Finds the turn that the same request has started already. Its answer was lost between the two records, with the
    /// process for example; the turn itself is proof.
    pub(super) async fn started_before(
        &self,
        found: &FoundThread,
    ) -> Result<Option<ThreadAndTurn>, ApiError> {
        let (Some(request), Some(latest)) = (scope::repeatable(), &found.row.latest) else {
            return Ok(None);
        };
        let labels = latest.labels.as_ref();
        if labels.and_then(|labels| labels.request_digest.as_ref()) != Some(&request) {
            return Ok(None);
        }
        let before = latest.first_seq.saturating_sub(1);
        let (turn, _) = self.as_started(found.id, latest.id, before).await?;
        let thread = found.thread.clone();
        Ok(Some(ThreadAndTurn { thread, turn }))
    }

    /// Refuses turns once the daemon stops.
    pub(super) fn check_serving(&self) -> Result<(), ApiError> {
        if self.stopping.is_cancelled() {
            return Err(ApiError::new(
                ErrorCode::ShuttingDown,
                "the daemon is stopping and starts no more turns",
            ));
        }
        Ok(())
    }

    /// Starts a turn that answers an input.
    pub(super) async fn start_turn(
        &self,
        found: FoundThread,
        input: InputMessage,
    ) -> Result<(TurnId, ThreadAndTurn), ApiError> {
        self.begin(found, input, Work::Answer).await
    }

    /// Starts a turn; returns when its input is durable. The turn goes on whether or not anybody waits.
    pub(super) async fn begin(
        &self,
        FoundThread {
            id,
            row,
            mut thread,
        }: FoundThread,
        input: InputMessage,
        work: Work,
    ) -> Result<(TurnId, ThreadAndTurn), ApiError> {
        self.check_serving()?;
        let started = Arc::new(OnceLock::new());
        let handle = match work {
            Work::Answer => {
                let options = TurnOptions {
                    on_busy: OnBusy::Refuse,
                    on_event: Some(first_record(&started)),
                    ..TurnOptions::default()
                };
                self.runtime.submit_with(id, input, options).await?
            }
            Work::Compact => self.runtime.compact(id, input).await?,
        };
        self.counters.turns.fetch_add(1, Ordering::Relaxed);
        let turn_id = handle.turn_id();
        let (turn, at) = match started.get() {
            Some(started) => started.clone(),
            None => self.as_started(id, turn_id, row.seq).await?,
        };
        thread.latest_turn_id = Some(turn.id.clone());
        thread.updated_at = ids::time(at.trunc_subsecs(6));
        Ok((turn_id, ThreadAndTurn { thread, turn }))
    }

    /// Shows a turn as its first record does, however far it has come meanwhile.
    async fn as_started(
        &self,
        id: SessionId,
        turn_id: TurnId,
        mut seen: u64,
    ) -> Result<Started, ApiError> {
        loop {
            let events = self.runtime.events_since(id, seen, 64).await?;
            for event in &events {
                seen = event.seq();
                match change(event) {
                    Some(Change::TurnStarted(turn)) if turn.id == turn_id => {
                        return Ok((view::turn(&turn), event.ts));
                    }
                    _ => {}
                }
            }
            if events.is_empty() {
                return Err(ApiError::internal(
                    "a turn was accepted and is not recorded",
                ));
            }
        }
    }
}

/// A turn as its first record shows it, and when that was written.
type Started = (Turn, DateTime<Utc>);

/// Takes a turn's first record as it is written, so that nobody has to read it.
fn first_record(started: &Arc<OnceLock<Started>>) -> EventObserver {
    let started = Arc::downgrade(started);
    Arc::new(move |event| {
        if let (EventData::TurnStarted(_), Some(started)) = (&event.data, started.upgrade())
            && let Some(Change::TurnStarted(turn)) = change(event)
        {
            let _ = started.set((view::turn(&turn), event.ts));
        }
    })
}
