//! Converts thread events to session updates of the protocol.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};
use windlass_protocol::events::DeltaKind;
use windlass_protocol::{EventPayload, Item, ItemKind, RuntimeEventEnvelope, Status};

use crate::stdio_rpc::title;
use crate::terminal::{PlanEntry, ShownCall, ToolKind, describe, main_argument};

const MESSAGE_CHUNK: &str = "agent_message_chunk";
const THOUGHT_CHUNK: &str = "agent_thought_chunk";

/// Converts events to updates.
#[derive(Default)]
pub(super) struct Updates {
    /// Items whose text was sent in chunks.
    chunked: HashSet<String>,
}

impl Updates {
    /// Returns the update for an event, if the protocol has one.
    pub(super) fn convert(&mut self, event: &RuntimeEventEnvelope) -> Option<Value> {
        match &event.payload {
            EventPayload::ItemDelta(piece) => {
                let chunk = match piece.kind {
                    DeltaKind::AgentMessage => MESSAGE_CHUNK,
                    DeltaKind::AgentReasoning => THOUGHT_CHUNK,
                    DeltaKind::ToolCall => return None,
                };
                self.chunked.extend(event.item_id.clone());
                Some(chunk_update(chunk, &piece.delta))
            }
            EventPayload::ItemStarted(started) if is_tool(started.item.kind) => {
                let tool = started.tool.clone().map(ShownCall::from);
                Some(call_started(&started.item, tool.as_ref()))
            }
            payload => self.item_ended(payload.ended_item()?),
        }
    }

    fn item_ended(&mut self, item: &Item) -> Option<Value> {
        if is_tool(item.kind) {
            return Some(call_ended(item));
        }
        if item.kind == ItemKind::Plan {
            return plan_update(item);
        }
        let chunk = chunk_of(item.kind)?;
        // The text was already sent in chunks.
        if self.chunked.remove(&item.id) {
            return None;
        }
        Some(chunk_update(
            chunk,
            item.detail.as_deref().unwrap_or_default(),
        ))
    }
}

/// Converts a recorded item to updates, as far as an editor can show it.
pub(super) fn recorded_updates(item: &Item) -> Vec<Value> {
    let text = item.detail.as_deref().unwrap_or_default();
    match item.kind {
        ItemKind::UserMessage => vec![chunk_update("user_message_chunk", text)],
        kind if is_tool(kind) => {
            let mut call_started = call_started(item, ShownCall::from_item(item).as_ref());
            match item.status {
                Status::InProgress => vec![call_started],
                _ => {
                    call_started["status"] = "pending".into();
                    vec![call_started, call_ended(item)]
                }
            }
        }
        ItemKind::Plan => plan_update(item).into_iter().collect(),
        kind => chunk_of(kind)
            .map(|chunk| chunk_update(chunk, text))
            .into_iter()
            .collect(),
    }
}

/// Describes a call that needs approval: a one-line title and the complete input.
pub(super) fn permission_request(item_id: &str, tool: &ShownCall, cwd: &Path) -> Value {
    json!({
        "toolCallId": item_id,
        "status": "pending",
        "title": call_title(tool),
        "kind": kind_of(&tool.name),
        "rawInput": tool.input,
        "content": [content(&fenced(&describe(tool, cwd)))],
    })
}

/// Fences a text so that the editor does not render it as Markdown.
fn fenced(text: &str) -> String {
    let runs = text.split(|character| character != '`').map(str::len);
    let fence = "`".repeat(runs.max().unwrap_or(0).max(2) + 1);
    format!("{fence}\n{text}\n{fence}")
}

fn content(text: &str) -> Value {
    json!({ "type": "content", "content": { "type": "text", "text": text } })
}

/// Returns the type of chunk for the text of an item.
fn chunk_of(kind: ItemKind) -> Option<&'static str> {
    match kind {
        ItemKind::AgentMessage => Some(MESSAGE_CHUNK),
        ItemKind::AgentReasoning => Some(THOUGHT_CHUNK),
        _ => None,
    }
}

fn chunk_update(chunk: &str, text: &str) -> Value {
    json!({ "sessionUpdate": chunk, "content": { "type": "text", "text": text } })
}

