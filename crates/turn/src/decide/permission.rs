//! Permission requests of an external agent, which become approvals.

use serde_json::json;
use windlass_core::backend::PermissionRequest;
use windlass_core::digest::Digest128;
use windlass_core::events::{ApprovalDecidedData, ApprovalRequiredData, Decision, ToolStatus};
use windlass_core::remembered_calls::call_digest;
use windlass_core::tools::{ToolCall, ToolResult};
use windlass_core::typed_id::ExecId;
use windlass_policy::ApprovalAction;

use super::act::REFUSED_BY_RULE;
use super::backend::not_open;
use crate::decision::{Command, Rejected};
use crate::draft::Draft;
use crate::state::{Call, CallState};

const WITHDRAWN: &str = "the agent no longer asks for it";
const DECIDED_BEFORE: &str = "it was decided before the agent's process was gone";

/// The call that a permission request refers to.
struct ReferencedCall {
    step: ExecId,
    /// Whether it is neither approved nor waiting for an approval.
    is_open: bool,
    /// Digest of the approved call.
    allowed: Option<Digest128>,
}

impl Draft<'_> {
    /// Turns a permission request into an ordinary approval, which the same clients decide.
    pub(super) fn ask_permission(
        &mut self,
        exec_id: ExecId,
        request: PermissionRequest,
    ) -> Result<(), Rejected> {
        let PermissionRequest {
            id: request_id,
            call_id,
            name,
            arguments,
            title,
            ..
        } = request;
        let run = self.running_backend(exec_id)?;
        // An agent may reuse the ID of an answered request for another one.
        let is_open = |call: &Call| matches!(call.state, CallState::AwaitingApproval { .. });
        if run.call_of_request(&request_id).is_some_and(is_open) {
            return Ok(());
        }
        if call_id
            .as_ref()
            .is_some_and(|id| run.ended_by_us.contains(id))
        {
            self.answer_request(exec_id, request_id, Decision::Deny, None);
            return Ok(());
        }
        let referenced = call_id.as_deref().and_then(|id| run.call_by_id(id));
        let mut requested = ToolCall {
            id: call_id.clone().unwrap_or_else(|| request_id.clone()),
            name,
            arguments,
        };
        if let Some(call) = referenced.filter(|_| requested.arguments.is_null()) {
            // The request contains only the ID of the call.
            requested.name.clone_from(&call.call.name);
            requested.arguments.clone_from(&call.call.arguments);
        }
        let referenced = referenced.map(|call| {
            let is_allowed = self.thread.verdict_on(call.exec_id) == Some(Decision::Allow);
            ReferencedCall {
                step: call.exec_id,
                is_open: matches!(call.state, CallState::Running { .. }) && !is_allowed,
                allowed: run
                    .permission_of(call.exec_id)
                    .filter(|_| is_allowed)
                    .map(|it| call_digest(&it.call)),
            }
        });
        // An approval covers the call as it was requested, not any later call with the same name.
        let allowed = referenced
            .as_ref()
            .and_then(|referenced| referenced.allowed);
        let is_allowed = allowed == Some(call_digest(&requested));
        let allows_all = self
            .plan()
            .backend
            .as_ref()
            .is_some_and(|backend| backend.allows_all);
        let auto_approves = allows_all || self.turn().is_some_and(|turn| turn.auto_approves);
        let rules = &self.plan().approvals;
        match rules.decide(&requested.name, &requested.arguments, true) {
            ApprovalAction::Deny => {
                let why = Some(REFUSED_BY_RULE.to_owned());
                self.answer_request(exec_id, request_id, Decision::Deny, why);
                return Ok(());
            }
            ApprovalAction::Ask if !auto_approves && !is_allowed => {}
            ApprovalAction::Ask | ApprovalAction::Allow => {
                self.answer_request(exec_id, request_id, Decision::Allow, None);
                return Ok(());
            }
        }
        let step = match referenced {
            Some(referenced) if referenced.is_open => Some(referenced.step),
            // The permission request arrived before the call's own event.
            None => self.open_observed(requested.clone()),
            // The agent requests a permission for an approved or ended call again: the request itself becomes a call.
            Some(_) => {
                requested.id.clone_from(&request_id);
                self.open_observed(requested.clone())
            }
        };
        if let Some(call) = step.and_then(|step| self.call(step)).cloned() {
            self.require(&call, requested, request_id, title);
        }
        Ok(())
    }

    /// Requires an approval for the call as the request describes it, even if the observed call was different.
    fn require(
        &mut self,
        call: &Call,
        requested: ToolCall,
        request_id: String,
        title: Option<String>,
    ) {
        let digest = call_digest(&requested);
        let decisions = self.turn().into_iter();
        let mut decisions = decisions.flat_map(|turn| &turn.offline_decisions);
        let decided = decisions
            .find(|it| it.is_about(digest))
            .map(|it| it.is_allowed);
        let data = ApprovalRequiredData {
            digest: Digest128::of_json(&requested.arguments).to_string(),
            tool_call: ToolCall {
                id: call.call.id.clone(),
                ..requested
            },
            display_name: title,
            expires_at: self.after(self.plan().wait_timeout),
            request_id: Some(request_id),
        };
        self.record_step(call.exec_id, data);
        if let Some(is_allowed) = decided {
            let decision = if is_allowed {
                Decision::Allow
            } else {
                Decision::Deny
            };
            let data = ApprovalDecidedData {
                reason: Some(DECIDED_BEFORE.to_owned()),
                ..ApprovalDecidedData::new(call.call.id.clone(), decision)
            };
            self.decide_call(call, data);
        }
    }

    pub(super) fn withdraw(&mut self, exec_id: ExecId, request_id: &str) -> Result<(), Rejected> {
        let call = self.running_backend(exec_id)?.call_of_request(request_id);
        let call = call.filter(|call| matches!(call.state, CallState::AwaitingApproval { .. }));
        let call = call.cloned().ok_or_else(|| not_open(request_id))?;
        self.record_withdrawal(&call);
        if call.call.id == request_id {
            let result = ToolResult::failure(request_id, WITHDRAWN);
            self.close_call(call.exec_id, ToolStatus::Cancelled, result);
        }
        Ok(())
    }

    pub(super) fn record_withdrawal(&mut self, call: &Call) {
        let data = ApprovalDecidedData {
            reason: Some(WITHDRAWN.to_owned()),
            withdrawn: Some(true),
            ..ApprovalDecidedData::new(call.call.id.clone(), Decision::Deny)
        };
        self.record_step(call.exec_id, data);
    }

    /// Forwards the decision about an agent's call, if its process still exists.
    pub(super) fn forward_decision(
        &mut self,
        call: &Call,
        request_id: String,
        decision: Decision,
        reason: Option<String>,
    ) {
        let Some(run) = self.turn().and_then(|turn| turn.run()) else {
            return;
        };
        let (exec_id, is_lost) = (run.exec_id, run.is_lost);
        let is_request_itself = call.call.id == request_id;
        match (is_lost, decision) {
            (true, Decision::Allow) => {
                let why =
                    "the agent's process was gone before it made this call; it may make it again";
                let result = ToolResult::failure(&call.call.id, why);
                self.close_call(call.exec_id, ToolStatus::Unknown, result);
            }
            (true, Decision::Deny) => {}
            (false, decision) => {
                if is_request_itself && decision == Decision::Allow {
                    let result = ToolResult::success(&call.call.id, json!("allowed"));
                    self.close_call(call.exec_id, ToolStatus::Success, result);
                }
                self.answer_request(exec_id, request_id, decision, reason);
            }
        }
    }

    fn answer_request(
        &mut self,
        exec_id: ExecId,
        request_id: String,
        decision: Decision,
        reason: Option<String>,
    ) {
        self.backend_commands.push(Command::AnswerBackend {
            exec_id,
            request_id,
            decision,
            reason,
        });
    }

    /// Returns the ID of the agent's permission request for a call.
    pub(super) fn request_for(&self, exec_id: ExecId) -> Option<String> {
        let permission = self.turn()?.run()?.permission_of(exec_id)?;
        Some(permission.request_id.clone())
    }
}
