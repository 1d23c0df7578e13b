//! Which fields the body of a run has. One that nobody reads may be meant to limit something, and is refused.

use serde_json::{Map, Value};
use windlass_protocol::fleet::CreateFleetRun;

use crate::error::{ApiError, Result};
use crate::service::fields::Fields;

const ROLE: &[&str] = &["name", "agent_profile"];
const WORKFLOW: &[&str] = &["id", "kind", "tasks", "task_specs"];
const WORKER: &[&str] = &["role", "backend"];
const TASK: &[&str] = &[
    "id",
    "name",
    "objective",
    "instructions",
    "worker",
    "workspace",
    "input_files",
    "context",
    "retry_policy",
    "backend",
    "mode",
    "allow_shell",
    "auto_approve",
    "budget",
    "scorer",
    "alert_policy",
    "timeout_seconds",
    "expected_artifacts",
];
const WORKER_OF_TASK: &[&str] = &[
    "role",
    "model",
    "agent_profile",
    "profile",
    "tool_profile",
    "tools",
    "capabilities",
];
const WORKSPACE: &[&str] = &["root", "required_files", "writable_paths", "environment"];

/// Refuses fields that a run does not have. How long to wait between attempts (`retry_policy`) limits nothing, and may say more.
pub(crate) fn refuse_unknown(body: &Map<String, Value>) -> Result<()> {
    only(body, CreateFleetRun::FIELDS, "")?;
    each(body.get("roles"), ROLE, "/roles")?;
    each(body.get("workers"), WORKER, "/workers")?;
    tasks(body.get("tasks"), "/tasks")?;
    if let Some(Value::Object(workflow)) = body.get("workflow") {
        only(workflow, WORKFLOW, "/workflow")?;
        for name in ["tasks", "task_specs"] {
            tasks(workflow.get(name), &format!("/workflow/{name}"))?;
        }
    }
    Ok(())
}

fn tasks(list: Option<&Value>, at: &str) -> Result<()> {
    each(list, TASK, at)?;
    for (index, task) in list
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        for (name, known) in [("worker", WORKER_OF_TASK), ("workspace", WORKSPACE)] {
            if let Some(Value::Object(fields)) = task.get(name) {
                only(fields, known, &format!("{at}/{index}/{name}"))?;
            }
        }
    }
    Ok(())
}

fn each(list: Option<&Value>, known: &[&str], at: &str) -> Result<()> {
    for (index, one) in list
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .enumerate()
    {
        if let Value::Object(fields) = one {
            only(fields, known, &format!("{at}/{index}"))?;
        }
    }
    Ok(())
}

fn only(fields: &Map<String, Value>, known: &[&str], at: &str) -> Result<()> {
    match fields.keys().find(|name| !known.contains(&name.as_str())) {
        Some(name) => {
            let text = format!(
                "`{name}` is not a field of a run here, and nothing would obey it; it has: {}",
                known.join(", ")
            );
            // As JSON pointers spell it.
            let name = name.replace('~', "~0").replace('/', "~1");
            Err(ApiError::field(&format!("{at}/{name}"), text))
        }
        None => Ok(()),
    }
}
