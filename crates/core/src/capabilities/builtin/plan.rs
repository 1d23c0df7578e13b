//! The agent's plan: a list of steps with their status, which users follow.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::session_tool::{SessionTool, ToolFailure, boxed, fail, object, reads};
use crate::capabilities::Capability;
use crate::tools::{PLAN_TOOL, Tool, ToolHints, ToolShape};
use crate::traits::ToolContext;

const MAX_STEPS: usize = 100;

/// Lets the agent state its plan. Each call contains the complete list in the form of ACP's plans; only the call is recorded.
#[derive(Debug, Clone, Copy, Default)]
pub struct PlanCapability;

impl Capability for PlanCapability {
    constants!(
        "plan",
        "Plan",
        "Shows the user the steps of the agent's work.",
        "Planning"
    );
    fn system_prompt_addition(&self) -> Option<&str> {
        Some(
            "For work of three steps or more, show the user a plan with update_plan: send the whole list each time, have one step in progress, and mark a step as completed as soon as it is. Do not plan simple work.",
        )
    }
    fn tools(&self) -> Vec<Box<dyn Tool>> {
        vec![boxed(UpdatePlan)]
    }
}

#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum StepStatus {
    Pending,
    InProgress,
    Completed,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Priority {
    High,
    Medium,
    Low,
}

#[derive(Deserialize)]
struct Step {
    content: String,
    status: StepStatus,
    #[serde(default, rename = "priority")]
    _priority: Option<Priority>,
}

#[derive(Deserialize)]
struct Args {
    entries: Vec<Step>,
}

struct UpdatePlan;

#[async_trait]
impl SessionTool for UpdatePlan {
    type Args = Args;
    const NAME: &'static str = PLAN_TOOL;
    const DESCRIPTION: &'static str =
        "Show the user the complete plan; it replaces the previous one.";

    fn schema(&self) -> Value {
        let step = object(
            json!({
                "content": { "type": "string", "minLength": 1, "description": "The step, in a few words" },
                "status": { "type": "string", "enum": ["pending", "in_progress", "completed"] },
                "priority": { "type": "string", "enum": ["high", "medium", "low"], "description": "Default: medium" }
            }),
            &["content", "status"],
        );
        object(
            json!({ "entries": { "type": "array", "maxItems": MAX_STEPS, "items": step } }),
            &["entries"],
        )
    }
    fn hints(&self) -> ToolHints {
        reads().with_shape(ToolShape::Plan)
    }
    async fn run(&self, args: Args, _ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let steps = args.entries;
        if steps.len() > MAX_STEPS {
            return fail(format!("a plan may have {MAX_STEPS} steps at most"));
        }
        if let Some(index) = steps.iter().position(|step| step.content.trim().is_empty()) {
            return fail(format!("step {} has no content", index + 1));
        }
        let count = |status| steps.iter().filter(|step| step.status == status).count();
        Ok(json!({ "completed": count(StepStatus::Completed), "total": steps.len() }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{call, odd_arguments};
    use super::*;
    use crate::typed_id::SessionId;

    async fn update(entries: Value) -> Result<Value, String> {
        let ctx = ToolContext::new(SessionId::new());
        call(
            &PlanCapability,
            PLAN_TOOL,
            json!({ "entries": entries }),
            &ctx,
        )
        .await
    }

    #[tokio::test]
    async fn plan_is_counted() {
        let plan = json!([
            { "content": "Read", "status": "completed", "priority": "high" },
            { "content": "Write", "status": "in_progress" },
        ]);
        assert_eq!(
            update(plan).await.unwrap(),
            json!({ "completed": 1, "total": 2 })
        );
        assert_eq!(update(json!([])).await.unwrap()["total"], 0);
    }

    #[tokio::test]
    async fn invalid_plan_is_refused() {
        for (entries, reason) in [
            (json!([{ "content": "a", "status": "doing" }]), "doing"),
            (
                json!([{ "content": "a", "status": "pending", "priority": "urgent" }]),
                "urgent",
            ),
            (
                json!([{ "content": " ", "status": "pending" }]),
                "step 1 has no content",
            ),
            (json!([{ "status": "pending" }]), "content"),
        ] {
            let error = update(entries).await.unwrap_err();
            assert!(error.contains(reason), "{error}");
        }
        odd_arguments(&PlanCapability).await;
    }
}
