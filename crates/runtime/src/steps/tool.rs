//! Executes a tool call: hooks, the tool, limits, and the result.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use serde_json::Value;
use windlass_core::atoms::PreToolUseDecision;
use windlass_core::events::{EventContext, ToolStatus};
use windlass_core::named_secrets::NamedSecrets;
use windlass_core::tools::{
    INTERNAL_ERROR_TEXT, Tool, ToolCall, ToolDefinition, ToolExecutionResult, ToolPolicy,
    ToolResult,
};
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::{ExecId, SessionId, TurnId};
use windlass_turn::{CallApproval, RequestedCall, RequiredWait, ToolOutcome};

use super::egress::RuledEgress;
use super::emitter::StepEmitter;
use super::{arguments, output};
use crate::inner::Inner;
use crate::panics::catch_panic;
use crate::secrets::{MIN_SECRET_BYTES, Mask, Secret};
use crate::subagents::SharedBudget;
use crate::thread::StepScope;
use crate::turn_context::TurnContext;

/// Checks a call before it is recorded: the tool exists and the arguments match its schema.
pub(crate) fn preflight(inner: &Inner, context: &TurnContext, mut call: ToolCall) -> RequestedCall {
    call.arguments = arguments::normalised(call.arguments);
    for hook in &context.contributions.tool_call {
        call = catch_panic(|| hook.transform(call.clone())).unwrap_or(call);
    }
    let offer = &context.offer;
    if offer.tool(&call.name).is_none()
        && let Some(name) = resolve_name(offer.tools(), &call.name)
    {
        call.name = name;
    }
    let refusal = match offer.tool(&call.name) {
        None => Some(format!(
            "unknown tool `{}`; it does not exist or is not enabled here",
            call.name
        )),
        Some(definition) if cannot_run(context, definition) => Some(format!(
            "tool `{}` is offered but nothing here can run it",
            call.name
        )),
        Some(definition) => check(inner, definition, &call).err(),
    };
    // The text may quote the arguments, whose length the model controls.
    let max_bytes = inner.settings.max_tool_result_bytes;
    let refusal = refusal.map(|refusal| output::capped(refusal, max_bytes));
    RequestedCall { call, refusal }
}

/// Finds the tool with this display name, or with this last part of a display name if it is unique.
fn resolve_name<'a>(
    definitions: impl Iterator<Item = &'a ToolDefinition>,
    name: &str,
) -> Option<String> {
    let (mut exact, mut by_last_part) = (None, Vec::new());
    for definition in definitions {
        let shown = definition.display_name().unwrap_or_default();
        match shown.rsplit_once("::") {
            Some(_) if shown == name => exact = Some(definition.name()),
            Some((_, last)) if last == name => by_last_part.push(definition.name()),
            _ => {}
        }
    }
    let unique = (by_last_part.len() == 1).then(|| by_last_part[0]);
    exact.or(unique).map(str::to_owned)
}

fn cannot_run(context: &TurnContext, definition: &ToolDefinition) -> bool {
    definition.policy() != ToolPolicy::ClientSide
        && !context.contributions.tools.has(definition.name())
}

fn check(inner: &Inner, definition: &ToolDefinition, call: &ToolCall) -> Result<(), String> {
    inner
        .arguments
        .check(&call.name, definition.parameters(), &call.arguments)
        .map_err(|error| format!("invalid arguments for tool `{}`: {error}", call.name))
}

/// A call that is about to run, with everything it needs to run in its own task.
pub(crate) struct ToolRun {
    inner: Arc<Inner>,
    context: Arc<TurnContext>,
    session_id: SessionId,
    turn_id: TurnId,
    exec_id: ExecId,
    call: Arc<ToolCall>,
    approval: CallApproval,
    /// The budget that its turn shares with other turns.
    shared_budget: Option<SharedBudget>,
}

