//! Retries a turn: creates a fork without it, and starts a turn with the same input there.

use std::sync::Arc;

use windlass_core::events::{Event, EventData};
use windlass_core::items::{Change, ItemStep, change};
use windlass_core::message::{Controls, InputMessage};
use windlass_core::thread_record::{OnRestart, ThreadRecord};
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::turn_policy::TurnPolicy;
use windlass_core::turn_request::TurnRequest;
use windlass_core::typed_id::ModelId;
use windlass_protocol::{RetryThread, StartTurn, ThreadAndTurn};
use windlass_runtime::OnBusy;
use windlass_store::queries::TurnRow;

use crate::environments::{TurnTools, resolve_inside};
use crate::operations::prelude::*;
use crate::operations::threads::budget;
use crate::operations::threads::fork::ForkPoint;
use crate::operations::turns::start::{TurnPurpose, require_prompt};
use crate::threads::FoundThread;

/// The input of a turn is among this number of its first records.
const FIRST_RECORDS: usize = 16;

/// Returns the text of an input.
pub(crate) fn input_text(input: Option<&Event>) -> String {
    match input.and_then(change) {
        Some(Change::Item(ItemStep::Started(item) | ItemStep::Ended(item))) => {
            item.detail().into_owned()
        }
        _ => String::new(),
    }
}

/// The options with which a turn was started.
struct RecordedOptions {
    controls: Controls,
    request: TurnRequest,
    environment: TurnEnvironment,
}

impl RecordedOptions {
    /// Reads the options from the record of the turn's input; `None` if the turn was not started through this API, so that it had no restrictions
    /// either.
    fn read(input: Option<&Event>) -> Result<Option<Self>> {
        let Some(EventData::InputMessage(data)) = input.map(|event| &event.data) else {
            return Err(not_retryable("retention removed its input"));
        };
        let mut controls = data.message.controls.clone().unwrap_or_default();
        let Some(request) = controls.turn.take() else {
            return Ok(None);
        };
        let Some(environment) = request.environment.clone() else {
            return Err(not_retryable("only a part of its permissions is recorded"));
        };
        Ok(Some(Self {
            controls,
            request: *request,
            environment,
        }))
    }
}

fn not_retryable(why: &str) -> ApiError {
    let text = format!("the turn cannot be retried: {why}; use undo and start a turn instead");
    ApiError::new(ErrorCode::NotForkable, text)
}

/// Creates a thread without the last turns of another one, and sends the input of the first dropped turn again.
impl Handle<op::RetryThread> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::RetryThread>,
    ) -> Result<ThreadAndTurn> {
        let request = call.request;
        let parent = self.find(&call.path.id).await?;
        let existing = self.already_created(ctx).await?;
        if let Some(fork) = &existing
            && let Some(answer) = self.already_started(ctx, fork).await?
        {
            return Ok(answer);
        }
        let (turn, depth) = match &request.turn_id {
            Some(_) if request.depth > 0 => {
                let text = "a request has either `turn_id` or `depth`";
                return Err(ApiError::field("/depth", text));
            }
            Some(name) => self.turn_with_depth(&parent, name).await?,
            None => {
                let turn = self.turn_to_drop(&parent, request.depth, existing.as_ref());
                (turn.await?, request.depth)
            }
        };
        let purpose = TurnPurpose::Answer(OnBusy::Refuse);
        // All checks come before the fork, so that a rejected request leaves no fork behind.
        self.check_serving()?;
        let input = self.retry_input(ctx, &parent, &turn, &request).await?;
        if let Some(fork) = existing {
            return Ok(self.begin(ctx, fork, input, purpose).await?.1);
        }
        self.reserve_thread(ctx.caller.agent()).await?;
        let mut restored = None;
        if request.files {
            let cut_off = request.cut_off;
            restored = Some(self.restore_files(&parent, &turn, cut_off).await?);
        }
        let cut = ForkPoint::before(&parent, &turn, depth);
        let fork = self.create_fork(ctx, &parent, cut).await?;
        let fork_id = fork.id;
        let started = self.begin(ctx, fork, input, purpose).await;
        // This fork is new and therefore unused, unlike one that an earlier attempt created.
        if started.is_err() {
            let _ = self.runtime.remove_session(fork_id).await;
        }
        Ok(ThreadAndTurn {
            files: restored,
            ..started?.1
        })
    }
}

impl Service {
    /// Finds a turn by its visible ID, and the number of user turns after it.
    async fn turn_with_depth(&self, found: &FoundThread, name: &str) -> Result<(TurnRow, u32)> {
        let mut depth = 0;
        let is_it = |turn: &TurnRow| {
            let is_it = found.visible_turn_id(turn).to_string() == name;
            // A compaction turn answers no prompt, so it is not counted.
            depth += u32::from(!is_it && turn.view.outline.compaction.is_none());
            is_it
        };
        let turn = self.newest_turn_where(found, is_it).await?;
        let turn = turn.ok_or_else(ApiError::turn_not_found)?;
        Ok((turn, depth))
    }

