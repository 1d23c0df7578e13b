//! Checks calls whose arguments changed after the decision about them.

use windlass_core::digest::Digest128;
use windlass_core::events::Decision;
use windlass_core::remembered_calls::call_digest;
use windlass_core::tools::{ToolCall, ToolPolicy};
use windlass_core::typed_id::ExecId;
use windlass_policy::ApprovalAction;

use crate::plan::TurnPlan;
use crate::state::Thread;

/// The turn's decision about a call that is about to run.
#[derive(Debug, Clone, Default)]
pub struct CallApproval {
    is_approved: bool,
    auto_approves: bool,
    allowed: Vec<Digest128>,
}

/// Why a call may not run with changed arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChangeRefused {
    /// An approval is given for one set of arguments.
    #[error("the arguments were changed after the call was approved")]
    Approved,
    /// A rule denies the changed call.
    #[error("the operator's approval rules do not allow the call with its changed arguments")]
    Denied,
    /// The changed call needs an approval, for which it is too late.
    #[error("the call needs an approval with its changed arguments, and has none")]
    NotApproved,
}

impl CallApproval {
    /// Checks a call whose arguments changed after its turn decided about it.
    pub fn check_changed(&self, call: &ToolCall, plan: &TurnPlan) -> Result<(), ChangeRefused> {
        if self.is_approved {
            return Err(ChangeRefused::Approved);
        }
        let policy = plan.tools.get(&call.name).map(|spec| spec.policy);
        let is_allowed = || self.auto_approves || plan.remembers(&self.allowed, call);
        let needs_approval = policy == Some(ToolPolicy::RequiresApproval);
        let action = plan
            .approvals
            .decide(&call.name, &call.arguments, needs_approval);
        match action {
            ApprovalAction::Deny => Err(ChangeRefused::Denied),
            ApprovalAction::Ask if !is_allowed() => Err(ChangeRefused::NotApproved),
            ApprovalAction::Ask | ApprovalAction::Allow => Ok(()),
        }
    }
}

impl Thread {
    /// Returns the running turn's decision about a call.
    #[must_use]
    pub fn call_approval(&self, exec_id: ExecId) -> CallApproval {
        let turn = self.turn();
        CallApproval {
            is_approved: self.verdict_on(exec_id) == Some(Decision::Allow),
            auto_approves: turn.is_some_and(|turn| turn.auto_approves),
            allowed: turn.map_or_else(Vec::new, |turn| turn.allowed.clone()),
        }
    }
}

impl TurnPlan {
    /// Returns whether this exact call is approved for the project.
    pub(crate) fn remembers(&self, allowed: &[Digest128], call: &ToolCall) -> bool {
        if allowed.is_empty() && self.remembered.is_empty() {
            return false;
        }
        let digest = call_digest(call);
        allowed.contains(&digest) || self.remembered.contains(&digest.to_string())
    }
}
