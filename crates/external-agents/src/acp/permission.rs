//! Permission requests from an agent. Options are selected by kind, because option IDs are agent-specific.

use serde_json::{Value, json};
use windlass_core::backend::{PermissionDecision, PermissionRequest};

use crate::json::{fields, id, request_name, text};
use crate::permission::OpenPermissions;
use crate::protocol::Step;

pub(super) struct OpenPermission {
    pub(super) id: Value,
    /// Kind and ID of each option.
    options: Vec<(String, String)>,
}

pub(super) type Permissions = OpenPermissions<OpenPermission>;

/// The response to a request that no longer needs a decision.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

impl Permissions {
    /// Opens a request. Returns `None` if it cannot be answered.
    pub(super) fn ask(&mut self, request: &Value, params: &Value) -> Option<Step> {
        let request_id = request_name(request).filter(|_| self.accepts(params))?;
        let call = &params["toolCall"];
        let options = params["options"].as_array();
        let options = options.into_iter().flatten().filter_map(|option| {
            let kind = text(option, "kind")?;
            Some((kind.to_owned(), text(option, "optionId")?.to_owned()))
        });
        let open = OpenPermission {
            id: request.clone(),
            options: options.collect(),
        };
        let title = text(call, "title");
        let permission = PermissionRequest {
            id: request_id,
            call_id: id(call, "toolCallId").map(str::to_owned),
            name: text(call, "kind").or(title).unwrap_or("unknown").to_owned(),
            arguments: arguments(call),
            title: title.map(str::to_owned),
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
        let kind = match decision {
            // Never grant more than the decision allows, even if the agent offers no narrower option.
            PermissionDecision::Allow => "allow_once",
            PermissionDecision::Deny { .. } => "reject_once",
        };
        let mut options = open.options.iter();
        let answer = match options.find(|(option_kind, _)| option_kind == kind) {
            Some((_, option)) => json!({"outcome": {"outcome": "selected", "optionId": option}}),
            None => cancelled(),
        };
        Some((open.id, answer))
    }
}

/// Returns the arguments of a call. Gemini reports none, so its title and file changes describe the call.
fn arguments(call: &Value) -> Value {
    let raw = call.get("rawInput").filter(|input| !input.is_null());
    let described = || fields(call, &["title", "content", "locations"]);
    raw.cloned().unwrap_or_else(described)
}

#[cfg(test)]
mod tests {
    use windlass_core::backend::BackendEvent;

    use super::*;

    /// A permission request for a command whose arguments the agent does not report.
    fn request_for(title: &str) -> PermissionRequest {
        let call = json!({"toolCallId": "c", "title": title, "kind": "execute"});
        let params = json!({"options": [], "toolCall": call});
        match Permissions::default().ask(&json!(1), &params) {
            Some(Step::Event(BackendEvent::Permission(request))) => request,
            other => panic!("{other:?}"),
        }
    }

    /// Decisions are matched by name and arguments, so two different commands must not match.
    #[test]
    fn commands_with_titles_only_are_distinguished() {
        let (harmless, other) = (request_for("touch x"), request_for("rm -r ."));
        assert_eq!(harmless.name, other.name);
        assert_ne!(harmless.arguments, other.arguments);
        assert_eq!(harmless.arguments, request_for("touch x").arguments);
    }
}
