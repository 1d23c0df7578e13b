//! An item on the wire.

use serde_json::{Map, Value, json};
use windlass_core::items::{
    Item as CoreItem, ItemBody, ItemKind as CoreKind, ItemStatus, ToolItem,
};
use windlass_core::typed_id::ExecId;
use windlass_protocol::{DynamicToolItemStatus, Item, ItemKind, RECORD_SCHEMA_VERSION, Status};

use crate::external;
use crate::ids;

fn kind(kind: CoreKind) -> ItemKind {
    match kind {
        CoreKind::UserMessage => ItemKind::UserMessage,
        CoreKind::AgentMessage => ItemKind::AgentMessage,
        CoreKind::AgentReasoning => ItemKind::AgentReasoning,
        CoreKind::ToolCall => ItemKind::ToolCall,
        CoreKind::FileChange => ItemKind::FileChange,
        CoreKind::CommandExecution => ItemKind::CommandExecution,
        CoreKind::ContextCompaction => ItemKind::ContextCompaction,
        CoreKind::Status => ItemKind::Status,
        CoreKind::Error => ItemKind::Error,
    }
}

fn status(status: ItemStatus) -> Status {
    match status {
        ItemStatus::InProgress => Status::InProgress,
        ItemStatus::Completed => Status::Completed,
        ItemStatus::Failed => Status::Failed,
        ItemStatus::Interrupted => Status::Interrupted,
    }
}

/// Shows an item. What a user said is whole from its beginning.
pub(crate) fn item(item: &CoreItem<'_>) -> Item {
    let is_said = item.kind == CoreKind::UserMessage;
    let started_at = item.started_at.or(item.ended_at);
    let ended_at = match is_said {
        true => item.ended_at.or(item.started_at),
        false => item.ended_at,
    };
    Item {
        schema_version: RECORD_SCHEMA_VERSION,
        id: item.id.to_string(),
        turn_id: item.turn_id.to_string(),
        kind: kind(item.kind),
        status: if is_said {
            Status::Completed
        } else {
            status(item.status)
        },
        summary: item.summary().into_owned(),
        detail: Some(item.detail().into_owned()),
        metadata: metadata(item),
        artifact_refs: Vec::new(),
        started_at: started_at.map(ids::time),
        ended_at: ended_at.map(ids::time),
    }
}

/// Shows what an event says of an item.
pub(super) fn payload(shown: &CoreItem<'_>) -> Value {
    let mut payload = json!({ "item": item(shown) });
    match (shown.body, shown.exec_id) {
        (ItemBody::Tool(tool), Some(exec_id)) if !shown.is_ended() => {
            payload["tool"] = call(&tool, exec_id);
        }
        (
            ItemBody::Compaction {
                messages_before,
                messages_after,
                auto,
            },
            _,
        ) => {
            payload["auto"] = auto.unwrap_or(true).into();
            if let Some(after) = messages_after {
                payload["messages_before"] = messages_before.into();
                payload["messages_after"] = after.into();
            }
        }
        _ => {}
    }
    payload
}

fn call(tool: &ToolItem<'_>, exec_id: ExecId) -> Value {
    json!({
        "id": ids::call(exec_id),
        "name": tool.display_name.unwrap_or(tool.name),
        "input": tool.arguments,
    })
}

fn metadata(item: &CoreItem<'_>) -> Option<Value> {
    let mut values = Map::new();
    if let (Some(tool), Some(exec_id)) = (item.tool(), item.exec_id) {
        if tool.is_private {
            values.insert("tool_call_id".to_owned(), ids::call(exec_id).into());
            values.insert("tool_name".to_owned(), tool.name.into());
            values.insert("response_redacted".to_owned(), true.into());
        }
        let mut shown = call(&tool, exec_id);
        shown["provider_id"] = tool.tool_call_id.into();
        values.insert("tool".to_owned(), shown);
        if let Some(decision) = tool.approval {
            values.insert("approval".to_owned(), json!({ "decision": decision }));
        }
        if tool.is_external {
            values.insert(
                "dynamic_tool".to_owned(),
                dynamic_tool(item, &tool, exec_id),
            );
        }
        if let Some(duration_ms) = tool.duration_ms {
            values.insert("duration_ms".to_owned(), duration_ms.into());
        }
    }
    if let Some(code) = item.error_code {
        values.insert("error_code".to_owned(), code.into());
    }
    (!values.is_empty()).then_some(Value::Object(values))
}

fn dynamic_tool(item: &CoreItem<'_>, tool: &ToolItem<'_>, exec_id: ExecId) -> Value {
    let (namespace, name) = external::registered(tool.display_name.unwrap_or(tool.name));
    let status = match item.status {
        ItemStatus::InProgress => DynamicToolItemStatus::InProgress,
        ItemStatus::Completed => DynamicToolItemStatus::Completed,
        ItemStatus::Failed | ItemStatus::Interrupted => DynamicToolItemStatus::Failed,
    };
    let mut shown = json!({ "tool": name, "call_id": ids::call(exec_id), "status": status });
    if let Some(namespace) = namespace {
        shown["namespace"] = namespace.into();
    }
    shown
}
