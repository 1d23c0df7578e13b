//! Requests that wait for a client or user, and how the wait ends.

use windlass_core::events::{
    ApprovalRequiredData, Decision, Event, ToolCallRequestedData, UserInputRequiredData,
};
use windlass_core::items::{WaitChange, WaitUpdate};
use windlass_core::typed_id::SessionId;
use windlass_protocol::events::{
    ApprovalDecidedPayload, ApprovalRequiredPayload, ApprovalTimeoutPayload,
    ToolCallCanceledPayload, ToolCallResolvedPayload, ToolCallStatus, ToolCallTimeoutPayload,
    UserInputAnsweredPayload, UserInputCanceledPayload, UserInputRequiredPayload,
};
use windlass_protocol::{
    ApprovalDecision, DynamicToolCallParams, EventPayload, PendingApproval, PendingToolCall,
    PendingUserInput,
};
use windlass_runtime::PROCESS_RESTART;

use crate::external;
use crate::ids;

/// Converts a call that a client must execute.
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

/// Converts a call that needs an approval.
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

/// Converts a question that needs an answer.
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

pub(super) fn wait(event: &Event, change: &WaitChange<'_>) -> Option<EventPayload> {
    let thread_id = || ids::thread(event.session_id);
    let turn_id = || change.turn_id.to_string();
    let item_id = || change.item_id.to_string();
    let call_id = || ids::call(change.exec_id);
    let approval_id = || ids::approval(change.exec_id);
    let seconds = |timeout_ms: Option<u64>| timeout_ms.unwrap_or_default() / 1000;
    Some(match change.wait {
        WaitUpdate::CallRequested(data) => {
            let pending = pending_call(event.session_id, change, data)?;
            EventPayload::ToolCallRequested(Box::new(pending))
        }
        WaitUpdate::CallResolved(data) => {
            EventPayload::ToolCallResolved(Box::new(ToolCallResolvedPayload {
                call_id: call_id(),
                item_id: item_id(),
                result_accepted: true,
                status: ToolCallStatus::Resolved,
                success: data.success,
                thread_id: thread_id(),
                turn_id: turn_id(),
            }))
        }
        WaitUpdate::CallTimedOut(data) => {
            EventPayload::ToolCallTimeout(Box::new(ToolCallTimeoutPayload {
                call_id: call_id(),
                item_id: item_id(),
                status: ToolCallStatus::Timeout,
                thread_id: thread_id(),
                timeout_secs: seconds(data.timeout_ms),
                turn_id: turn_id(),
            }))
        }
        WaitUpdate::CallCanceled(data) => {
            EventPayload::ToolCallCanceled(Box::new(ToolCallCanceledPayload {
                call_id: call_id(),
                item_id: item_id(),
                reason: data.reason.clone(),
                recovered: (data.reason == PROCESS_RESTART).then_some(true),
                status: ToolCallStatus::Canceled,
                terminal: true,
                thread_id: thread_id(),
                turn_id: turn_id(),
            }))
        }
        WaitUpdate::ApprovalRequired(data) => {
            let pending = pending_approval(change, data);
            EventPayload::ApprovalRequired(Box::new(ApprovalRequiredPayload {
                approval_id: approval_id(),
                call_id: call_id(),
                summary: pending.description.clone(),
                description: pending.description,
                expires_at: pending.expires_at,
                id: pending.id,
                intent_summary: pending.intent_summary,
                item_id: item_id(),
                tool_name: pending.tool_name,
                turn_id: pending.turn_id,
            }))
        }
        WaitUpdate::ApprovalDecided(data) => {
            let for_project = data.project == Some(true);
            let timed_out = data.timed_out == Some(true);
            EventPayload::ApprovalDecided(Box::new(ApprovalDecidedPayload {
                approval_id: approval_id(),
                decision: match data.decision {
                    Decision::Allow => ApprovalDecision::Allow,
                    Decision::Deny => ApprovalDecision::Deny,
                },
                item_id: item_id(),
                reason: data.reason.clone().filter(|_| !timed_out),
                remember: for_project || data.remember.unwrap_or_default(),
                remember_for: for_project.then(|| "project".to_owned()),
                timeout: timed_out.then_some(true),
            }))
        }
        WaitUpdate::ApprovalTimedOut(data) => {
            EventPayload::ApprovalTimeout(Box::new(ApprovalTimeoutPayload {
                approval_id: approval_id(),
                timeout_secs: seconds(data.timeout_ms),
            }))
        }
        WaitUpdate::InputRequired(data) => {
            let pending = pending_input(change, data);
            EventPayload::UserInputRequired(Box::new(UserInputRequiredPayload {
                expires_at: pending.expires_at,
                input_id: pending.id.clone(),
                id: pending.id,
                item_id: item_id(),
                request: pending.request,
                turn_id: pending.turn_id,
            }))
        }
        WaitUpdate::InputAnswered { request_id } => {
            EventPayload::UserInputAnswered(Box::new(UserInputAnsweredPayload {
                id: request_id.to_owned(),
                input_id: request_id.to_owned(),
            }))
        }
        WaitUpdate::InputCanceled(data) => {
            EventPayload::UserInputCanceled(Box::new(UserInputCanceledPayload {
                id: data.request_id.clone(),
                input_id: data.request_id.clone(),
                terminal: true,
            }))
        }
    })
}
