//! Starting a turn.

use chrono::{DateTime, SubsecRound, Utc};
use windlass_core::events::Event;
use windlass_core::items::{Change, change};
use windlass_core::message::{Controls, InputMessage, ReasoningConfig};
use windlass_core::thread_record::{OnRestart, ThreadRecord};
use windlass_core::turn_policy::TurnPolicy;
use windlass_core::turn_request::{TurnLabels, TurnRequest};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::{ErrorCode, StartTurn, ThreadAndTurn, Turn};
use windlass_runtime::{OnBusy, TurnOptions};
use windlass_store::queries::TurnRow;

use super::thread_record::{permit, wire_tool};
use super::{Asked, budget};
use crate::error::{ApiError, Result};
use crate::external;
use crate::ids;
use crate::threads::FoundThread;
use crate::view;

/// What a turn is for.
#[derive(Clone, Copy)]
pub(super) enum TurnPurpose {
    /// To answer its input.
    Answer,
    /// To make the history shorter.
    Compact,
}

/// Refuses a blank prompt.
pub(super) fn said(prompt: &str) -> Result<&str> {
    let blank = || ApiError::new(ErrorCode::PromptRequired, "prompt is required");
    let is_said = !prompt.trim().is_empty();
    is_said.then_some(prompt).ok_or_else(blank)
}

impl Asked {
    /// Starts a turn; returns when its input is durable.
    pub(crate) async fn start_turn(&self, id: &str, request: StartTurn) -> Result<ThreadAndTurn> {
        let prompt = said(&request.prompt)?.to_owned();
        let found = self.find(id).await?;
        if let Some(answer) = self.started_before(&found).await? {
            return Ok(answer);
        }
        let input = self.input(&found.record, &prompt, request)?;
        Ok(self.begin(found, input, TurnPurpose::Answer).await?.1)
    }

