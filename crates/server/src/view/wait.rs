//! What waits for somebody, and how the wait ends.

use serde_json::{Value, json};
use windlass_core::events::{
    ApprovalRequiredData, Event, ToolCallRequestedData, UserInputRequiredData,
};
use windlass_core::items::{Wait, WaitChange};
use windlass_core::typed_id::SessionId;
use windlass_protocol::{
    DynamicToolCallParams, EventName, PendingApproval, PendingToolCall, PendingUserInput,
};
use windlass_runtime::PROCESS_RESTART;

use crate::external;
use crate::ids;

/// Shows a call that a client must carry out.
pub(crate) fn pending_call(
    session_id: SessionId,
    change: &WaitChange<'_>,
    data: &ToolCallRequestedData,
) -> Option<PendingToolCall> {
    let call = data.tool_calls.first()?;
    let summary = data.tool_summaries.first();
    let shown = summary.and_then(|summary| summary.display_name.as_deref());
    let (namespace, tool) = external::registered(shown.unwrap_or(&call.name));
    Some(PendingToolCall {
        call: DynamicToolCallParams {
            thread_id: ids::thread(session_id),
            turn_id: change.turn_id.to_string(),
            call_id: ids::call(change.exec_id),
            namespace: namespace.map(str::to_owned),
            tool: tool.to_owned(),
            arguments: call.arguments.clone(),
        },
        item_id: Some(change.item_id.to_string()),
        expires_at: data.expires_at.map(ids::time),
    })
}

/// Shows a call that somebody must allow.
pub(crate) fn pending_approval(
    change: &WaitChange<'_>,
    data: &ApprovalRequiredData,
) -> PendingApproval {
    let id = ids::approval(change.exec_id);
    let name = data.display_name.as_ref().unwrap_or(&data.tool_call.name);
    PendingApproval {
        approval_id: Some(id.clone()),
        id,
        turn_id: change.turn_id.to_string(),
        tool_name: name.clone(),
        description: format!("{name} {}", data.tool_call.arguments),
        intent_summary: None,
        call_id: Some(ids::call(change.exec_id)),
        item_id: Some(change.item_id.to_string()),
        expires_at: data.expires_at.map(ids::time),
    }
}

/// Shows a question that somebody must answer.
pub(crate) fn pending_input(
    change: &WaitChange<'_>,
    data: &UserInputRequiredData,
) -> PendingUserInput {
    PendingUserInput {
        id: data.request_id.clone(),
        turn_id: change.turn_id.to_string(),
        request: data.prompt.clone(),
        item_id: Some(change.item_id.to_string()),
        expires_at: data.expires_at.map(ids::time),
    }
}

pub(super) fn wait(event: &Event, change: &WaitChange<'_>) -> Option<(EventName, Value)> {
    let item_id = change.item_id.to_string();
    let call = |status: &str| {
        json!({
            "thread_id": ids::thread(event.session_id),
            "turn_id": change.turn_id,
            "call_id": ids::call(change.exec_id),
            "item_id": item_id,
            "status": status,
        })
    };
    let approval_id = || ids::approval(change.exec_id);
    let seconds = |timeout_ms: Option<u64>| timeout_ms.unwrap_or_default() / 1000;
    Some(match change.wait {
        Wait::CallRequested(data) => {
            let pending = pending_call(event.session_id, change, data)?;
            (EventName::ToolCallRequested, to_value(&pending))
        }
        Wait::CallResolved(data) => {
            let mut payload = call("resolved");
            payload["success"] = data.success.into();
            payload["result_accepted"] = true.into();
            (EventName::ToolCallResolved, payload)
        }
        Wait::CallTimedOut(data) => {
            let mut payload = call("timeout");
            payload["timeout_secs"] = seconds(data.timeout_ms).into();
            (EventName::ToolCallTimeout, payload)
        }
        Wait::CallCanceled(data) => {
            let mut payload = call("canceled");
            payload["reason"] = data.reason.clone().into();
            payload["terminal"] = true.into();
            if data.reason == PROCESS_RESTART {
                payload["recovered"] = true.into();
            }
            (EventName::ToolCallCanceled, payload)
        }
        Wait::ApprovalRequired(data) => {
            let pending = pending_approval(change, data);
            let summary = pending.description.clone();
            let mut payload = to_value(&pending);
            payload["intent_summary"] = Value::Null;
            payload["summary"] = summary.into();
            (EventName::ApprovalRequired, payload)
        }
        Wait::ApprovalDecided(data) => {
            let mut payload = json!({
                "approval_id": approval_id(), "item_id": item_id,
                "decision": data.decision, "remember": data.remember.unwrap_or_default(),
            });
            if data.project == Some(true) {
                payload["remember"] = true.into();
                payload["remember_for"] = "project".into();
            }
            match (&data.reason, data.timed_out) {
                (_, Some(true)) => payload["timeout"] = true.into(),
                (Some(reason), _) => payload["reason"] = reason.clone().into(),
                (None, _) => {}
            }
            (EventName::ApprovalDecided, payload)
        }
        Wait::ApprovalTimedOut(data) => (
            EventName::ApprovalTimeout,
            json!({ "approval_id": approval_id(), "timeout_secs": seconds(data.timeout_ms) }),
        ),
        Wait::InputRequired(data) => {
            let pending = pending_input(change, data);
            let mut payload = to_value(&pending);
            payload["input_id"] = pending.id.into();
            (EventName::UserInputRequired, payload)
        }
        Wait::InputAnswered { request_id } => (
            EventName::UserInputAnswered,
            json!({ "id": request_id, "input_id": request_id }),
        ),
        Wait::InputCanceled(data) => (
            EventName::UserInputCanceled,
            json!({ "id": data.request_id, "input_id": data.request_id, "terminal": true }),
        ),
    })
}

fn to_value(value: &impl serde::Serialize) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}
