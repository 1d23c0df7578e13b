//! Permissions that a backend asks for: approvals of ours.

use serde_json::json;
use windlass_core::backend::PermissionRequest;
use windlass_core::digest::Digest128;
use windlass_core::events::{ApprovalDecidedData, ApprovalRequiredData, Decision, ToolStatus};
use windlass_core::tools::{ToolCall, ToolResult};
use windlass_core::typed_id::ExecId;

use super::backend::not_open;
use crate::decision::{Command, Rejected};
use crate::draft::Draft;
use crate::run::call_digest;
use crate::state::{Call, CallState};

const WITHDRAWN: &str = "the agent no longer asks for it";
const DECIDED_BEFORE: &str = "it was decided before the agent's process was gone";

impl Draft<'_> {
    /// A permission is an approval of ours: whoever may decide about our own calls decides about these.
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
        // One that was answered is another one under the same name: an agent may use it again.
        let is_open = |call: &Call| matches!(call.state, CallState::AwaitingApproval { .. });
        if run.call_asking(&request_id).is_some_and(is_open) {
            return Ok(());
        }
        if call_id
            .as_ref()
            .is_some_and(|id| run.ended_by_us.contains(id))
        {
            self.answer(exec_id, request_id, Decision::Deny, None);
            return Ok(());
        }
        let named = call_id.as_deref().and_then(|id| run.call_named(id));
        let named = named.map(|call| {
            (
                call.exec_id,
                matches!(call.state, CallState::Running { .. }),
            )
        });
        let is_allowed = |step| self.thread.verdict_on(step) == Some(Decision::Allow);
        let allows_all = self
            .plan()
            .backend
            .as_ref()
            .is_some_and(|backend| backend.allows_all);
        let asks_nobody = allows_all || self.turn().is_some_and(|turn| turn.asks_nobody);
        if asks_nobody || named.is_some_and(|(step, _)| is_allowed(step)) {
            self.answer(exec_id, request_id, Decision::Allow, None);
            return Ok(());
        }
        let step = match (named, call_id) {
            (Some((step, true)), _) => Some(step),
            // It asks before it tells of the call.
            (None, Some(id)) => self.open_observed(ToolCall {
                id,
                name,
                arguments,
            }),
            // It asks for something that it never tells of, or once more: the request itself is the call.
            (_, _) => {
                let id = request_id.clone();
                self.open_observed(ToolCall {
                    id,
                    name,
                    arguments,
                })
            }
        };
        if let Some(call) = step.and_then(|step| self.call(step)).cloned() {
            self.require(&call, request_id, title);
        }
        Ok(())
    }

    fn require(&mut self, call: &Call, request_id: String, title: Option<String>) {
        let digest = call_digest(&call.call);
        let turn = self.turn();
        let mut settled = turn.into_iter().flat_map(|turn| &turn.settled);
        let decided = settled
            .find(|settled| settled.call == digest)
            .map(|it| it.is_allowed);
        let data = ApprovalRequiredData {
            tool_call: (*call.call).clone(),
            digest: Digest128::of_json(&call.call.arguments).to_string(),
            display_name: title,
            expires_at: self.after(self.plan().wait_timeout),
            request_id: Some(request_id),
        };
        self.record_step(call.exec_id, data);
        if let Some(is_allowed) = decided {
            let data = ApprovalDecidedData {
                tool_call_id: call.call.id.clone(),
                decision: if is_allowed {
                    Decision::Allow
                } else {
                    Decision::Deny
                },
                reason: Some(DECIDED_BEFORE.to_owned()),
                timed_out: None,
                remember: None,
                withdrawn: None,
            };
            self.decide_call(call, data);
        }
    }

    pub(super) fn withdraw(&mut self, exec_id: ExecId, request_id: &str) -> Result<(), Rejected> {
        let call = self.running_backend(exec_id)?.call_asking(request_id);
        let call = call.filter(|call| matches!(call.state, CallState::AwaitingApproval { .. }));
        let call = call.cloned().ok_or_else(|| not_open(request_id))?;
        self.record_withdrawal(&call);
        if call.call.id == request_id {
            let result = ToolResult::failure(request_id, WITHDRAWN);
            self.close_call(call.exec_id, ToolStatus::Cancelled, result, None);
        }
        Ok(())
    }

    pub(super) fn record_withdrawal(&mut self, call: &Call) {
        let data = ApprovalDecidedData {
            tool_call_id: call.call.id.clone(),
            decision: Decision::Deny,
            reason: Some(WITHDRAWN.to_owned()),
            timed_out: None,
            remember: None,
            withdrawn: Some(true),
        };
        self.record_step(call.exec_id, data);
    }

    /// Somebody decided about a call of a backend: it hears so, if its process is still there.
    pub(super) fn pass_on(
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
                self.close_call(call.exec_id, ToolStatus::Unknown, result, None);
            }
            (true, Decision::Deny) => {}
            (false, decision) => {
                if is_request_itself && decision == Decision::Allow {
                    let result = ToolResult::success(&call.call.id, json!("allowed"));
                    self.close_call(call.exec_id, ToolStatus::Success, result, None);
                }
                self.answer(exec_id, request_id, decision, reason);
            }
        }
    }

    fn answer(
        &mut self,
        exec_id: ExecId,
        request_id: String,
        decision: Decision,
        reason: Option<String>,
    ) {
        self.says.push(Command::AnswerBackend {
            exec_id,
            request_id,
            decision,
            reason,
        });
    }

    /// Returns the request by which a backend asks for a call.
    pub(super) fn request_for(&self, exec_id: ExecId) -> Option<String> {
        let run = self.turn()?.run()?;
        run.request_for(exec_id).map(str::to_owned)
    }
}
