//! Keeps secrets out of what a thread records: inputs are masked before anything is decided about them, so that
//! events, messages and the state never hold one. Only the tools get the calls as the model made them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use windlass_core::backend::{BackendEvent, BackendNotice};
use windlass_core::derived_id::{message_of_step, step_of_call};
use windlass_core::events::{EventData, LlmGenerationMetadata};
use windlass_core::message::{ContentPart, Message};
use windlass_core::tools::{ToolCall, ToolDefinition};
use windlass_core::traits::SECRET_MASK;
use windlass_core::typed_id::{ExecId, SessionId};
use windlass_turn::{Answer, Failure, Input, RequestedCall, Thread};
use zeroize::Zeroizing;

use super::actor::Actor;
use crate::inner::Inner;
use crate::panics::tried;
use crate::secrets::{Mask, mask_of};
use crate::steps::tool::{mask_result, secret_arguments};
use crate::turn_context::TurnContext;

/// The calls whose record is masked, as the model made them. They live as long as the turn, and only in memory.
#[derive(Default)]
pub(super) struct RealCalls {
    calls: HashMap<ExecId, Arc<ToolCall>>,
    /// Calls of an earlier life whose record is masked: what they were is gone.
    lost: HashSet<ExecId>,
}

impl RealCalls {
    /// Looks for calls that another life left behind.
    pub(super) fn after_a_life(thread: &Thread) -> Self {
        let act = thread.turn().and_then(|turn| turn.act());
        let calls = act.map_or(&[][..], |act| &act.calls);
        let masked = calls
            .iter()
            .filter(|call| shows_a_mask(&call.call.arguments));
        Self {
            calls: HashMap::new(),
            lost: masked.map(|call| call.exec_id).collect(),
        }
    }

    /// Returns the call to carry out; `None` when only its masked record is left.
    pub(super) fn take(
        &mut self,
        exec_id: ExecId,
        recorded: &Arc<ToolCall>,
    ) -> Option<Arc<ToolCall>> {
        if self.lost.contains(&exec_id) {
            return None;
        }
        Some(
            self.calls
                .remove(&exec_id)
                .unwrap_or_else(|| Arc::clone(recorded)),
        )
    }
}

