//! Permission requests of Codex, sent before commands and file changes.

use serde_json::{Value, json};
use windlass_core::backend::{PermissionDecision, PermissionRequest};

use crate::json::{id, request_name, text};
use crate::permission::OpenPermissions;
use crate::protocol::Step;

/// The JSON-RPC ID of an open request.
pub(super) struct OpenApproval(Value);

pub(super) type CodexApprovals = OpenPermissions<OpenApproval>;

impl CodexApprovals {
    /// Opens a request. Returns `None` if it is of another kind or cannot be answered.
    pub(super) fn ask(&mut self, request: &Value, method: &str, params: &Value) -> Option<Step> {
        let name = match method {
            "item/commandExecution/requestApproval" => "commandExecution",
            "item/fileChange/requestApproval" => "fileChange",
            _ => return None,
        };
        let request_id = request_name(request).filter(|_| self.accepts(params))?;
        let fields = ["command", "cwd", "reason", "grantRoot"].into_iter();
        let arguments =
            fields.filter_map(|field| Some((field.to_owned(), params.get(field)?.clone())));
        let permission = PermissionRequest {
            id: request_id,
            call_id: id(params, "itemId").map(str::to_owned),
            name: name.to_owned(),
            arguments: Value::Object(arguments.collect()),
            title: text(params, "command").map(str::to_owned),
        };
        Some(self.open(permission, OpenApproval(request.clone())))
    }

    /// Returns the JSON-RPC request ID and the response.
    pub(super) fn answer(
        &mut self,
        request: &str,
        decision: &PermissionDecision,
    ) -> Option<(Value, Value)> {
        let OpenApproval(id) = self.take(request)?;
        let answer = match decision {
            PermissionDecision::Allow => "accept",
            // Used even if it is not offered: Codex accepts it, and `cancel` would interrupt the turn.
            PermissionDecision::Deny { .. } => "decline",
        };
        Some((id, json!({"decision": answer})))
    }
}
