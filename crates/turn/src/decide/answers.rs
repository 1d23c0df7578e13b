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

/// Whether an answer from outside is new.
enum Novelty {
    New(Call),
    Repeat,
}

/// How something was answered before.
enum EarlierAnswer {
    Equally,
    Differently,
}

const ANSWERED_DIFFERENTLY: &str = "it was answered differently before";

impl Draft<'_> {
    pub(super) fn tool_results(&mut self, results: Vec<ToolResult>) -> Result<(), Rejected> {
        self.turn_id = self.turn().map(|turn| turn.id);
        for result in results {
            let digest =
                Digest128::of_json(&(&result.result, &result.error, &result.images)).to_string();
            let awaits = |state: &CallState| matches!(state, CallState::AwaitingResult { .. });
            let Novelty::New(call) = self.find(&result.tool_call_id, &digest, awaits)? else {
                continue;
            };
            let success = result.error.is_none();
            let tool_call_id = call.call.id.clone();
            self.record_step(
                call.exec_id,
                ToolCallResolvedData {
                    tool_call_id,
                    success,
                    digest,
                },
            );
            let status = if success {
                ToolStatus::Success
            } else {
                ToolStatus::Error
            };
            self.close_call(call.exec_id, status, with_error_value(result), None);
        }
        self.advance();
        Ok(())
    }

    pub(super) fn approval(&mut self, name: &str, approval: Approval) -> Result<(), Rejected> {
        self.turn_id = self.turn().map(|turn| turn.id);
        let decision = approval.decision();
        let digest = verdict_digest(decision == Decision::Allow);
        let awaits = |state: &CallState| matches!(state, CallState::AwaitingApproval { .. });
        if let Novelty::New(call) = self.find(name, &digest, awaits)? {
            let data = ApprovalDecidedData {
                tool_call_id: call.call.id.clone(),
                decision,
                timed_out: None,
                remember: (approval == Approval::Turn).then_some(true),
                project: (approval == Approval::Project).then_some(true),
                withdrawn: None,
                reason: match approval {
                    Approval::Deny { reason } => reason,
                    Approval::Once | Approval::Turn | Approval::Project => None,
                },
            };
            self.decide_call(&call, data);
            self.advance();
        }
        Ok(())
    }

    pub(super) fn decide_call(&mut self, call: &Call, data: ApprovalDecidedData) {
        let (decision, reason) = (data.decision, data.reason.clone());
        let asking = self.request_for(call.exec_id);
        let refusal = match &data.reason {
            Some(reason) => format!("The call was not approved: {reason}"),
            None => "The call was not approved".to_owned(),
        };
        self.record_step(call.exec_id, data);
        if decision == Decision::Deny {
            let result = ToolResult::failure(&call.call.id, refusal);
            self.close_call(call.exec_id, ToolStatus::Error, result, None);
        }
        if let Some(request_id) = asking {
            self.pass_on(call, request_id, decision, reason);
        }
    }

    pub(super) fn user_answer(&mut self, request: &str, answer: Value) -> Result<(), Rejected> {
        self.turn_id = self.turn().map(|turn| turn.id);
        let asked = |call: &&Call| matches!(&call.state, CallState::AwaitingAnswer { request_id, .. } if request_id == request);
        let act = self.turn().and_then(|turn| turn.act());
        let Some(call) = act.and_then(|act| act.calls.iter().find(asked)).cloned() else {
            let digest = Digest128::of_json(&answer).to_string();
            return match self.answered_before(request, &digest) {
                Some(EarlierAnswer::Equally) => Ok(()),
                Some(EarlierAnswer::Differently) => refuse(request, ANSWERED_DIFFERENTLY),
                None => refuse(request, "no such question is open"),
            };
        };
        let request_id = request.to_owned();
        self.record_step(
            call.exec_id,
            UserInputAnsweredData {
                request_id,
                answer: answer.clone(),
            },
        );
        self.close_call(
            call.exec_id,
            ToolStatus::Success,
            ToolResult::success(&call.call.id, answer),
            None,
        );
        self.advance();
        Ok(())
    }

    /// Finds the one call that a name means and that waits as asked for.
    fn find(
        &self,
        name: &str,
        digest: &str,
        awaits: impl Fn(&CallState) -> bool,
    ) -> Result<Novelty, Rejected> {
        let exec_id = name.parse::<ExecId>().ok();
        let means = |call: &&Call| match exec_id {
            Some(exec_id) => call.exec_id == exec_id,
            None => call.call.id == name,
        };
        let calls = self.turn().map_or(&[][..], |turn| turn.calls());
        let mut pending = calls
            .iter()
            .filter(means)
            .filter(|call| awaits(&call.state));
        match (pending.next(), pending.next()) {
            (Some(call), None) => return Ok(Novelty::New(call.clone())),
            (Some(_), Some(_)) => {
                return refuse(name, "several calls have this id; name the step instead");
            }
            (None, _) => {}
        }
        match self.answered_before(name, digest) {
            Some(EarlierAnswer::Equally) => Ok(Novelty::Repeat),
            Some(EarlierAnswer::Differently) => refuse(name, ANSWERED_DIFFERENTLY),
            None if calls.iter().any(|call| means(&call)) => {
                refuse(name, "it does not wait for this kind of answer")
            }
            None => refuse(name, "the session has no such call"),
        }
    }

    /// Looks an answer up among those that were taken. One name may have had several: a call is first allowed and
    /// then answered, and a provider may use an id again. Of earlier turns only names that are never used again
    /// count, those of steps and questions.
    fn answered_before(&self, name: &str, digest: &str) -> Option<EarlierAnswer> {
        let exec_id = name.parse::<ExecId>().ok();
        let means = |answered: &&Answered| match exec_id {
            Some(exec_id) => answered.exec_id == exec_id,
            None => answered.call_id == name,
        };
        let is_unique = |answered: &&Answered| {
            exec_id.is_some() || answered.call_id == question_of(answered.exec_id)
        };
        let earlier = self.thread.answered_before.iter().rev();
        let earlier = earlier.filter(means).filter(is_unique);
        let answered = self.thread.answered.iter().filter(means);
        let mut taken = answered.chain(earlier).peekable();
        taken.peek()?;
        if taken.any(|answered| answered.digest == digest) {
            Some(EarlierAnswer::Equally)
        } else {
            Some(EarlierAnswer::Differently)
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