fn shows_a_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(SECRET_MASK),
        Value::Array(values) => values.iter().any(shows_a_mask),
        Value::Object(entries) => {
            let named = entries.keys().any(|name| name.contains(SECRET_MASK));
            named || entries.values().any(shows_a_mask)
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Gets to know the secrets that a session has already. A store that cannot tell them keeps no turn from running: its
/// tools cannot read them either.
pub(super) async fn learn_secrets(inner: &Inner, session_id: SessionId) {
    let store = &inner.backends.storage_store;
    let learning = async {
        for secret in store.list_secrets(session_id).await? {
            // To read it is to know it; the copy is wiped at once.
            let value = store.get_secret(session_id, &secret.name).await?;
            drop(value.map(Zeroizing::new));
        }
        Ok(())
    };
    if let Err(error) = tried(learning).await {
        tracing::warn!(session = %session_id, %error, "the session's secrets cannot be read, so they are not masked");
    }
}

impl Actor {
    /// Takes secrets out of an input; returns what else of the moment must not show.
    pub(super) fn mask(
        &mut self,
        input: &mut Input,
        context: Option<&TurnContext>,
    ) -> Option<Mask> {
        let known = self.inner.secrets.mask(self.slot.session_id);
        if let Input::ModelFinished { exec_id, answer } = input {
            return self.mask_answer(*exec_id, answer, known, context);
        }
        if let Some(mask) = &known {
            mask_input(mask, input);
        }
        if let Some(mask) = self.inner.secrets.named_mask() {
            mask_returned(&mask, input);
        }
        known
    }

    /// Takes secrets out of an answer, and keeps the calls that this changes as they were.
    fn mask_answer(
        &mut self,
        exec_id: ExecId,
        answer: &mut Answer,
        known: Option<Mask>,
        context: Option<&TurnContext>,
    ) -> Option<Mask> {
        let definition = |call: &ToolCall| context?.offer.tool(&call.name);
        let declared = |requested: &RequestedCall| {
            secret_arguments(definition(&requested.call), &requested.call)
        };
        let declared = answer.calls.iter().flat_map(declared).collect();
        let mask = Mask::with(known.as_ref(), declared);
        let message_id = message_of_step(exec_id);
        for (n, RequestedCall { call, refusal }) in answer.calls.iter_mut().enumerate() {
            let names = secret_names(definition(call));
            if mask.is_none() && names.is_empty() {
                continue;
            }
            let real = Arc::new(call.clone());
            for name in names {
                hide(&mut call.arguments, name);
            }
            if let Some(mask) = &mask {
                mask.value(&mut call.arguments);
                mask.optional(refusal);
            }
            if call.arguments != real.arguments {
                let step = step_of_call(message_id, n);
                self.real_calls.calls.insert(step, real);
            }
        }
        if let Some(mask) = &mask {
            mask.text(&mut answer.text);
            mask_thinking(mask, &mut answer.thinking, &mut answer.thinking_signature);
            mask_metadata(mask, &mut answer.metadata);
        }
        mask
    }
}

fn secret_names(definition: Option<&ToolDefinition>) -> &[String] {
    let names = definition.and_then(|definition| definition.hints().secret_arguments.as_deref());
    names.unwrap_or_default()
}

/// Puts a mask in place of an argument, whatever it is.
fn hide(arguments: &mut Value, name: &str) {
    if let Some(value) = arguments.get_mut(name)
        && !value.is_null()
    {
        *value = Value::String(mask_of(name));
    }
}

/// What a tool returns is its own, and so is what a person answers in a tool's place.
fn mask_input(mask: &Mask, input: &mut Input) {
    match input {
        Input::Submit { message, .. }
        | Input::Steer { message, .. }
        | Input::Compact { message, .. } => {
            mask_parts(mask, &mut message.content);
            for value in message.metadata.iter_mut().flat_map(|map| map.values_mut()) {
                mask.value(value);
            }
        }
        Input::Import { message } => mask_message(mask, message),
        Input::Begin { failure, .. } => {
            if let Some(failure) = failure {
                mask_failure(mask, failure);
            }
        }
        Input::Interrupt { reason, .. } | Input::Approval { reason, .. } => {
            mask.optional(reason);
        }
        Input::GiveUp { failure } => mask_failure(mask, failure),
        Input::ModelFailed {
            failure, metadata, ..
        } => {
            mask_failure(mask, failure);
            mask_metadata(mask, metadata);
        }
        Input::Emit { data, .. } => mask_emitted(mask, data),
        Input::Note { data } => mask_note(mask, data),
        Input::BackendSaid { event, .. } => mask_told(mask, event),
        Input::BackendEnded { outcome, .. } => {
            if let Err(error) = &mut outcome.result {
                mask.text(&mut error.message);
            }
        }
        Input::ModelFinished { .. }
        | Input::BackendSession { .. }
        | Input::BackendPause { .. }
        | Input::BackendSteered { .. }
        | Input::ToolFinished { .. }
        | Input::ToolResults { .. }
        | Input::UserAnswer { .. }
        | Input::Rewind { .. }
        | Input::Timer
        | Input::Recover
        | Input::Release => {}
    }
}

/// Takes out what even a tool must not show of the operator's. Those that run here are masked where they run.
fn mask_returned(mask: &Mask, input: &mut Input) {
    match input {
        Input::ToolResults { results } => {
            for result in results {
                mask_result(mask, result);
            }
        }
        Input::UserAnswer { answer, .. } => {
            mask.value(answer);
        }
        Input::BackendSaid { event, .. } => {
            if let BackendEvent::ToolCompleted(result) = &mut **event {
                mask.value(&mut result.output);
            }
        }
        _ => {}
    }
}

/// What a call of an agent returns is its own, as that of our tools.
fn mask_told(mask: &Mask, event: &mut BackendEvent) {
    match event {
        BackendEvent::Text { text, .. }
        | BackendEvent::Thinking { text, .. }
        | BackendEvent::ToolOutput { text, .. } => {
            mask.text(text);
        }
        // The name of a call may be the command itself.
        BackendEvent::ToolStarted(call) => {
            mask.text(&mut call.name);
            mask.value(&mut call.arguments);
        }
        BackendEvent::Permission(request) => {
            mask.text(&mut request.name);
            mask.value(&mut request.arguments);
            mask.optional(&mut request.title);
        }
        BackendEvent::Notice(
            BackendNotice::Retry { message: text, .. }
            | BackendNotice::Warning(text)
            | BackendNotice::Raw { line: text, .. },
        ) => {
            mask.text(text);
        }
        BackendEvent::Started { .. }
        | BackendEvent::ToolCompleted(_)
        | BackendEvent::PermissionWithdrawn { .. }
        | BackendEvent::Usage(_)
        | BackendEvent::Notice(_) => {}
    }
}

fn mask_message(mask: &Mask, message: &mut Message) {
    mask_parts(mask, &mut message.content);
    mask_thinking(mask, &mut message.thinking, &mut message.thinking_signature);
    for value in message.metadata.iter_mut().flat_map(|map| map.values_mut()) {
        mask.value(value);
    }
}

fn mask_parts(mask: &Mask, parts: &mut [ContentPart]) {
    for part in parts {
        match part {
            ContentPart::Text(part) => {
                mask.text(&mut part.text);
            }
            ContentPart::Image(part) => {
                mask.optional(&mut part.url);
            }
            ContentPart::ToolCall(part) => {
                mask.value(&mut part.arguments);
            }
            ContentPart::ImageFile(_) | ContentPart::ToolResult(_) => {}
        }
    }
}

/// The provider's proof is of the words that it sent: it goes with them.
fn mask_thinking(mask: &Mask, thinking: &mut Option<String>, proof: &mut Option<String>) {
    if mask.optional(thinking) {
        *proof = None;
    }
}

fn mask_metadata(mask: &Mask, metadata: &mut LlmGenerationMetadata) {
    mask.optional(&mut metadata.error);
    for reason in metadata.finish_reasons.iter_mut().flatten() {
        mask.text(reason);
    }
}

fn mask_failure(mask: &Mask, failure: &mut Failure) {
    mask.text(&mut failure.message);
    mask.text(&mut failure.user_message);
    for value in failure.fields.iter_mut().flat_map(|map| map.values_mut()) {
        mask.value(value);
    }
}

/// What the host keeps of a session, as it came.
fn mask_note(mask: &Mask, data: &mut EventData) {
    let (title, record) = match data {
        EventData::SessionStarted(data) => (Some(&mut data.title), &mut data.record),
        EventData::SessionUpdated(data) => (Some(&mut data.title), &mut data.record),
        EventData::SessionForked(data) => (None, &mut data.record),
        // The host can note nothing else.
        _ => return,
    };
    if let Some(title) = title {
        mask.optional(title);
    }
    if let Some(record) = record {
        mask.value(record);
    }
}

fn mask_emitted(mask: &Mask, data: &mut EventData) {
    match data {
        EventData::ToolProgress(data) => {
            mask.text(&mut data.message);
        }
        EventData::ToolOutputDelta(data) => {
            mask.text(&mut data.delta);
        }
        EventData::Custom(data) => {
            mask.value(&mut data.payload);
        }
        EventData::TaskCreated(data) => {
            mask.text(&mut data.title);
        }
        EventData::FileWritten(data) => {
            mask.text(&mut data.path);
        }
        EventData::CapabilityUsage(data) => {
            if let Some(details) = &mut data.details {
                mask.value(details);
            }
        }
        EventData::SubagentStarted(data) => {
            mask.text(&mut data.name);
            mask.optional(&mut data.task);
        }
        EventData::SubagentCompleted(data) => {
            mask.text(&mut data.name);
            mask.optional(&mut data.result);
        }
        // A step can record nothing else that has a text.
        _ => {}
    }
}
