//! Starts turns.

use chrono::{DateTime, SubsecRound, Utc};
use serde_json::Value;
use windlass_core::error::AgentLoopError;
use windlass_core::events::Event;
use windlass_core::items::{Change, change};
use windlass_core::llm_driver_registry::OutputSchema;
use windlass_core::message::{Controls, InputMessage, ReasoningConfig};
use windlass_core::thread_record::{OnRestart, ThreadRecord};
use windlass_core::turn_policy::TurnPolicy;
use windlass_core::turn_request::{TurnLabels, TurnRequest};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::{StartTurn, ThreadAndTurn, Turn};
use windlass_runtime::{OnBusy, TurnOptions, check_output_schema};
use windlass_store::queries::TurnRow;

use crate::external;
use crate::ids;
use crate::operations::prelude::*;
use crate::operations::threads::budget;
use crate::operations::threads::thread_record::{permit, wire_tool};
use crate::operations::turns::queue;
use crate::threads::FoundThread;
use crate::view;

/// The purpose of a turn.
#[derive(Clone, Copy)]
pub(crate) enum TurnPurpose {
    /// Answers its input; the policy applies if the thread is busy.
    Answer(OnBusy),
    /// Compacts the history.
    Compact,
}

/// Where a request has the schema of the final answer.
const OUTPUT_SCHEMA: &str = "/output_schema";

/// Checks the schema of the final answer. External agents do not take one.
fn output_schema(
    external_agent: Option<&str>,
    schema: Option<Value>,
) -> Result<Option<OutputSchema>> {
    let Some(schema) = schema else {
        return Ok(None);
    };
    if let Some(agent) = external_agent {
        let refused = AgentLoopError::UnsupportedInput {
            model: agent.to_owned(),
            input: "output schemas",
        };
        return Err(refused.into());
    }
    check_output_schema(&schema).map_err(|why| ApiError::field(OUTPUT_SCHEMA, why))?;
    Ok(Some(OutputSchema::new(schema)))
}

/// Rejects a blank prompt.
pub(crate) fn require_prompt(prompt: &str) -> Result<&str> {
    if prompt.trim().is_empty() {
        return Err(ApiError::new(
            ErrorCode::PromptRequired,
            "prompt is required",
        ));
    }
    Ok(prompt)
}

/// Starts a turn; returns when its input is durable.
impl Handle<op::StartTurn> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::StartTurn>,
    ) -> Result<ThreadAndTurn> {
        let mut request = call.request;
        let prompt = require_prompt(&request.prompt)?.to_owned();
        let found = self.find(&call.path.id).await?;
        let on_busy = request.on_busy.unwrap_or_default();
        if let Some(answer) = self.already_started(ctx, &found).await? {
            return Ok(answer);
        }
        let joins = on_busy == windlass_protocol::OnBusy::Steer && found.row.open_turn().is_some();
        if joins && request.output_schema.is_some() {
            return Err(ApiError::field(
                OUTPUT_SCHEMA,
                "the input joins the running turn, whose schema cannot be changed; use another `on_busy`",
            ));
        }
        let (parts, at) = (request.input.take(), request.environment_id.clone());
        let content = self
            .content(&found.record, at.as_deref(), prompt.clone(), parts)
            .await?;
        if let Some(turn) = self
            .queued_or_steered(ctx, &found, &content, on_busy)
            .await?
        {
            return Ok(ThreadAndTurn {
                thread: found.thread,
                turn,
                files: None,
            });
        }
        let mut input = self.input(ctx, &found.record, &prompt, request)?;
        input.content = content;
        let policy = queue::policy(on_busy);
        if policy != OnBusy::Refuse {
            self.runtime.check_input(found.id, &input).await?;
        }
        let purpose = TurnPurpose::Answer(policy);
        Ok(self.begin(ctx, found, input, purpose).await?.1)
    }
}

