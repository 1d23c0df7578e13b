//! Allowing or refusing a call.

use windlass_protocol::{
    ApprovalAnswered, ApprovalDecision, DecideApproval, ErrorCode, RememberFor,
};

use super::Asked;
use super::results::check_taken;
use crate::error::{ApiError, Result};
use crate::ids;

impl Asked {
    /// Allows or refuses a call that waits for that.
    pub(crate) async fn decide(
        &self,
        approval_id: String,
        request: DecideApproval,
    ) -> Result<ApprovalAnswered> {
        let decision = match request.decision.as_str() {
            "allow" => ApprovalDecision::Allow,
            "deny" => ApprovalDecision::Deny,
            other => {
                let text = format!("invalid decision '{other}'; expected \"allow\" or \"deny\"");
                return Err(ApiError::new(ErrorCode::InvalidDecision, text));
            }
        };
        let not_pending = || {
            let text = format!("no pending approval with id '{approval_id}'");
            ApiError::new(ErrorCode::ApprovalNotPending, text)
        };
        let exec_id = ids::parse_approval(&approval_id).ok_or_else(not_pending)?;
        let wait = self.queries.wait(exec_id).await?.ok_or_else(not_pending)?;
        let session_id = wait.stream.as_str().parse().map_err(|_| not_pending())?;
        let allow = decision == ApprovalDecision::Allow;
        let (runtime, call) = (&self.runtime, exec_id.to_string());
        let remember = allow && request.remember;
        if remember {
            self.caller.check_trust(Some(true), None, None)?;
        }
        let decided = match remember {
            true => runtime.allow_rest_of_turn(session_id, call).await,
            false => runtime.decide_tool_call(session_id, call, allow).await,
        };
        check_taken(decided, not_pending)?;
        if remember && request.remember_for == RememberFor::Thread {
            self.remember_approval(session_id).await?;
        }
        Ok(ApprovalAnswered {
            ok: true,
            approval_id,
            decision,
            delivered: true,
        })
    }
}