impl ToolRun {
    pub(crate) fn new(
        scope: &StepScope<'_>,
        turn_id: TurnId,
        exec_id: ExecId,
        call: Arc<ToolCall>,
    ) -> Self {
        Self {
            inner: Arc::clone(scope.inner),
            context: Arc::clone(scope.context),
            session_id: scope.thread.session_id(),
            turn_id,
            exec_id,
            call,
            approval: scope.thread.call_approval(exec_id),
            shared_budget: SharedBudget::for_tool_call(scope),
        }
    }

    /// Runs the call. It always has an outcome.
    pub(crate) async fn run(self) -> ToolOutcome {
        let name = &self.call.name;
        let tool = self.context.contributions.tools.get(name);
        let Some((tool, definition)) = tool.zip(self.context.offer.tool(name)) else {
            return refused(&self.call, format!("tool `{name}` is no longer available"));
        };
        let started_at = self.inner.clock.now();
        let mut outcome = match self.shared_budget_refusal().await {
            Some(refusal) => refused(&self.call, refusal),
            None => self.execute(tool.as_ref(), definition).await,
        };
        output::cap(
            &mut outcome.result,
            self.inner.settings.max_tool_result_bytes,
        );
        let took = (self.inner.clock.now() - started_at).num_milliseconds();
        outcome.duration_ms = u64::try_from(took).ok();
        outcome
    }

    /// Returns why the turns that share a budget may make no further call.
    async fn shared_budget_refusal(&self) -> Option<String> {
        let counted = self
            .shared_budget
            .as_ref()?
            .count_tool_call(self.exec_id)
            .await;
        counted.unwrap_or_else(|error| {
            tracing::error!(session = %self.session_id, %error, "the usage of a turn and its subagents cannot be read");
            Some("not run: the usage of this turn and its agents cannot be read".to_owned())
        })
    }

    /// Runs the pre-tool hooks, the tool and the post-tool hooks. Each has the tool's full timeout.
    async fn execute(&self, tool: &dyn Tool, definition: &ToolDefinition) -> ToolOutcome {
        let limit = self.timeout(definition);
        let emitter = Arc::new(StepEmitter::new(&self.inner, self.session_id, self.exec_id));
        let context = self.tool_context(&emitter);
        let call = match self.within(limit, self.before(definition, &context)).await {
            Some(Ok(call)) => call,
            Some(Err(refusal)) => return refused(&self.call, self.masked(refusal)),
            None => {
                return ToolOutcome {
                    refused: true,
                    ..timed_out(&self.call, limit)
                };
            }
        };
        let execution = tool.execute_with_context(call.arguments.clone(), &context);
        let mut outcome = match self.within(limit, execution).await {
            Some(result) => self.outcome_of(&call, result),
            None => timed_out(&call, limit),
        };
        emitter.flush_held().await;
        // The output of a tool belongs to the tool, except for the operator's secrets. They are masked before a hook stores the output elsewhere, and
        // before it is truncated, because a partial secret cannot be masked.
        if let Some(mask) = self.inner.secrets.operator_mask() {
            mask_result(&mask, &mut outcome.result);
            if let Some(RequiredWait::UserInput { prompt }) = &mut outcome.wait {
                mask.value(prompt);
            }
        }
        let hooks = self.after(&call, definition, &mut outcome.result, &context);
        match self.within(limit, hooks).await {
            Some(()) => outcome,
            // A hook may exist to hide something: without its verdict the result is not shown.
            None => timed_out(&call, limit),
        }
    }