    /// Returns the record of a turn's first input; `None` if retention removed it.
    pub(crate) async fn first_input(
        &self,
        found: &FoundThread,
        turn: &TurnRow,
    ) -> Result<Option<Arc<Event>>> {
        let before = turn.first_seq.saturating_sub(1);
        let events = self.runtime.events_since(found.id, before, FIRST_RECORDS);
        let is_input = |event: &Arc<Event>| {
            matches!(event.data, EventData::InputMessage(_))
                && event.context.turn_id == Some(turn.view.id)
        };
        Ok(events.await?.into_iter().find(is_input))
    }

    /// Returns the environment of a turn from its record.
    pub(crate) async fn environment_of(
        &self,
        found: &FoundThread,
        turn: &TurnRow,
    ) -> Result<Option<TurnEnvironment>> {
        let input = self.first_input(found, turn).await?;
        Ok(RecordedOptions::read(input.as_deref())?.map(|recorded| recorded.environment))
    }

    /// Builds the input of a retried turn. Its permissions come from its own record; the agent's other instructions are those of the thread as it is
    /// now.
    async fn retry_input(
        &self,
        ctx: &RequestContext,
        parent: &FoundThread,
        turn: &TurnRow,
        request: &RetryThread,
    ) -> Result<InputMessage> {
        let thread = &parent.record;
        let first = self.first_input(parent, turn).await?;
        let prompt = request.prompt.clone();
        let prompt = prompt.unwrap_or_else(|| input_text(first.as_deref()));
        require_prompt(&prompt)?;
        let Some(recorded) = RecordedOptions::read(first.as_deref())? else {
            let request = StartTurn {
                model: request.model.clone(),
                ..StartTurn::default()
            };
            return self.input(ctx, thread, &prompt, request);
        };
        let (model_id, model) = self.retry_model(&thread.policy, &recorded, request)?;
        let requested = request.model.as_deref();
        let qualified = requested.and_then(|name| self.effective().models.qualified(name));
        let tools = self.retry_environment(recorded.environment)?;
        // A summary of a different prompt would be wrong.
        let summary = recorded.request.input_summary.clone();
        let input_summary = summary.filter(|_| request.prompt.is_none());
        let turn = TurnRequest {
            model,
            environment: Some(tools.environment),
            input_summary,
            labels: self.labels(&thread.policy, qualified),
            ..self.retry_permissions(ctx, thread, recorded.request, tools.idle_tools)?
        };
        let controls = Controls {
            model_id,
            turn: Some(Box::new(turn)),
            ..recorded.controls
        };
        Ok(InputMessage {
            controls: Some(controls),
            ..InputMessage::user(prompt)
        })
    }

    /// Selects the model: the requested one, else the turn's, which must still be available. Returns its ID, and its name if it is not configured.
    fn retry_model(
        &self,
        thread: &TurnPolicy,
        recorded: &RecordedOptions,
        request: &RetryThread,
    ) -> Result<(Option<ModelId>, Option<String>)> {
        let effective = self.effective();
        let models = &effective.models;
        let id_and_name = |name: &str| (models.id(name), models.provider_model_name(name));
        if self.is_external(thread.backend.as_deref()) {
            let recorded = recorded.request.model.as_deref();
            let requested = request.model.as_deref().or(recorded);
            let model = models.resolve_for_agent(requested.or(Some(&thread.model)))?;
            return Ok(id_and_name(&model));
        }
        let other = recorded.request.model.as_deref();
        match (&request.model, recorded.controls.model_id, other) {
            (Some(name), ..) => Ok(id_and_name(&models.for_turn(thread, Some(name))?)),
            (None, None, other) => Ok(id_and_name(&models.for_turn(thread, other)?)),
            (None, Some(id), other) if models.reaches(id) => {
                Ok((Some(id), other.map(str::to_owned)))
            }
            (None, Some(_), _) => {
                models.for_turn(thread, None)?;
                Err(ApiError::field(
                    "/model",
                    "the model of the turn is no longer configured; name another",
                ))
            }
        }
    }

    /// Checks that the turn's environment is still available.
    fn retry_environment(&self, recorded: TurnEnvironment) -> Result<TurnTools> {
        let id = &recorded.environment_id;
        let environment = self.environment(id).map_err(|error| {
            let text = format!(
                "the environment `{id}` of the turn no longer exists; register it again, or use undo and start a turn \
                 in another one"
            );
            error.with_message(text)
        })?;
        let cwd = resolve_inside(&environment, &recorded.cwd)?;
        self.with_idle_tools(TurnEnvironment { cwd, ..recorded })
    }

    /// Returns the permissions of the turn, with all other options of the thread as it is now.
    fn retry_permissions(
        &self,
        ctx: &RequestContext,
        thread: &ThreadRecord,
        recorded: TurnRequest,
        idle_tools: Vec<String>,
    ) -> Result<TurnRequest> {
        self.external_agent(thread.policy.backend.as_deref())?;
        if recorded.approve_all && !thread.policy.approves_all() {
            ctx.caller.check_approves_all()?;
        }
        let mut request = TurnRequest {
            system_prompt: thread.system_prompt.clone(),
            interrupt_on_restart: thread.on_restart == Some(OnRestart::Interrupt),
            owner: thread.owner.clone(),
            budgets: budget::of_turn(thread, None)?,
            // The turn that the original worked for does not wait for the retry.
            parent: None,
            ..recorded
        };
        for tool in idle_tools {
            if !request.disallowed_tools.contains(&tool) {
                request.disallowed_tools.push(tool);
            }
        }
        Ok(request)
    }
}
