//! An item on the wire.

use serde_json::{Map, Value, json};
use windlass_core::items::{
    Item as CoreItem, ItemBody, ItemKind as CoreKind, ItemStatus, ToolItem,
};
use windlass_core::typed_id::ExecId;
use windlass_protocol::events::{EventToolCall, ItemPayload};
use windlass_protocol::{DynamicToolItemStatus, Item, ItemKind, RECORD_SCHEMA_VERSION, Status};

use crate::convert::convert_variants;
use crate::external;
use crate::ids;

convert_variants! {
    fn kind(CoreKind) -> ItemKind {
        UserMessage AgentMessage AgentReasoning ToolCall FileChange CommandExecution Plan ContextCompaction Status Error
    }
    fn status(ItemStatus) -> Status { InProgress Completed Failed Interrupted }
}

/// Converts an item. A user's message is complete from its start.
pub(crate) fn item(item: &CoreItem<'_>) -> Item {
    let is_input = item.kind == CoreKind::UserMessage;
    let started_at = item.started_at.or(item.ended_at);
    let ended_at = item.ended_at.or(item.started_at.filter(|_| is_input));
    Item {
        schema_version: RECORD_SCHEMA_VERSION,
        id: item.id.to_string(),
        turn_id: item.turn_id.to_string(),
        kind: kind(item.kind),
        status: if is_input {
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

/// Converts an event's data about an item.
pub(super) fn payload(shown: &CoreItem<'_>) -> ItemPayload {
    let mut payload = ItemPayload {
        auto: None,
        item: item(shown),
        messages_after: None,
        messages_before: None,
        tool: None,
    };
    match (shown.body, shown.exec_id) {
        (ItemBody::Tool(tool), Some(exec_id)) if !shown.is_ended() => {
            payload.tool = Some(call(&tool, exec_id));
        }
        (
            ItemBody::Compaction {
                messages_before,
                messages_after,
                auto,
            },
            _,
        ) => {
            payload.auto = Some(auto.unwrap_or(true));
            payload.messages_before = messages_after.map(|_| messages_before as u64);
            payload.messages_after = messages_after.map(|after| after as u64);
        }
        _ => {}
    }
    payload
}

fn call(tool: &ToolItem<'_>, exec_id: ExecId) -> EventToolCall {
    EventToolCall {
        id: ids::call(exec_id),
        input: tool.arguments.cloned().unwrap_or_default(),
        name: tool.display_name.unwrap_or(tool.name).to_owned(),
    }
}

/// Names of values that the runtime reports about a call. Values of a result with these names do not replace them.
const RESERVED_NAMES: [&str; 10] = [
    "approval",
    "duration_ms",
    "dynamic_tool",
    "error_code",
    "origin",
    "response_redacted",
    "result",
    "tool",
    "tool_call_id",
    "tool_name",
];

/// Adds the result's structured values; values with reserved names are added under `result`.
fn add_result_values(values: &mut Map<String, Value>, tool: &ToolItem<'_>) {
    let mut reserved = Map::new();
    for (name, value) in tool.other_fields() {
        let target = if RESERVED_NAMES.contains(&name) {
            &mut reserved
        } else {
            &mut *values
        };
        target.insert(name.to_owned(), value.clone());
    }
    // The runtime measures the duration itself.
    reserved.remove("duration_ms");
    if !reserved.is_empty() {
        values.insert("result".to_owned(), Value::Object(reserved));
    }
}

fn metadata(item: &CoreItem<'_>) -> Option<Value> {
    let mut values = Map::new();
    if let (Some(tool), Some(exec_id)) = (item.tool(), item.exec_id) {
        add_result_values(&mut values, &tool);
        if tool.is_private {
            values.insert("tool_call_id".to_owned(), ids::call(exec_id).into());
            values.insert("tool_name".to_owned(), tool.name.into());
            values.insert("response_redacted".to_owned(), true.into());
        }
        let EventToolCall { id, input, name } = call(&tool, exec_id);
        let shown =
            json!({ "id": id, "input": input, "name": name, "provider_id": tool.tool_call_id });
        values.insert("tool".to_owned(), shown);
        if let Some(decision) = tool.approval {
            values.insert("approval".to_owned(), json!({ "decision": decision }));
        }
        if tool.is_observed {
            values.insert("origin".to_owned(), "observed".into());
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

#[cfg(test)]
mod tests {
    use chrono::Utc;
    use windlass_core::events::ToolStatus;
    use windlass_core::message::{ContentPart, ToolResultContentPart};
    use windlass_core::typed_id::{ItemId, TurnId};

    use super::*;

    fn shown(result: Value, is_private: bool) -> Item {
        let parts = [ContentPart::ToolResult(ToolResultContentPart {
            tool_call_id: "toolu_1".to_owned(),
            result: Some(result),
            error: None,
        })];
        let tool = ToolItem {
            tool_call_id: "toolu_1",
            name: "shell",
            display_name: None,
            arguments: None,
            status: Some(ToolStatus::Success),
            result: Some(&parts),
            error: None,
            duration_ms: Some(12),
            capability_id: None,
            is_external: false,
            is_private,
            is_observed: false,
            approval: None,
        };
        item(&CoreItem {
            id: ItemId::new(),
            turn_id: TurnId::new(),
            kind: CoreKind::CommandExecution,
            status: ItemStatus::Completed,
            exec_id: Some(ExecId::new()),
            started_at: None,
            ended_at: Some(Utc::now()),
            error_code: None,
            body: ItemBody::Tool(tool),
        })
    }

    #[test]
    fn result_is_shown_as_text_and_metadata() {
        let item = shown(
            json!({"duration_ms": 11, "exit_code": 3, "output": "hi\n", "sandbox": "landlock"}),
            false,
        );
        let metadata = item.metadata.unwrap();
        assert_eq!(item.detail.as_deref(), Some("hi\n"));
        assert_eq!(item.summary, "shell: hi\n");
        assert_eq!(
            (
                &metadata["exit_code"],
                &metadata["sandbox"],
                &metadata["duration_ms"]
            ),
            (&json!(3), &json!("landlock"), &json!(12))
        );
        assert!(metadata.get("result").is_none());
    }

    #[test]
    fn result_does_not_replace_values_of_the_runtime() {
        let item = shown(
            json!({"output": "", "approval": {"decision": "allow"}, "tool": {"name": "other"}, "error_code": "x", "result": 1}),
            false,
        );
        let metadata = item.metadata.unwrap();
        assert!(metadata.get("approval").is_none() && metadata.get("error_code").is_none());
        assert_eq!(metadata["tool"]["name"], "shell");
        assert_eq!(
            metadata["result"],
            json!({"approval": {"decision": "allow"}, "tool": {"name": "other"}, "error_code": "x", "result": 1})
        );
    }

    #[test]
    fn private_result_is_not_shown() {
        let item = shown(json!({"output": "secret", "answers": ["secret"]}), true);
        assert!(!serde_json::to_string(&item).unwrap().contains("secret"));
    }
}
