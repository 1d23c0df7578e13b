//! Permission requests of Claude Code, which come before its tool calls.

use serde_json::{Value, json};
use windlass_core::backend::{PermissionDecision, PermissionRequest};

use crate::json::{id, text};
use crate::permission::{OpenPermissions, withdrawn};
use crate::protocol::Step;

/// The open requests, each with the arguments of its tool call.
pub(super) type Permissions = OpenPermissions<Value>;

impl Permissions {
    /// Opens a request. A request that cannot be answered is denied, so that the program does not wait.
    pub(super) fn ask(&mut self, message: &Value) -> Vec<Step> {
        let Some(request_id) = id(message, "request_id") else {
            return Vec::new();
        };
        let request = &message["request"];
        let is_permission = text(request, "subtype") == Some("can_use_tool");
        if !is_permission || !self.accepts(request) {
            return refuse(message);
        }
        let arguments = request.get("input").cloned().unwrap_or(Value::Null);
        let permission = PermissionRequest {
            id: request_id.to_owned(),
            call_id: id(request, "tool_use_id").map(str::to_owned),
            name: text(request, "tool_name").unwrap_or("unknown").to_owned(),
            arguments: arguments.clone(),
            title: text(request, "title").map(str::to_owned),
        };
        vec![self.open(permission, arguments)]
    }

    pub(super) fn answer(
        &mut self,
        request: &str,
        decision: &PermissionDecision,
    ) -> Option<Vec<Step>> {
        let arguments_of_call = self.take(request)?;
        let response = match decision {
            PermissionDecision::Allow => {
                json!({"behavior": "allow", "updatedInput": arguments_of_call})
            }
            PermissionDecision::Deny { message } => json!({"behavior": "deny", "message": message}),
        };
        let answer = json!({"subtype": "success", "request_id": request, "response": response});
        Some(vec![respond(answer)])
    }

    /// Closes a request that the program has withdrawn.
    pub(super) fn withdraw(&mut self, request: &str) -> Option<Step> {
        let open = self.take(request);
        open.map(|_| withdrawn(request.to_owned()))
    }
}

/// Denies a request, so that the program does not wait for an answer.
pub(super) fn refuse(message: &Value) -> Vec<Step> {
    let refusal = id(message, "request_id").map(|request_id| {
        respond(json!({"subtype": "error", "request_id": request_id, "error": "not supported"}))
    });
    refusal.into_iter().collect()
}

fn respond(response: Value) -> Step {
    Step::Send(json!({"type": "control_response", "response": response}).to_string())
}
