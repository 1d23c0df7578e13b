//! Masks secrets in a thread's records. Events are masked as they are drafted, so neither record nor state contains a secret. Parts of inputs that
//! are cut, compared or digested first are masked before the decision. Only the tools get the unmasked calls.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use serde_json::Value;
use windlass_core::backend::{BackendEvent, BackendNotice};
use windlass_core::derived_id::{message_of_step, step_of_call};
use windlass_core::tools::ToolCall;
use windlass_core::traits::SECRET_MASK;
use windlass_core::typed_id::{ExecId, SessionId};
use windlass_turn::{Answer, Input, RequestedCall, Thread};
use zeroize::Zeroizing;

use super::actor::Actor;
use crate::inner::Inner;
use crate::panics::call_store;
use crate::secrets::{EventMask, Mask, mask_of, mask_parts};
use crate::steps::tool::{secret_arguments, secret_names};

/// The unmasked form of calls whose record is masked. It exists as long as the turn, and only in memory.
#[derive(Default)]
pub(super) struct UnmaskedCalls {
    calls: HashMap<ExecId, Arc<ToolCall>>,
    /// Calls of a previous process whose record is masked; their unmasked form is lost.
    lost: HashSet<ExecId>,
}

impl UnmaskedCalls {
    /// Finds the masked calls that a previous process left open.
    pub(super) fn from_previous_process(thread: &Thread) -> Self {
        let act = thread.turn().and_then(|turn| turn.act());
        let calls = act.map_or(&[][..], |act| &act.calls);
        let masked = calls
            .iter()
            .filter(|call| contains_mask(&call.call.arguments));
        Self {
            calls: HashMap::new(),
            lost: masked.map(|call| call.exec_id).collect(),
        }
    }

    /// Returns the unmasked call to run; `None` when only its masked record is left.
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

fn contains_mask(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains(SECRET_MASK),
        Value::Array(values) => values.iter().any(contains_mask),
        Value::Object(entries) => {
            let mut entries = entries.iter();
            entries.any(|(name, value)| name.contains(SECRET_MASK) || contains_mask(value))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

/// Registers the existing secrets of a session. A store that cannot read them does not prevent the turn, because its tools cannot read them either.
pub(super) async fn learn_secrets(inner: &Inner, session_id: SessionId) {
    let store = &inner.backends.storage_store;
    let learning = async {
        for secret in store.list_secrets(session_id).await? {
            // Reading a secret registers it; the copy is wiped immediately.
            let value = store.get_secret(session_id, &secret.name).await?;
            drop(value.map(Zeroizing::new));
        }
        Ok(())
    };
    if let Err(error) = call_store(learning).await {
        tracing::warn!(session = %session_id, %error, "the session's secrets cannot be read, so they are not masked");
    }
}

impl Actor {
    /// Masks the parts of an input that are cut, compared or digested before they are recorded; returns the mask of the events.
    pub(super) fn mask(&mut self, input: &mut Input) -> Option<EventMask> {
        let mut all = self.inner.secrets.mask(self.slot.session_id);
        match input {
            Input::ModelFinished { exec_id, answer } => {
                all = self.mask_calls(*exec_id, answer, all);
            }
            input => {
                if let Some(mask) = &all {
                    mask_input(mask, input);
                }
            }
        }
        let operator = self.inner.secrets.operator_mask();
        let is_needed = all.is_some() || operator.is_some();
        is_needed.then_some(EventMask { all, operator })
    }

    /// Masks the calls of an answer, and retains the original of each call that this changes. Arguments that tools declare secret are masked in the
    /// whole answer.
    fn mask_calls(
        &mut self,
        exec_id: ExecId,
        answer: &mut Answer,
        known: Option<Mask>,
    ) -> Option<Mask> {
        let context = self.context.as_ref();
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
            let unmasked = Arc::new(call.clone());
            for name in names {
                hide(&mut call.arguments, name);
            }
            if let Some(mask) = &mask {
                mask.value(&mut call.arguments);
                mask.optional(refusal);
            }
            if call.arguments != unmasked.arguments {
                let step = step_of_call(message_id, n);
                self.unmasked_calls.calls.insert(step, unmasked);
            }
        }
        mask
    }
}

/// Replaces an argument of any type with a mask.
fn hide(arguments: &mut Value, name: &str) {
    if let Some(value) = arguments.get_mut(name)
        && !value.is_null()
    {
        *value = Value::String(mask_of(name));
    }
}

fn mask_input(mask: &Mask, input: &mut Input) {
    match input {
        // Summaries are derived from the message.
        Input::Submit { message, .. }
        | Input::Steer { message, .. }
        | Input::Compact { message, .. } => mask_parts(mask, &mut message.content),
        Input::EditQueued { edit, .. } => mask_parts(mask, edit.content.iter_mut().flatten()),
        Input::BackendReported { event, .. } => mask_backend_event(mask, event),
        _ => {}
    }
}

/// The output of an external agent's call belongs to the agent, like that of built-in tools.
fn mask_backend_event(mask: &Mask, event: &mut BackendEvent) {
    match event {
        BackendEvent::Text { text, .. }
        | BackendEvent::Thinking { text, .. }
        | BackendEvent::ToolOutput { text, .. } => mask.text(text),
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
        ) => mask.text(text),
        BackendEvent::Started { .. }
        | BackendEvent::ToolCompleted(_)
        | BackendEvent::PermissionWithdrawn { .. }
        | BackendEvent::Usage(_)
        | BackendEvent::Notice(_) => {}
    }
}