fn is_tool(kind: ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::ToolCall | ItemKind::FileChange | ItemKind::CommandExecution
    )
}

/// Converts the agent's plan. A refused one is not shown.
fn plan_update(item: &Item) -> Option<Value> {
    let is_completed = item.status == Status::Completed;
    is_completed.then(|| json!({ "sessionUpdate": "plan", "entries": PlanEntry::all(item) }))
}

fn call_started(item: &Item, tool: Option<&ShownCall>) -> Value {
    let name = tool.map_or(&item.summary, |tool| &tool.name);
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": item.id,
        "title": tool.map_or_else(|| "tool".to_owned(), call_title),
        "kind": kind_of(name),
        "status": "in_progress",
        "rawInput": tool.map(|tool| &tool.input),
    })
}

fn call_ended(item: &Item) -> Value {
    let status = match item.status {
        Status::Completed => "completed",
        _ => "failed",
    };
    let text = item.detail.as_deref().unwrap_or_default();
    json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": item.id,
        "status": status,
        "content": [content(text)],
    })
}

/// Describes a call in one line: the tool and its main argument.
fn call_title(tool: &ShownCall) -> String {
    match main_argument(&tool.input).as_str() {
        "" => title(&tool.name),
        argument => title(&format!("{}: {argument}", tool.name)),
    }
}

/// Returns the protocol's kind of a tool, which determines the icon in the editor.
fn kind_of(name: &str) -> &'static str {
    match ToolKind::from_name(name) {
        ToolKind::Read => "read",
        ToolKind::Change => "edit",
        ToolKind::Search => "search",
        ToolKind::Command => "execute",
        ToolKind::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stdio_rpc::MAX_TITLE;
    use crate::terminal::approval_call;

    fn request_for(name: &str, input: &Value) -> Value {
        let tool = approval_call(name, &format!("{name} {input}"), None);
        permission_request("item", &tool, Path::new("/"))
    }

    #[test]
    fn plan_is_an_update_of_its_own() {
        let entries = json!([
            { "content": "Read", "status": "completed", "priority": "high" },
            { "content": "Write", "status": "pending" },
        ]);
        let item: Item = serde_json::from_value(json!({
            "schema_version": 1, "id": "item_1", "turn_id": "turn_1", "kind": "plan", "status": "completed",
            "summary": "", "metadata": { "tool": { "name": "update_plan", "input": { "entries": entries } } },
        }))
        .unwrap();
        let mut sent = entries;
        sent[1]["priority"] = "medium".into();
        let update = json!({ "sessionUpdate": "plan", "entries": sent });
        assert_eq!(recorded_updates(&item), std::slice::from_ref(&update));
        assert_eq!(Updates::default().item_ended(&item), Some(update));
    }

    #[test]
    fn permission_request_has_the_complete_command() {
        let command = format!("ls\nrm x{}", " # y".repeat(100));
        let call = request_for("Bash", &json!({ "command": command, "timeout": 5 }));
        let title = call["title"].as_str().unwrap();
        assert!(title.starts_with("Bash: ls\\nrm x"), "{title}");
        assert!(
            title.ends_with('…') && title.chars().count() == MAX_TITLE + 1,
            "{title}"
        );
        assert_eq!(call["kind"], "execute");
        let whole = call["content"][0]["content"]["text"].as_str().unwrap();
        let (first, second) = command.split_once('\n').unwrap();
        assert_eq!(
            whole,
            format!("```\n$ {first}\n$ {second}\ntimeout: 5\n```")
        );
    }

    #[test]
    fn permission_request_has_the_diff_without_markup() {
        let input = json!({ "file_path": "/none/a", "old_string": "x", "new_string": "```\ny" });
        let call = request_for("Edit", &input);
        assert_eq!(
            (&call["title"], &call["kind"]),
            (&json!("Edit: /none/a"), &json!("edit"))
        );
        let whole = call["content"][0]["content"]["text"].as_str().unwrap();
        assert!(
            whole.starts_with("````\n") && whole.ends_with("\n````"),
            "{whole}"
        );
        assert!(whole.contains("-x\n") && whole.contains("+y\n"), "{whole}");
    }
}
