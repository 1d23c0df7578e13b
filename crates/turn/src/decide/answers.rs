//! External input: results, approvals and answers. The first one wins; an identical repeat changes nothing.

use serde_json::Value;
use windlass_core::digest::Digest128;
use windlass_core::events::{
    ApprovalDecidedData, Decision, ToolCallResolvedData, ToolStatus, UserInputAnsweredData,
};
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::ExecId;

use super::act::question_of;
use crate::decision::Rejected;
use crate::draft::Draft;
use crate::evolve::verdict_digest;
use crate::input::Approval;
use crate::state::{Answered, Call, CallState};

impl Draft<'_> {
    pub(super) fn tool_results(&mut self, results: Vec<ToolResult>) -> Result<(), Rejected> {
        self.turn_id = self.turn().map(|turn| turn.id);
        for result in results {
            let digest =
                Digest128::of_json(&(&result.result, &result.error, &result.images)).to_string();
            let awaits = |state: &CallState| matches!(state, CallState::AwaitingResult { .. });
            let Some(call) = self.find(&result.tool_call_id, &digest, awaits)? else {
                continue;
            };
            let success = result.error.is_none();
            let data = ToolCallResolvedData::new(call.call.id.clone(), success, digest);
            self.record_step(call.exec_id, data);
            let status = if success {
                ToolStatus::Success
            } else {
                ToolStatus::Error
            };
            self.close_call(call.exec_id, status, with_error_value(result));
        }
        self.advance();
        Ok(())
    }

    pub(super) fn record_approval(
        &mut self,
        name: &str,
        approval: Approval,
    ) -> Result<(), Rejected> {
        self.turn_id = self.turn().map(|turn| turn.id);
        let decision = approval.decision();
        let digest = verdict_digest(decision == Decision::Allow);
        let awaits = |state: &CallState| matches!(state, CallState::AwaitingApproval { .. });
        if let Some(call) = self.find(name, &digest, awaits)? {
            let data = ApprovalDecidedData {
                remember: (approval == Approval::Turn).then_some(true),
                project: (approval == Approval::Project).then_some(true),
                reason: match approval {
                    Approval::Deny { reason } => reason,
                    Approval::Once | Approval::Turn | Approval::Project => None,
                },
                ..ApprovalDecidedData::new(call.call.id.clone(), decision)
            };
            self.decide_call(&call, data);
            self.advance();
        }
        Ok(())
    }

    pub(super) fn decide_call(&mut self, call: &Call, data: ApprovalDecidedData) {
        let (decision, reason) = (data.decision, data.reason.clone());
        let request_id = self.request_for(call.exec_id);
        let refusal = match &data.reason {
            Some(reason) => format!("The call was not approved: {reason}"),
            None => "The call was not approved".to_owned(),
        };
        self.record_step(call.exec_id, data);
        if decision == Decision::Deny {
            let result = ToolResult::failure(&call.call.id, refusal);
            self.close_call(call.exec_id, ToolStatus::Error, result);
        }
        if let Some(request_id) = request_id {
            self.forward_decision(call, request_id, decision, reason);
        }
    }

    pub(super) fn user_answer(&mut self, request: &str, answer: Value) -> Result<(), Rejected> {
        self.turn_id = self.turn().map(|turn| turn.id);
        let asks = |call: &&Call| matches!(&call.state, CallState::AwaitingAnswer { request_id, .. } if request_id == request);
        let act = self.turn().and_then(|turn| turn.act());
        let Some(call) = act.and_then(|act| act.calls.iter().find(asks)).cloned() else {
            let digest = Digest128::of_json(&answer).to_string();
            return self.check_repeat(request, &digest, "no such question is open");
        };
        let data = UserInputAnsweredData::new(request.to_owned(), answer.clone());
        self.record_step(call.exec_id, data);
        let result = ToolResult::success(&call.call.id, answer);
        self.close_call(call.exec_id, ToolStatus::Success, result);
        self.advance();
        Ok(())
    }

    /// Finds the waiting call of an ID; `None` if it was answered equally before.
    fn find(
        &self,
        name: &str,
        digest: &str,
        awaits: impl Fn(&CallState) -> bool,
    ) -> Result<Option<Call>, Rejected> {
        let exec_id = name.parse::<ExecId>().ok();
        let matches = |call: &&Call| match exec_id {
            Some(exec_id) => call.exec_id == exec_id,
            None => call.call.id == name,
        };
        let calls = self.turn().map_or(&[][..], |turn| turn.calls());
        let mut pending = calls
            .iter()
            .filter(matches)
            .filter(|call| awaits(&call.state));
        match (pending.next(), pending.next()) {
            (Some(call), None) => return Ok(Some(call.clone())),
            (Some(_), Some(_)) => {
                return refuse(name, "several calls have this id; name the step instead");
            }
            (None, _) => {}
        }
        let unknown = if calls.iter().any(|call| matches(&call)) {
            "it does not wait for this kind of answer"
        } else {
            "the session has no such call"
        };
        self.check_repeat(name, digest, unknown).map(|()| None)
    }

    /// Accepts an answer only if an equal one was accepted before; without any earlier answer, rejects it with the reason `unknown`.
    ///
    /// An ID can have several earlier answers: a call is first approved and then answered, and providers reuse call IDs. So in earlier turns only the
    /// IDs of steps and questions match, which are unique.
    fn check_repeat(
        &self,
        name: &str,
        digest: &str,
        unknown: &'static str,
    ) -> Result<(), Rejected> {
        let exec_id = name.parse::<ExecId>().ok();
        let matches = |answered: &&Answered| match exec_id {
            Some(exec_id) => answered.exec_id == exec_id,
            None => answered.call_id == name,
        };
        let is_unique = |answered: &&Answered| {
            exec_id.is_some() || answered.call_id == question_of(answered.exec_id)
        };
        let earlier = self.thread.answered_before.iter().rev();
        let earlier = earlier.filter(matches).filter(is_unique);
        let answered = self.thread.answered.iter().filter(matches);
        let mut accepted = answered.chain(earlier).peekable();
        if accepted.peek().is_none() {
            refuse(name, unknown)
        } else if accepted.any(|answered| answered.digest == digest) {
            Ok(())
        } else {
            refuse(name, "it was answered differently before")
        }
    }
}

fn refuse<T>(name: &str, reason: &'static str) -> Result<T, Rejected> {
    Err(Rejected::NoPendingCall {
        call: name.to_owned(),
        reason,
    })
}

/// Adds a default error to a failure without one, so that the model can see that the call failed.
fn with_error_value(result: ToolResult) -> ToolResult {
    match (&result.result, &result.error) {
        (None, Some(error)) => ToolResult {
            result: Some(serde_json::json!({ "error": error })),
            ..result
        },
        _ => result,
    }
}
