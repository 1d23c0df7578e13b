//! Permission requests of Codex, sent before commands and file changes.

use serde_json::{Value, json};
use windlass_core::backend::{PermissionDecision, PermissionRequest, PermissionScope};

use crate::json::{id, request_name, text};
use crate::permission::OpenPermissions;
use crate::protocol::Step;

pub(super) struct OpenApproval {
    id: Value,
    /// The decisions that Codex offers; `None` means all of them.
    decisions: Option<Vec<String>>,
}

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
        let decisions = params["availableDecisions"].as_array();
        let decisions = decisions.map(|all| {
            let texts = all.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect::<Vec<_>>()
        });
        let open = OpenApproval {
            id: request.clone(),
            decisions,
        };
        let fields = ["command", "cwd", "reason", "grantRoot"].into_iter();
        let arguments =
            fields.filter_map(|field| Some((field.to_owned(), params.get(field)?.clone())));
        let permission = PermissionRequest {
            id: request_id,
            call_id: id(params, "itemId").map(str::to_owned),
            name: name.to_owned(),
            arguments: Value::Object(arguments.collect()),
            title: text(params, "command").map(str::to_owned),
            can_allow_always: open.offers("acceptForSession"),
        };
        Some(self.open(permission, open))
    }

    /// Returns the JSON-RPC request ID and the response.
    pub(super) fn answer(
        &mut self,
        request: &str,
        decision: &PermissionDecision,
    ) -> Option<(Value, Value)> {
        let open = self.take(request)?;
        let answer = match decision {
            PermissionDecision::Allow {
                scope: PermissionScope::Always,
                ..
            } if open.offers("acceptForSession") => "acceptForSession",
            PermissionDecision::Allow { .. } => "accept",
            // Used even if it is not offered: Codex accepts it, and `cancel` would interrupt the turn.
            PermissionDecision::Deny { .. } => "decline",
        };
        Some((open.id, json!({"decision": answer})))
    }
}

impl OpenApproval {
    fn offers(&self, decision: &str) -> bool {
        let listed = self.decisions.as_ref();
        listed.is_none_or(|all| all.iter().any(|one| one == decision))
    }
}
