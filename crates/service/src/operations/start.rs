//! Starting a turn.

use chrono::{DateTime, SubsecRound, Utc};
use windlass_core::events::Event;
use windlass_core::items::{Change, change};
use windlass_core::message::{Controls, InputMessage, ReasoningConfig};
use windlass_core::thread_record::{OnRestart, ThreadRecord};
use windlass_core::turn_policy::TurnPolicy;
use windlass_core::turn_request::{TurnLabels, TurnRequest};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::api::Call;
use windlass_protocol::operations as op;
use windlass_protocol::{ErrorCode, StartTurn, ThreadAndTurn, Turn};
use windlass_runtime::{OnBusy, TurnOptions};
use windlass_store::queries::TurnRow;

use super::thread_record::{permit, wire_tool};
use super::{RequestContext, budget, queue};
use crate::error::{ApiError, Result};
use crate::external;
use crate::handle::Handle;
use crate::ids;
use crate::service::Service;
use crate::threads::FoundThread;
use crate::view;

/// What a turn is for.
#[derive(Clone, Copy)]
pub(super) enum TurnPurpose {
    /// To answer its input, which meets a busy thread by this policy.
    Answer(OnBusy),
    /// To make the history shorter.
    Compact,
}

/// Refuses a blank prompt.
pub(super) fn said(prompt: &str) -> Result<&str> {
    let blank = || ApiError::new(ErrorCode::PromptRequired, "prompt is required");
    let is_said = !prompt.trim().is_empty();
    is_said.then_some(prompt).ok_or_else(blank)
}

/// Starts a turn; returns when its input is durable.
impl Handle<op::StartTurn> for Service {
    async fn handle(
        &self,
        context: &RequestContext,
        call: Call<op::StartTurn>,
    ) -> Result<ThreadAndTurn> {
        let id = &call.path.id;
        let mut request = call.request;
        let prompt = said(&request.prompt)?.to_owned();
        let found = self.find(id).await?;
        let on_busy = request.on_busy.unwrap_or_default();
        if let Some(answer) = self.started_before(context, &found).await? {
            return Ok(answer);
        }
        let (parts, at) = (request.input.take(), request.environment_id.clone());
        let content = self
            .content(&found.record, at.as_deref(), prompt.clone(), parts)
            .await?;
        if let Some(turn) = self
            .waits_or_joins(context, &found, &content, on_busy)
            .await?
        {
            return Ok(ThreadAndTurn {
                thread: found.thread,
                turn,
                files: None,
            });
        }
        let mut input = self.input(context, &found.record, &prompt, request)?;
        input.content = content;
        let policy = queue::policy(on_busy);
        if policy != OnBusy::Refuse {
            self.runtime.check_input(found.id, &input).await?;
        }
        let purpose = TurnPurpose::Answer(policy);
        Ok(self.begin(context, found, input, purpose).await?.1)
    }
}

impl Service {
    /// Makes the input of a turn: what is said, and everything that the turn is to work with. All of it is checked
    /// here, and travels with the input, so that a resumed turn works with the same.
    pub(crate) fn input(
        &self,
        context: &RequestContext,
        thread: &ThreadRecord,
        prompt: &str,
        request: StartTurn,
    ) -> Result<InputMessage> {
        let options = request.policy();
        context.caller.check_trust(&options)?;
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
        context: &RequestContext,
        found: &FoundThread,
    ) -> Result<Option<ThreadAndTurn>> {
        let Some(request) = &context.repeatable else {
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
        context: &RequestContext,
        FoundThread { id, mut thread, .. }: FoundThread,
        input: InputMessage,
        work: TurnPurpose,
    ) -> Result<(TurnId, ThreadAndTurn)> {
        self.check_serving()?;
        let on_busy = match work {
            TurnPurpose::Answer(on_busy) => on_busy,
            TurnPurpose::Compact => OnBusy::Refuse,
        };
        let options = TurnOptions {
            on_busy,
            turn_id: context.repeatable.as_deref().map(ids::turn_of),
            ..TurnOptions::default()
        };
        let handle = match work {
            TurnPurpose::Answer(_) => self.runtime.submit_with(id, input, options).await?,
            TurnPurpose::Compact => self.runtime.compact_with(id, input, options).await?,
        };
        let first = handle.first_event().and_then(|event| started(event));
        let queued = || handle.queued_event().and_then(|event| queued(event));
        let turn = match first {
            Some((turn, at)) => {
                thread.latest_turn_id = Some(turn.id.clone());
                thread.updated_at = ids::time(at.trunc_subsecs(6));
                turn
            }
            None => queued().ok_or_else(|| {
                ApiError::internal("an input was accepted and neither starts a turn nor waits")
            })?,
        };
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

/// Reads from the record of a queued input how its turn is shown then.
fn queued(event: &Event) -> Option<Turn> {
    match change(event)? {
        Change::InputQueued(data) => Some(view::queued_turn(
            event.session_id,
            data.turn_id,
            &data.message,
        )),
        _ => None,
    }
}

/// Reads from the first record of a turn how the turn is shown then, and when that was.
fn started(event: &Event) -> Option<(Turn, DateTime<Utc>)> {
    match change(event)? {
        Change::TurnStarted(turn) => Some((view::turn(&turn), event.ts)),
        _ => None,
    }
}
