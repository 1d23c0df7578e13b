//! Decisions about calls that wait for an approval.

use std::path::PathBuf;

use windlass_core::events::EventData;
use windlass_core::tools::ToolCall;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{ApprovalAnswered, ApprovalDecision, RememberFor};
use windlass_runtime::Approval;
use windlass_store::queries::WaitRow;

use crate::ids;
use crate::json_file::JsonFileError;
use crate::operations::prelude::*;
use crate::operations::turns::results::check_taken;
use crate::project_approvals::ProjectApprovals;

impl Handle<op::DecideApproval> for Service {
    async fn handle(
        &self,
        ctx: &RequestContext,
        call: Call<op::DecideApproval>,
    ) -> Result<ApprovalAnswered> {
        let approval_id = call.path.approval_id;
        let request = call.request;
        let decision = match request.decision.as_str() {
            "allow" => ApprovalDecision::Allow,
            "deny" => ApprovalDecision::Deny,
            other => {
                let text = format!("invalid decision '{other}'; expected \"allow\" or \"deny\"");
                return Err(ApiError::new(ErrorCode::InvalidDecision, text));
            }
        };
        check_reason(decision, request.reason.as_deref())?;
        let not_pending = || {
            let text = format!("no pending approval with id '{approval_id}'");
            ApiError::new(ErrorCode::ApprovalNotPending, text)
        };
        let exec_id = ids::parse_approval(&approval_id).ok_or_else(not_pending)?;
        let wait = self.queries.wait(exec_id).await?.ok_or_else(not_pending)?;
        let session_id = wait.stream.as_str().parse().map_err(|_| not_pending())?;
        let approval = match decision {
            ApprovalDecision::Deny => Approval::Deny {
                reason: request.reason,
            },
            ApprovalDecision::Allow if !request.remember => Approval::Once,
            ApprovalDecision::Allow if request.remember_for == RememberFor::Project => {
                Approval::Project
            }
            ApprovalDecision::Allow => Approval::Turn,
        };
        if matches!(approval, Approval::Turn | Approval::Project) {
            ctx.caller.check_approves_all()?;
        }
        let to_remember = if approval == Approval::Project {
            Some(self.call_in_project(session_id, &wait).await?)
        } else {
            None
        };
        let for_thread = approval == Approval::Turn && request.remember_for == RememberFor::Thread;
        let call = exec_id.to_string();
        let decided = self.runtime.decide(session_id, call, approval).await;
        check_taken(decided, not_pending)?;
        // Stored after the decision, because a decision that was not accepted must not allow anything. If the process ends in between, the next such
        // call needs an approval again.
        if let Some(call) = to_remember {
            let stored = tokio::task::spawn_blocking(move || call.remember()).await;
            let stored = stored.map_err(ApiError::internal)?;
            stored.map_err(ApiError::internal)?;
        }
        if for_thread {
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

impl Service {
    /// Returns a waiting call with its project.
    async fn call_in_project(
        &self,
        session_id: SessionId,
        wait: &WaitRow,
    ) -> Result<CallToRemember> {
        let refused = |why: &str| Err(ApiError::field("/remember_for", why));
        let Some(approvals) = self.settings.remembered.clone() else {
            return refused("this daemon stores no approvals for projects");
        };
        let found = self.thread(session_id).await?;
        if found.thread.agent.is_some() {
            return refused("approvals for projects are not available in threads of agents");
        }
        let before = wait.seq.saturating_sub(1);
        let events = self.runtime.events_since(session_id, before, 1).await?;
        let call = match events.first().map(|event| &event.data) {
            Some(EventData::ApprovalRequired(data)) if data.request_id.is_none() => {
                data.tool_call.clone()
            }
            Some(EventData::ApprovalRequired(_)) => {
                return refused(
                    "approvals for projects are not available for calls of external agents",
                );
            }
            _ => return refused("retention removed the record of the call"),
        };
        let turn = self.find_turn(&found, &wait.turn_id.to_string()).await?;
        let Some(environment) = self.environment_of(&found, &turn).await? else {
            return refused("the turn has no environment");
        };
        let at = self.settings.environments.resolve(Some(&environment));
        let at = at.map_err(ApiError::internal)?;
        Ok(CallToRemember {
            approvals,
            root: at.root_path().to_owned(),
            cwd: at.cwd(),
            call,
        })
    }
}

/// Maximum length of a denial's reason, in characters.
const REASON_CHARS: usize = 2_000;

fn check_reason(decision: ApprovalDecision, reason: Option<&str>) -> Result<()> {
    let Some(reason) = reason else {
        return Ok(());
    };
    if decision == ApprovalDecision::Allow {
        return Err(ApiError::field("/reason", "only a denial has a reason"));
    }
    let count = reason.chars().count();
    if count > REASON_CHARS {
        let text = format!("`reason` has at most {REASON_CHARS} characters, not {count}");
        return Err(ApiError::field("/reason", text));
    }
    Ok(())
}

/// A call whose approval will be stored, and its project.
struct CallToRemember {
    approvals: ProjectApprovals,
    root: PathBuf,
    cwd: PathBuf,
    call: ToolCall,
}

impl CallToRemember {
    fn remember(&self) -> std::result::Result<(), JsonFileError> {
        self.approvals.add(&self.root, &self.cwd, &self.call)
    }
}
