//! Allowing or refusing a call.

use windlass_core::error::AgentLoopError;
use windlass_protocol::{
    ApprovalAnswered, ApprovalDecision, DecideApproval, ErrorCode, PatchThread,
};

use crate::app::App;
use crate::error::ApiError;
use crate::ids;
use crate::tokens::Caller;

impl App {
    /// Allows or refuses a call that waits for that.
    pub(crate) async fn decide(
        &self,
        caller: &Caller,
        approval_id: String,
        request: DecideApproval,
    ) -> Result<ApprovalAnswered, ApiError> {
        let decision = match request.decision.as_str() {
            "allow" => ApprovalDecision::Allow,
            "deny" => ApprovalDecision::Deny,
            other => {
                let text = format!("invalid decision '{other}'; expected \"allow\" or \"deny\"");
                return Err(ApiError::new(ErrorCode::InvalidDecision, text));
            }
        };
        let not_pending = || {
            ApiError::new(
                ErrorCode::ApprovalNotPending,
                format!("no pending approval with id '{approval_id}'"),
            )
        };
        let exec_id = ids::parse_approval(&approval_id).ok_or_else(not_pending)?;
        let wait = self.queries.wait(exec_id).await?.ok_or_else(not_pending)?;
        let session_id = wait.stream.as_str().parse().map_err(|_| not_pending())?;
        let allow = decision == ApprovalDecision::Allow;
        let (runtime, call) = (&self.runtime, exec_id.to_string());
        let remember = allow && request.remember;
        let decided = match remember {
            true => runtime.allow_rest_of_turn(session_id, call).await,
            false => runtime.decide_tool_call(session_id, call, allow).await,
        };
        match decided {
            Ok(_) | Err(AgentLoopError::NoActiveTurn(_)) => {}
            Err(AgentLoopError::NoPendingCall { .. }) => return Err(not_pending()),
            Err(error) => return Err(error.into()),
        }
        if remember {
            let remembered = PatchThread {
                auto_approve: Some(true),
                ..PatchThread::default()
            };
            self.change(caller, session_id, remembered).await?;
        }
        Ok(ApprovalAnswered {
            ok: true,
            approval_id,
            decision,
            delivered: true,
        })
    }
}
