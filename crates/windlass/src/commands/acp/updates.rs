//! What happens in a thread, in the words of the protocol.

use std::collections::HashSet;

use serde_json::{Value, json};
use windlass_protocol::{EventName, Item, ItemKind, RuntimeEventEnvelope, Status};

/// How much of a title an editor gets.
const TITLE: usize = 200;

/// Turns events into updates.
#[derive(Default)]
pub(super) struct Updates {
    /// Items whose text came in pieces.
    in_pieces: HashSet<String>,
}

impl Updates {
    /// Says what an event means for a client, if anything.
    pub(super) fn of(&mut self, event: &RuntimeEventEnvelope) -> Option<Value> {
        let is = |name: EventName| event.event == name.as_str();
        if is(EventName::ItemDelta) {
            let chunk = chunk_of(&event.payload["kind"])?;
            self.in_pieces.extend(event.item_id.clone());
            let text = event.payload["delta"].as_str()?;
            return Some(said(chunk, text));
        }
        let is_start = is(EventName::ItemStarted);
        let is_end = [
            EventName::ItemCompleted,
            EventName::ItemFailed,
            EventName::ItemInterrupted,
        ]
        .into_iter()
        .any(is);
        if !is_start && !is_end {
            return None;
        }
        let item: Item = serde_json::from_value(event.payload["item"].clone()).ok()?;
        match is_start {
            true => is_tool(item.kind).then(|| begun(&item, &event.payload["tool"])),
            false => self.ended(&item),
        }
    }

    fn ended(&mut self, item: &Item) -> Option<Value> {
        if is_tool(item.kind) {
            return Some(done(item));
        }
        let chunk = chunk_of(&json!(item.kind))?;
        // Its text was told already.
        if self.in_pieces.remove(&item.id) {
            return None;
        }
        Some(said(chunk, item.detail.as_deref().unwrap_or_default()))
    }
}

/// Tells an item of the past, as far as an editor shows it.
pub(super) fn past(item: &Item) -> Vec<Value> {
    let text = item.detail.as_deref().unwrap_or_default();
    match item.kind {
        ItemKind::UserMessage => vec![said("user_message_chunk", text)],
        kind if is_tool(kind) => {
            let tool = item.metadata.as_ref().map(|metadata| &metadata["tool"]);
            let mut begun = begun(item, tool.unwrap_or(&Value::Null));
            match item.status {
                Status::InProgress => vec![begun],
                _ => {
                    begun["status"] = "pending".into();
                    vec![begun, done(item)]
                }
            }
        }
        kind => chunk_of(&json!(kind))
            .map(|chunk| said(chunk, text))
            .into_iter()
            .collect(),
    }
}

/// Describes a call that somebody must allow.
pub(super) fn asked_for(item_id: &str, approval: &Value, known: Option<&Value>) -> Value {
    let mut call = json!({
        "toolCallId": item_id,
        "status": "pending",
        "title": cut(approval["description"].as_str().unwrap_or_default()),
        "kind": kind_of(approval["tool_name"].as_str().unwrap_or_default()),
    });
    if let Some(tool) = known {
        call["title"] = title(tool).into();
        call["rawInput"] = tool["input"].clone();
    }
    call
}

/// Tells which chunks the text of an item is.
fn chunk_of(kind: &Value) -> Option<&'static str> {
    match kind.as_str()? {
        "agent_message" => Some("agent_message_chunk"),
        "agent_reasoning" => Some("agent_thought_chunk"),
        _ => None,
    }
}

fn said(chunk: &str, text: &str) -> Value {
    json!({ "sessionUpdate": chunk, "content": { "type": "text", "text": text } })
}

fn is_tool(kind: ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::ToolCall | ItemKind::FileChange | ItemKind::CommandExecution
    )
}

fn begun(item: &Item, tool: &Value) -> Value {
    let name = tool["name"].as_str().unwrap_or(&item.summary);
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": item.id,
        "title": title(tool),
        "kind": kind_of(name),
        "status": "in_progress",
        "rawInput": tool["input"],
    })
}

fn done(item: &Item) -> Value {
    let status = match item.status {
        Status::Completed => "completed",
        _ => "failed",
    };
    let text = item.detail.as_deref().unwrap_or_default();
    json!({
        "sessionUpdate": "tool_call_update",
        "toolCallId": item.id,
        "status": status,
        "content": [{ "type": "content", "content": { "type": "text", "text": text } }],
    })
}

/// Names a call in a line: the command, the path, or what it is called with.
pub(super) fn title(tool: &Value) -> String {
    let name = tool["name"].as_str().unwrap_or("tool");
    let input = &tool["input"];
    let told = ["command", "path", "pattern", "url", "query"];
    let told = told.iter().find_map(|field| input[*field].as_str());
    cut(&match told {
        Some(told) => format!("{name}: {told}"),
        None => name.to_owned(),
    })
}

fn cut(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(TITLE).collect()
}

/// Says what a tool does to the world, for the editor's symbol.
fn kind_of(name: &str) -> &'static str {
    match name.rsplit("::").next().unwrap_or(name) {
        "read" | "list" => "read",
        "write" | "edit" => "edit",
        "grep" | "glob" | "search" => "search",
        "shell" => "execute",
        _ => "other",
    }
}
