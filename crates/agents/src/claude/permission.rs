//! What Claude Code asks before it calls a tool.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::backend::{BackendEvent, PermissionDecision, PermissionRequest};

use crate::json::{id, is_large, text};
use crate::protocol::Step;

/// How many requests may be open.
const MAX_OPEN: usize = 64;

/// The requests that are open, with what each tool is to be called with.
#[derive(Debug, Default)]
pub(super) struct Permissions(BTreeMap<String, Value>);

impl Permissions {
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Reads a request of the program's. One that nobody here can answer is refused, so that it does not wait.
    pub(super) fn ask(&mut self, message: &Value) -> Vec<Step> {
        let Some(request_id) = id(message, "request_id") else {
            return Vec::new();
        };
        let request = message.get("request").unwrap_or(&Value::Null);
        let is_known = text(request, "subtype") == Some("can_use_tool");
        // What is too large to be shown cannot be decided about.
        if !is_known || self.0.len() >= MAX_OPEN || is_large(request) {
            return refuse(message);
        }
        let arguments = request.get("input").cloned().unwrap_or(Value::Null);
        self.0.insert(request_id.to_owned(), arguments.clone());
        vec![Step::Event(BackendEvent::Permission(PermissionRequest {
            id: request_id.to_owned(),
            call_id: id(request, "tool_use_id").map(str::to_owned),
            name: text(request, "tool_name").unwrap_or("unknown").to_owned(),
            arguments,
            title: text(request, "title").map(str::to_owned),
            can_allow_always: false,
        }))]
    }

    pub(super) fn answer(
        &mut self,
        request: &str,
        decision: &PermissionDecision,
    ) -> Option<Vec<Step>> {
        let asked = self.0.remove(request)?;
        let response = match decision {
            PermissionDecision::Allow { arguments, .. } => {
                let input = arguments.clone().unwrap_or(asked);
                json!({"behavior": "allow", "updatedInput": input})
            }
            PermissionDecision::Deny { message } => json!({"behavior": "deny", "message": message}),
        };
        let answer = json!({"subtype": "success", "request_id": request, "response": response});
        Some(vec![respond(answer)])
    }

    /// The program no longer waits for one.
    pub(super) fn withdraw(&mut self, request: &str) -> Vec<Step> {
        let asked = self.0.remove(request);
        asked
            .map(|_| withdrawn(request.to_owned()))
            .into_iter()
            .collect()
    }

    /// The turn is over, and nobody waits any more.
    pub(super) fn withdraw_all(&mut self) -> Vec<Step> {
        let open = std::mem::take(&mut self.0);
        open.into_keys().map(withdrawn).collect()
    }
}

/// Refuses a request, so that the program does not wait for an answer.
pub(super) fn refuse(message: &Value) -> Vec<Step> {
    let refusal = id(message, "request_id").map(|request_id| {
        respond(json!({"subtype": "error", "request_id": request_id, "error": "not supported"}))
    });
    refusal.into_iter().collect()
}

fn withdrawn(request_id: String) -> Step {
    Step::Event(BackendEvent::PermissionWithdrawn { request_id })
}

fn respond(response: Value) -> Step {
    Step::Send(json!({"type": "control_response", "response": response}).to_string())
}