    /// Makes the input of a turn: what is said, and everything that the turn is to work with. All of it is checked
    /// here, and travels with the input, so that a resumed turn works with the same.
    pub(crate) fn input(
        &self,
        thread: &ThreadRecord,
        prompt: &str,
        request: StartTurn,
    ) -> Result<InputMessage> {
        let options = request.policy();
        self.caller.check_trust(&options)?;
        let mut policy = thread.policy.clone();
        permit(&mut policy, &options);
        let carrier = self.carrier(policy.backend.as_deref())?;
        let chosen = self.chosen();
        let models = &chosen.models;
        let wished = request.model.as_deref();
        let model = match carrier {
            Some(_) => models.name_for_agent(wished.or(Some(&policy.model)))?,
            None => models.of_turn(&policy, wished)?,
        };
        let own = request.dynamic_tools.clone().unwrap_or_default();
        external::check(&own, &self.builtin_tools)?;
        let of_thread: Vec<_> = thread.client_tools.iter().map(wire_tool).collect();
        let tools = external::joined(&of_thread, &own)?;
        let environment = self.turn_environment(thread, request.environment_id.as_deref())?;
        let narrowed = self.narrowed(&environment, &policy)?;
        let mut disallowed_tools = request.disallowed_tools.unwrap_or_default();
        disallowed_tools.extend(narrowed.idle_tools);
        let turn = TurnRequest {
            model: models.other_name(&model),
            system_prompt: thread.system_prompt.clone(),
            tools: external::definitions(&tools, &self.builtin_tools),
            allowed_tools: request.allowed_tools,
            disallowed_tools,
            needs_output: true,
            interrupt_on_restart: thread.on_restart == Some(OnRestart::Interrupt),
            approve_all: policy.approves_all(),
            environment: Some(narrowed.environment),
            input_summary: request.input_summary.filter(|text| !text.trim().is_empty()),
            labels: self.labels(&policy, models.qualified(&model)),
            backend: carrier.map(str::to_owned),
            owner: thread.owner.clone(),
            budgets: budget::of_turn(thread, request.budget)?,
            parent: None,
        };
        let effort = request
            .reasoning_effort
            .or_else(|| policy.reasoning_effort.clone());
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

    /// Returns what is recorded with a turn that this model answers. A client's own word for the thread's provider stands for it here too.
    pub(super) fn labels(&self, thread: &TurnPolicy, model: Option<String>) -> Option<TurnLabels> {
        let provider = |name: &Option<String>| {
            let name = name.as_deref()?.split('/').next();
            name.map(str::to_owned)
        };
        let answering = provider(&model);
        let is_own = answering.is_none() || answering == provider(&thread.qualified_model);
        Some(TurnLabels {
            provider: match is_own || thread.qualified_model.is_none() {
                true => thread.provider.clone(),
                false => answering,
            },
        })
    }

    /// Finds the turn that the same request has started already: its id derives from the request, however old it is.
    pub(super) async fn started_before(
        &self,
        found: &FoundThread,
    ) -> Result<Option<ThreadAndTurn>> {
        let Some(request) = &self.repeatable else {
            return Ok(None);
        };
        let id = ids::turn_of(request);
        let Some(row) = self.queries.turn(&found.row.stream, id).await? else {
            return Ok(None);
        };
        Ok(Some(ThreadAndTurn {
            turn: self.as_started(found.id, &row).await?,
            thread: found.thread.clone(),
            files: None,
        }))
    }

    /// Refuses to resume the open turn of a thread whose provider this daemon cannot reach.
    pub(crate) fn check_open_turn(&self, found: &FoundThread) -> Result<()> {
        let Some(open) = found.row.open_turn() else {
            return Ok(());
        };
        if self.is_external(found.thread.backend.as_deref()) {
            return Ok(());
        }
        let labels = open.labels.as_ref();
        let provider = labels.and_then(|labels| labels.provider.as_deref());
        self.chosen()
            .models
            .check_open_turn(&found.record.policy, provider)
    }

    /// Refuses turns once the daemon stops.
    pub(crate) fn check_serving(&self) -> Result<()> {
        if self.stopping.is_cancelled() {
            return Err(ApiError::new(
                ErrorCode::ShuttingDown,
                "the daemon is stopping and starts no more turns",
            ));
        }
        Ok(())
    }

    /// Starts a turn; returns when its input is durable. The turn goes on whether or not anybody waits.
    pub(super) async fn begin(
        &self,
        FoundThread { id, mut thread, .. }: FoundThread,
        input: InputMessage,
        work: TurnPurpose,
    ) -> Result<(TurnId, ThreadAndTurn)> {
        self.check_serving()?;
        let options = TurnOptions {
            on_busy: OnBusy::Refuse,
            turn_id: self.repeatable.as_deref().map(ids::turn_of),
            ..TurnOptions::default()
        };
        let handle = match work {
            TurnPurpose::Answer => self.runtime.submit_with(id, input, options).await?,
            TurnPurpose::Compact => self.runtime.compact_with(id, input, options).await?,
        };
        let first = handle.first_event().and_then(|event| started(event));
        let (turn, at) =
            first.ok_or_else(|| ApiError::internal("a turn was accepted and has not begun"))?;
        thread.latest_turn_id = Some(turn.id.clone());
        thread.updated_at = ids::time(at.trunc_subsecs(6));
        let begun = ThreadAndTurn {
            thread,
            turn,
            files: None,
        };
        Ok((handle.turn_id(), begun))
    }

    /// Shows a turn as its first record does, however far it has come meanwhile; as it is now where retention has removed
    /// that record.
    async fn as_started(&self, id: SessionId, row: &TurnRow) -> Result<Turn> {
        let before = row.first_seq.saturating_sub(1);
        let events = self.runtime.events_since(id, before, 1).await?;
        let first = events.first().and_then(|event| started(event));
        let shown = first.filter(|(turn, _)| turn.id == row.view.id.to_string());
        Ok(shown.map_or_else(|| view::turn(&row.view), |(turn, _)| turn))
    }
}

/// Reads from the first record of a turn how the turn is shown then, and when that was.
fn started(event: &Event) -> Option<(Turn, DateTime<Utc>)> {
    match change(event)? {
        Change::TurnStarted(turn) => Some((view::turn(&turn), event.ts)),
        _ => None,
    }
}
