//! What an agent asks before it does something. Options are chosen by their kind: their ids are the agent's own.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEvent, PermissionDecision, PermissionRequest, PermissionScope,
};

use crate::json::{id, is_large, request_name, text};
use crate::protocol::Step;

/// How many requests may be open.
const MAX_OPEN: usize = 64;

struct Open {
    id: Value,
    /// Kind and id of each option.
    options: Vec<(String, String)>,
}

/// The requests that are open.
#[derive(Default)]
pub(super) struct Permissions(BTreeMap<String, Open>);

/// The answer that nobody decided.
pub(super) fn cancelled() -> Value {
    json!({"outcome": {"outcome": "cancelled"}})
}

impl Permissions {
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Reads a request; `None` if there are too many already, or it is too large.
    pub(super) fn ask(&mut self, request: &Value, params: &Value) -> Option<Step> {
        // What is too large to be shown cannot be decided about.
        if self.0.len() >= MAX_OPEN || is_large(params) {
            return None;
        }
        let request_id = request_name(request)?;
        let call = params.get("toolCall").unwrap_or(&Value::Null);
        let options = params.get("options").and_then(Value::as_array);
        let options = options.into_iter().flatten().filter_map(|option| {
            let kind = text(option, "kind")?;
            Some((kind.to_owned(), text(option, "optionId")?.to_owned()))
        });
        let open = Open {
            id: request.clone(),
            options: options.collect(),
        };
        let can_allow_always = open.option("allow_always").is_some();
        self.0.insert(request_id.clone(), open);
        let title = text(call, "title");
        Some(Step::Event(BackendEvent::Permission(PermissionRequest {
            id: request_id,
            call_id: id(call, "toolCallId").map(str::to_owned),
            name: text(call, "kind").or(title).unwrap_or("unknown").to_owned(),
            arguments: arguments(call),
            title: title.map(str::to_owned),
            can_allow_always,
        })))
    }

    /// Returns the request's own id and what to answer.
    pub(super) fn answer(
        &mut self,
        request: &str,
        decision: &PermissionDecision,
    ) -> Option<(Value, Value)> {
        let open = self.0.remove(request)?;
        let kinds: &[&str] = match decision {
            PermissionDecision::Allow {
                scope: PermissionScope::Always,
                ..
            } => &["allow_always", "allow_once"],
            // Nothing more is allowed than was meant, also where the agent offers nothing less.
            PermissionDecision::Allow {
                scope: PermissionScope::Once,
                ..
            } => &["allow_once"],
            PermissionDecision::Deny { .. } => &["reject_once"],
        };
        let chosen = kinds.iter().find_map(|kind| open.option(kind));
        let answer = match chosen {
            Some(option) => json!({"outcome": {"outcome": "selected", "optionId": option}}),
            None => cancelled(),
        };
        Some((open.id, answer))
    }

    /// Nobody decides any more. Returns the requests' own ids and their names.
    pub(super) fn withdraw_all(&mut self) -> Vec<(Value, String)> {
        let open = std::mem::take(&mut self.0);
        open.into_iter()
            .map(|(name, open)| (open.id, name))
            .collect()
    }
}

/// Returns what a call is to be made with. Gemini does not tell it: there the title and the changes to files say what is asked.
fn arguments(call: &Value) -> Value {
    let told = |field: &str| call.get(field).filter(|value| !value.is_null()).cloned();
    told("rawInput").unwrap_or_else(|| {
        let fields = ["title", "content", "locations"].into_iter();
        let fields = fields.filter_map(|field| Some((field.to_owned(), told(field)?)));
        Value::Object(fields.collect())
    })
}

impl Open {
    fn option(&self, kind: &str) -> Option<&str> {
        let mut options = self.options.iter();
        let found = options.find(|(of_kind, _)| of_kind == kind);
        found.map(|(_, option)| option.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What was asked for a command, whose arguments the agent does not tell.
    fn asked(title: &str) -> PermissionRequest {
        let call = json!({"toolCallId": "c", "title": title, "kind": "execute"});
        let params = json!({"options": [], "toolCall": call});
        match Permissions::default().ask(&json!(1), &params) {
            Some(Step::Event(BackendEvent::Permission(request))) => request,
            other => panic!("{other:?}"),
        }
    }

    /// A decision is found again by name and arguments, and one command is not another.
    #[test]
    fn two_commands_are_told_apart_where_an_agent_gives_only_their_titles() {
        let (harmless, other) = (asked("touch x"), asked("rm -r ."));
        assert_eq!(harmless.name, other.name);
        assert_ne!(harmless.arguments, other.arguments);
        assert_eq!(harmless.arguments, asked("touch x").arguments);
    }
}