impl Service {
    /// Builds the input of a turn: the prompt and all options. The options are validated here and recorded with the input, so that a resumed turn
    /// uses the same ones.
    pub(crate) fn input(
        &self,
        ctx: &RequestContext,
        thread: &ThreadRecord,
        prompt: &str,
        request: StartTurn,
    ) -> Result<InputMessage> {
        let options = request.policy();
        ctx.caller.check_trust(&options)?;
        let mut policy = thread.policy.clone();
        permit(&mut policy, &options);
        let external_agent = self.external_agent(policy.backend.as_deref())?;
        let effective = self.effective();
        let models = &effective.models;
        let requested = request.model.as_deref();
        let model = match external_agent {
            Some(_) => models.resolve_for_agent(requested.or(Some(&policy.model)))?,
            None => models.for_turn(&policy, requested)?,
        };
        let own = request.dynamic_tools.clone().unwrap_or_default();
        external::check(&own, &self.builtin_tools)?;
        let of_thread: Vec<_> = thread.client_tools.iter().map(wire_tool).collect();
        let tools = external::joined(&of_thread, &own)?;
        let environment = self.turn_environment(thread, request.environment_id.as_deref())?;
        let turn_tools = self.turn_tools(&environment, &policy)?;
        let mut disallowed_tools = request.disallowed_tools.unwrap_or_default();
        disallowed_tools.extend(turn_tools.idle_tools);
        let turn = TurnRequest {
            model: models.provider_model_name(&model),
            system_prompt: thread.system_prompt.clone(),
            tools: external::definitions(&tools, &self.builtin_tools),
            allowed_tools: request.allowed_tools,
            disallowed_tools,
            needs_output: true,
            interrupt_on_restart: thread.on_restart == Some(OnRestart::Interrupt),
            approve_all: policy.approves_all(),
            environment: Some(turn_tools.environment),
            input_summary: request.input_summary.filter(|text| !text.trim().is_empty()),
            labels: self.labels(&policy, models.qualified(&model)),
            backend: external_agent.map(str::to_owned),
            owner: thread.owner.clone(),
            budgets: budget::of_turn(thread, request.budget)?,
            output_schema: output_schema(external_agent, request.output_schema)?,
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

    /// Returns the labels that are recorded with a turn of this model. If the client gave the thread's provider another name, that name is used here
    /// too.
    pub(crate) fn labels(&self, thread: &TurnPolicy, model: Option<String>) -> Option<TurnLabels> {
        let provider = |name: &Option<String>| {
            let name = name.as_deref()?.split('/').next();
            name.map(str::to_owned)
        };
        let provider_of_model = provider(&model);
        let is_own =
            provider_of_model.is_none() || provider_of_model == provider(&thread.qualified_model);
        Some(TurnLabels {
            provider: if is_own || thread.qualified_model.is_none() {
                thread.provider.clone()
            } else {
                provider_of_model
            },
        })
    }

    /// Finds the turn that an earlier attempt of the same request started. Its ID derives from the request, so the age of that attempt does not
    /// matter.
    pub(crate) async fn already_started(
        &self,
        ctx: &RequestContext,
        found: &FoundThread,
    ) -> Result<Option<ThreadAndTurn>> {
        let Some(request) = &ctx.repeatable else {
            return Ok(None);
        };
        let id = ids::derived_turn(request);
        let Some(row) = self.queries.turn(&found.row.stream, id).await? else {
            return Ok(None);
        };
        Ok(Some(ThreadAndTurn {
            turn: self.as_started(found.id, &row).await?,
            thread: found.thread.clone(),
            files: None,
        }))
    }

    /// Rejects resuming the open turn of a thread whose provider this daemon cannot reach.
    pub(crate) fn check_open_turn(&self, found: &FoundThread) -> Result<()> {
        let Some(open) = found.row.open_turn() else {
            return Ok(());
        };
        if self.is_external(found.thread.backend.as_deref()) {
            return Ok(());
        }
        let labels = open.labels.as_ref();
        let provider = labels.and_then(|labels| labels.provider.as_deref());
        self.effective()
            .models
            .check_open_turn(&found.record.policy, provider)
    }

    /// Rejects turns once the daemon is shutting down.
    pub(crate) fn check_serving(&self) -> Result<()> {
        if self.stopping.is_cancelled() {
            let text = "the daemon is shutting down and starts no more turns";
            return Err(ApiError::new(ErrorCode::ShuttingDown, text));
        }
        Ok(())
    }

    /// Starts a turn; returns when its input is durable. The turn continues even if no client waits for it.
    pub(crate) async fn begin(
        &self,
        ctx: &RequestContext,
        FoundThread { id, mut thread, .. }: FoundThread,
        input: InputMessage,
        purpose: TurnPurpose,
    ) -> Result<(TurnId, ThreadAndTurn)> {
        self.check_serving()?;
        let on_busy = match purpose {
            TurnPurpose::Answer(on_busy) => on_busy,
            TurnPurpose::Compact => OnBusy::Refuse,
        };
        let options = TurnOptions {
            on_busy,
            turn_id: ctx.repeatable.as_deref().map(ids::derived_turn),
            ..TurnOptions::default()
        };
        let handle = match purpose {
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
                ApiError::internal("an accepted input has neither started a turn nor been queued")
            })?,
        };
        let started = ThreadAndTurn {
            thread,
            turn,
            files: None,
        };
        Ok((handle.turn_id(), started))
    }

    /// Returns a turn in the state of its first record, whatever its state is now; in its current state if retention removed that record.
    async fn as_started(&self, id: SessionId, row: &TurnRow) -> Result<Turn> {
        let before = row.first_seq.saturating_sub(1);
        let events = self.runtime.events_since(id, before, 1).await?;
        let first = events.first().and_then(|event| started(event));
        let shown = first.filter(|(turn, _)| turn.id == row.view.id.to_string());
        Ok(shown.map_or_else(|| view::turn(&row.view), |(turn, _)| turn))
    }
}

/// Returns the turn of a queued input in its initial state.
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

/// Returns a turn in the state of its first record, with the time of that record.
fn started(event: &Event) -> Option<(Turn, DateTime<Utc>)> {
    match change(event)? {
        Change::TurnStarted(turn) => Some((view::turn(&turn), event.ts)),
        _ => None,
    }
}
