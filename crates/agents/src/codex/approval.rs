//! What Codex asks before it runs a command or changes files.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use windlass_core::backend::{
    BackendEvent, PermissionDecision, PermissionRequest, PermissionScope,
};

use crate::json::{id, is_large, request_name, text};
use crate::protocol::Step;

/// How many requests may be open.
const MAX_OPEN: usize = 64;

/// A request that is open.
struct Open {
    id: Value,
    /// What may be answered; all of it if Codex does not say.
    decisions: Option<Vec<String>>,
}

/// The requests that are open.
#[derive(Default)]
pub(super) struct Approvals(BTreeMap<String, Open>);

impl Approvals {
    pub(super) fn any(&self) -> bool {
        !self.0.is_empty()
    }

    /// Reads a request; `None` if it is about something else.
    pub(super) fn ask(&mut self, request: &Value, method: &str, params: &Value) -> Option<Step> {
        let name = match method {
            "item/commandExecution/requestApproval" => "commandExecution",
            "item/fileChange/requestApproval" => "fileChange",
            _ => return None,
        };
        // What is too large to be shown cannot be decided about.
        if self.0.len() >= MAX_OPEN || is_large(params) {
            return None;
        }
        let request_id = request_name(request)?;
        let decisions = params.get("availableDecisions").and_then(Value::as_array);
        let decisions = decisions.map(|all| {
            let texts = all.iter().filter_map(Value::as_str);
            texts.map(str::to_owned).collect::<Vec<_>>()
        });
        let open = Open {
            id: request.clone(),
            decisions,
        };
        let can_allow_always = open.may("acceptForSession");
        self.0.insert(request_id.clone(), open);
        let fields = ["command", "cwd", "reason", "grantRoot"].into_iter();
        let arguments =
            fields.filter_map(|field| Some((field.to_owned(), params.get(field)?.clone())));
        Some(Step::Event(BackendEvent::Permission(PermissionRequest {
            id: request_id,
            call_id: id(params, "itemId").map(str::to_owned),
            name: name.to_owned(),
            arguments: Value::Object(arguments.collect()),
            title: text(params, "command").map(str::to_owned),
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
        let word = match decision {
            PermissionDecision::Allow {
                scope: PermissionScope::Always,
                ..
            } if open.may("acceptForSession") => "acceptForSession",
            PermissionDecision::Allow { .. } => "accept",
            // Also where it is not offered: Codex takes it, and `cancel` would interrupt the turn.
            PermissionDecision::Deny { .. } => "decline",
        };
        Some((open.id, json!({"decision": word})))
    }

    /// The turn is over, and nobody waits any more.
    pub(super) fn withdraw_all(&mut self) -> Vec<Step> {
        let open = std::mem::take(&mut self.0);
        let withdrawn = open
            .into_keys()
            .map(|request_id| Step::Event(BackendEvent::PermissionWithdrawn { request_id }));
        withdrawn.collect()
    }
}

impl Open {
    fn may(&self, decision: &str) -> bool {
        let listed = self.decisions.as_ref();
        listed.is_none_or(|all| all.iter().any(|one| one == decision))
    }
}
