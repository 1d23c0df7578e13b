//! Reading what clients say. Whatever is wrong with it is told by a code and, where there is one, the place of the field.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use windlass_protocol as wire;

use super::fleet;
use crate::error::{ApiError, Result};

/// A body that clients send.
pub(crate) trait Fields: DeserializeOwned {
    /// The names that are read; others are named in the answer's header.
    const FIELDS: &'static [&'static str];

    /// Refuses what must not be passed over in silence.
    fn check(_body: &Map<String, Value>) -> Result<()> {
        Ok(())
    }
}

macro_rules! fields {
    ($($ty:path: $($field:literal)* $(, $check:path)?;)*) => {$(
        impl Fields for $ty {
            const FIELDS: &'static [&'static str] = &[$($field),*];

            $(fn check(body: &Map<String, Value>) -> Result<()> {
                $check(body)
            })?
        }
    )*};
}

fields! {
    wire::CreateThread: "model" "model_provider" "model_provider_id" "workspace" "mode" "allow_shell" "trust_mode"
        "auto_approve" "archived" "system_prompt" "task_id" "title" "reasoning_effort" "dynamic_tools" "environments" "on_restart"
        "backend" "budget";
    wire::PatchThread: "archived" "allow_shell" "trust_mode" "auto_approve" "model" "mode" "title" "system_prompt"
        "workspace" "reasoning_effort" "dynamic_tools" "environments" "on_restart" "budget";
    wire::StartTurn: "prompt" "input_summary" "model" "mode" "allow_shell" "trust_mode" "auto_approve" "dynamic_tools"
        "environment_id" "reasoning_effort" "allowed_tools" "disallowed_tools" "budget";
    wire::SteerTurn: "prompt";
    wire::agent_runs::NudgeAgentRuns: "agent_ids";
    wire::ForkThread: "turn_id" "model";
    wire::UndoThread: "depth" "files" "cut_off";
    wire::RetryThread: "depth" "prompt" "model" "files" "cut_off";
    wire::CompactThread: "reason";
    wire::ReplayThread: "turn_id";
    wire::DynamicToolCallResult: "success" "content", refuse_other_result;
    wire::DecideApproval: "decision" "remember" "remember_for";
    wire::UserInputAnswers: "answers";
    wire::CreateEnvironment: "id" "kind" "root" "policy";
    wire::SaveSession: "thread_id" "title";
    wire::UpdateSession: "thread_id" "session_id";
    wire::PatchSession: "title" "archived";
    wire::ResumeSession: "model" "mode";
    wire::fleet::CreateFleetRun: "name" "target" "roles" "workflow" "tasks" "workers" "max_workers" "labels" "start"
        "security_policy", fleet::refuse_unknown;
    wire::CreateTask: "prompt" "model" "workspace" "mode" "allow_shell" "trust_mode" "auto_approve" "backend" "max_attempts",
        refuse_limits;
    wire::CreateAutomation: "name" "prompt" "rrule" "cwds" "model" "mode" "allow_shell" "trust_mode" "auto_approve" "status"
        "time_zone" "missed" "backend" "max_attempts", refuse_limits;
    wire::PatchAutomation: "name" "prompt" "rrule" "cwds" "model" "mode" "allow_shell" "trust_mode" "auto_approve" "status"
        "time_zone" "missed" "backend" "max_attempts", refuse_limits;
    wire::config::SetConfig: "key" "value" "persist";
    wire::config::SwitchProvider: "model";
    wire::apps::SwitchSkill: "enabled";
    wire::stream::OneShot: "prompt" "model" "mode" "workspace" "allow_shell" "trust_mode" "auto_approve";
}

/// What would limit work, and no task is limited by.
const LIMITS: &[&str] = &[
    "allowed_tools",
    "budget",
    "deadline",
    "disallowed_tools",
    "timeout",
    "timeout_ms",
    "timeout_seconds",
    "tools",
    "writable_paths",
];

/// Whoever sets a limit must not believe that it holds.
fn refuse_limits(body: &Map<String, Value>) -> Result<()> {
    match LIMITS.iter().find(|name| body.contains_key(**name)) {
        Some(name) => {
            let text = format!(
                "`{name}` does not limit a task; use the budgets of the daemon or of the token, `mode` and `allow_shell`"
            );
            Err(ApiError::field(&format!("/{name}"), text))
        }
        None => Ok(()),
    }
}

/// A call takes one result: one that stands where nobody reads it must not use the call up.
fn refuse_other_result(body: &Map<String, Value>) -> Result<()> {
    let known = wire::DynamicToolCallResult::FIELDS;
    let other = body.keys().find(|name| !known.contains(&name.as_str()));
    match other {
        Some(other) if !body.contains_key("content") => {
            let text = format!(
                "`{other}` is not read; a result stands in `content`: [{{\"type\":\"input_text\",\"text\":\"…\"}}]"
            );
            Err(ApiError::field("/content", text))
        }
        _ => Ok(()),
    }
}

/// Reads an object; returns with it the names that nobody reads.
pub(crate) fn read<T: Fields>(fields: Map<String, Value>) -> Result<(T, Vec<String>)> {
    T::check(&fields)?;
    let names = fields.keys().cloned();
    let unread = names
        .filter(|name| !T::FIELDS.contains(&name.as_str()))
        .collect();
    let read = serde_path_to_error::deserialize(Value::Object(fields)).map_err(|error| {
        let path = error.path().to_string();
        let mut pointer = match path.as_str() {
            "." => String::new(),
            path => format!("/{}", path.replace(['.', '['], "/").replace(']', "")),
        };
        let text = error.into_inner().to_string();
        // serde names a missing field in its text only.
        let missing = text.strip_prefix("missing field `");
        if let Some(name) = missing.and_then(|rest| rest.split('`').next()) {
            pointer = format!("{pointer}/{name}");
        }
        ApiError::field(&pointer, text)
    })?;
    Ok((read, unread))
}