    /// Runs the hooks that may change the call's arguments. Changed arguments are checked against the approval rules again, because an approval
    /// applies to the arguments that were shown.
    async fn before(
        &self,
        definition: &ToolDefinition,
        context: &ToolContext,
    ) -> Result<ToolCall, String> {
        let mut call = (*self.call).clone();
        let hooks = &self.context.contributions.pre_tool_use;
        if hooks.is_empty() {
            return Ok(call);
        }
        for hook in hooks {
            match hook.before_exec(call, definition, context).await {
                PreToolUseDecision::Continue(next) => call = next,
                PreToolUseDecision::Block { reason, .. } => {
                    return Err(format!("blocked: {reason}"));
                }
            }
        }
        call.id.clone_from(&self.call.id);
        call.name.clone_from(&self.call.name);
        if call.arguments != self.call.arguments {
            let changed = self.approval.check_changed(&call, &self.context.plan);
            changed.map_err(|refusal| format!("a hook changed the call: {refusal}"))?;
            check(&self.inner, definition, &call)?;
        }
        Ok(call)
    }

    /// Runs the hooks on the result.
    async fn after(
        &self,
        call: &ToolCall,
        definition: &ToolDefinition,
        result: &mut ToolResult,
        context: &ToolContext,
    ) {
        for hook in &self.context.contributions.post_tool_exec {
            hook.after_exec(call, definition, result, context).await;
        }
    }

    /// Runs a part of the call with a timeout; `None` if it expired.
    async fn within<T>(&self, limit: Option<Duration>, part: impl Future<Output = T>) -> Option<T> {
        let Some(limit) = limit else {
            return Some(part.await);
        };
        let mut part = pin!(part);
        // Most parts complete immediately and need no timer.
        if let Poll::Ready(output) = poll_fn(|cx| Poll::Ready(part.as_mut().poll(cx))).await {
            return Some(output);
        }
        let sleep = self.inner.clock.sleep(limit);
        tokio::select! {
            biased;
            output = part => Some(output),
            () = sleep => None,
        }
    }

    fn outcome_of(&self, call: &ToolCall, result: ToolExecutionResult) -> ToolOutcome {
        let wait = match &result {
            ToolExecutionResult::ConnectionRequired { provider } => {
                Some(RequiredWait::Connection {
                    provider: provider.clone(),
                })
            }
            ToolExecutionResult::UserInputRequired { request } => Some(RequiredWait::UserInput {
                prompt: request.clone(),
            }),
            ToolExecutionResult::InternalError(error) => {
                let error = self.masked(error.to_string());
                tracing::error!(
                    tool = call.name,
                    call = call.id,
                    error,
                    "a tool failed internally"
                );
                None
            }
            _ => None,
        };
        let status = if result.is_error() {
            ToolStatus::Error
        } else {
            ToolStatus::Success
        };
        ToolOutcome {
            wait,
            ..outcome(status, result.into_tool_result(&call.id, &call.name))
        }
    }

    /// Masks text that the tool did not return: a refusal, which may quote the arguments, or a log line.
    fn masked(&self, mut text: String) -> String {
        let session = self.inner.secrets.mask(self.session_id);
        let definition = self.context.offer.tool(&self.call.name);
        let own = secret_arguments(definition, &self.call);
        if let Some(mask) = Mask::with(session.as_ref(), own) {
            mask.text(&mut text);
        }
        text
    }

    fn timeout(&self, definition: &ToolDefinition) -> Option<Duration> {
        definition
            .hints()
            .timeout_ms
            .map(Duration::from_millis)
            .or(self.context.tool_timeout)
    }

    /// Returns the operator's secrets that the turn may use.
    fn secrets(&self) -> Option<NamedSecrets> {
        let all = &self.inner.settings.secrets;
        let own = (!all.is_empty()).then(|| all.of_owner(self.context.owner.as_deref()));
        own.filter(|own| !own.is_empty())
    }

    fn tool_context(&self, emitter: &Arc<StepEmitter>) -> ToolContext {
        let Inner {
            backends,
            files,
            platform,
            ..
        } = &*self.inner;
        let parts = &self.context.contributions;
        ToolContext {
            connection_resolver: backends.connection_resolver.clone(),
            file_store: Some(Arc::clone(files)),
            storage_store: Some(Arc::clone(&backends.storage_store)),
            message_retriever: Some(Arc::clone(&backends.views.messages) as _),
            session_store: Some(Arc::new(Arc::clone(&backends.session_store)) as _),
            session_mutator: Some(Arc::new(Arc::clone(&backends.session_store)) as _),
            agent_store: Some(Arc::new(Arc::clone(&backends.agent_store)) as _),
            egress_service: Some(Arc::new(RuledEgress {
                service: platform.egress_service(),
                rules: self.context.network_access.clone(),
            })),
            event_emitter: Some(Arc::clone(emitter) as _),
            event_context: Some(EventContext::of_step(self.turn_id, self.exec_id)),
            tool_call_id: Some(self.call.id.clone()),
            capability_registry: Some(platform.capability_registry().clone()),
            tool_registry: Some(Arc::clone(&parts.tools)),
            visible_tool_names: Some(Arc::clone(&self.context.offer.names)),
            network_access: self.context.network_access.clone(),
            locale: self.context.locale.clone(),
            environment: self.context.environment.clone(),
            secrets: self.secrets(),
            secret_places: self.inner.secrets.output_secrets(self.session_id),
            ..ToolContext::new(self.session_id)
        }
    }
}

/// Masks secrets in a result.
pub(crate) fn mask_result(mask: &Mask, result: &mut ToolResult) {
    if let Some(value) = &mut result.result {
        mask.value(value);
    }
    mask.optional(&mut result.error);
    mask.optional(&mut result.raw_output);
    mask.optional(&mut result.connection_required);
    for image in result.images.iter_mut().flatten() {
        mask.text(&mut image.base64);
    }
}

fn outcome(status: ToolStatus, result: ToolResult) -> ToolOutcome {
    ToolOutcome {
        status,
        result,
        duration_ms: None,
        wait: None,
        refused: false,
    }
}

fn failed(call: &ToolCall, error: String) -> ToolOutcome {
    outcome(ToolStatus::Error, ToolResult::failure(&call.id, error))
}

/// The outcome of a call whose tool did not run.
fn refused(call: &ToolCall, why: String) -> ToolOutcome {
    ToolOutcome {
        refused: true,
        ..failed(call, why)
    }
}

fn timed_out(call: &ToolCall, limit: Option<Duration>) -> ToolOutcome {
    let (name, limit) = (&call.name, limit.unwrap_or_default().as_millis());
    let error = format!("tool `{name}` did not finish within {limit} ms and was stopped");
    outcome(ToolStatus::Timeout, ToolResult::failure(&call.id, error))
}

/// Returns the names of the arguments that only the tool may read.
pub(crate) fn secret_names(definition: Option<&ToolDefinition>) -> &[String] {
    let names = definition.and_then(|definition| definition.hints().secret_arguments.as_deref());
    names.unwrap_or_default()
}

/// Returns the argument values of a call that only the tool may read.
pub(crate) fn secret_arguments(
    definition: Option<&ToolDefinition>,
    call: &ToolCall,
) -> Vec<Arc<Secret>> {
    let value_of = |name: &String| {
        let value = match call.arguments.get(name)? {
            Value::Null => return None,
            Value::String(text) => text.clone(),
            other => other.to_string(),
        };
        let is_long = value.len() >= MIN_SECRET_BYTES;
        is_long.then(|| Arc::new(Secret::new(name, &value)))
    };
    let names = secret_names(definition).iter();
    names.filter_map(value_of).collect()
}

/// The outcome of a previous process's call that was recorded without its secrets.
pub(crate) fn secrets_lost(call: &ToolCall) -> ToolOutcome {
    let text = "the process stopped before this call ran, and a secret in its arguments was not recorded: \
                call the tool again with the secret itself";
    refused(call, text.to_owned())
}

/// The outcome of a call that panicked or whose task is gone. The details are logged; the model gets only a short error.
pub(crate) fn panicked(call: &ToolCall) -> ToolOutcome {
    failed(call, INTERNAL_ERROR_TEXT.to_owned())
}
