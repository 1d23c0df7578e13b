//! Converts thread events to session updates of the protocol.

use std::collections::HashSet;
use std::path::Path;

use serde_json::{Value, json};
use windlass_core::bounds::one_line;
use windlass_protocol::events::DeltaKind;
use windlass_protocol::{EventPayload, Item, ItemKind, RuntimeEventEnvelope, Status};

use crate::terminal::{Kind, ToolCall, about, described};

/// Maximum length of a title, in characters.
const TITLE: usize = 200;
const MESSAGE_CHUNK: &str = "agent_message_chunk";
const THOUGHT_CHUNK: &str = "agent_thought_chunk";

/// Converts events to updates.
#[derive(Default)]
pub(super) struct Updates {
    /// Items whose text was sent in chunks.
    in_pieces: HashSet<String>,
}

impl Updates {
    /// Returns the update for an event, if the protocol has one.
    pub(super) fn of(&mut self, event: &RuntimeEventEnvelope) -> Option<Value> {
        match &event.payload {
            EventPayload::ItemDelta(piece) => {
                let chunk = match piece.kind {
                    DeltaKind::AgentMessage => MESSAGE_CHUNK,
                    DeltaKind::AgentReasoning => THOUGHT_CHUNK,
                    DeltaKind::ToolCall => return None,
                };
                self.in_pieces.extend(event.item_id.clone());
                Some(said(chunk, &piece.delta))
            }
            EventPayload::ItemStarted(started) if is_tool(started.item.kind) => {
                let tool = started.tool.clone().map(ToolCall::from);
                Some(begun(&started.item, tool.as_ref()))
            }
            payload => self.ended(payload.ended_item()?),
        }
    }

    fn ended(&mut self, item: &Item) -> Option<Value> {
        if is_tool(item.kind) {
            return Some(done(item));
        }
        let chunk = chunk_of(item.kind)?;
        // The text was already sent in chunks.
        if self.in_pieces.remove(&item.id) {
            return None;
        }
        Some(said(chunk, item.detail.as_deref().unwrap_or_default()))
    }
}

/// Converts a recorded item to updates, as far as an editor can show it.
pub(super) fn past(item: &Item) -> Vec<Value> {
    let text = item.detail.as_deref().unwrap_or_default();
    match item.kind {
        ItemKind::UserMessage => vec![said("user_message_chunk", text)],
        kind if is_tool(kind) => {
            let mut begun = begun(item, ToolCall::of_item(item).as_ref());
            match item.status {
                Status::InProgress => vec![begun],
                _ => {
                    begun["status"] = "pending".into();
                    vec![begun, done(item)]
                }
            }
        }
        kind => chunk_of(kind)
            .map(|chunk| said(chunk, text))
            .into_iter()
            .collect(),
    }
}

/// Describes a call that needs approval: a one-line title and the complete input.
pub(super) fn asked_for(item_id: &str, tool: &ToolCall, cwd: &Path) -> Value {
    json!({
        "toolCallId": item_id,
        "status": "pending",
        "title": title(tool),
        "kind": kind_of(&tool.name),
        "rawInput": tool.input,
        "content": [content(&as_it_is(&described(tool, cwd)))],
    })
}

/// Fences a text so that the editor does not render it as Markdown.
fn as_it_is(text: &str) -> String {
    let runs = text.split(|letter| letter != '`').map(str::len);
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

fn said(chunk: &str, text: &str) -> Value {
    json!({ "sessionUpdate": chunk, "content": { "type": "text", "text": text } })
}

fn is_tool(kind: ItemKind) -> bool {
    matches!(
        kind,
        ItemKind::ToolCall | ItemKind::FileChange | ItemKind::CommandExecution
    )
}

fn begun(item: &Item, tool: Option<&ToolCall>) -> Value {
    let name = tool.map_or(&item.summary, |tool| &tool.name);
    json!({
        "sessionUpdate": "tool_call",
        "toolCallId": item.id,
        "title": tool.map_or_else(|| "tool".to_owned(), title),
        "kind": kind_of(name),
        "status": "in_progress",
        "rawInput": tool.map(|tool| &tool.input),
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
        "content": [content(text)],
    })
}

/// Describes a call in one line: the tool and its main argument.
pub(super) fn title(tool: &ToolCall) -> String {
    let name = one_line(&tool.name);
    match about(&tool.input).as_str() {
        "" => cut(&name),
        about => cut(&format!("{name}: {about}")),
    }
}

/// Shortens a line to the maximum length of a title and marks the cut with `…`.
fn cut(line: &str) -> String {
    match line.char_indices().nth(TITLE) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}

/// Returns the protocol's kind of a tool, which determines the icon in the editor.
fn kind_of(name: &str) -> &'static str {
    match Kind::of(name) {
        Kind::Read => "read",
        Kind::Change => "edit",
        Kind::Search => "search",
        Kind::Command => "execute",
        Kind::Other => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::asked;

    fn asked_with(name: &str, input: &Value) -> Value {
        let tool = asked(name, &format!("{name} {input}"), None);
        asked_for("item", &tool, Path::new("/"))
    }

    #[test]
    fn a_permission_shows_the_whole_command() {
        let command = format!("ls\nrm x{}", " # y".repeat(100));
        let call = asked_with("Bash", &json!({ "command": command, "timeout": 5 }));
        let title = call["title"].as_str().unwrap();
        assert!(title.starts_with("Bash: ls\\nrm x"), "{title}");
        assert!(
            title.ends_with('…') && title.chars().count() == TITLE + 1,
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
    fn a_permission_shows_what_changes_and_no_markup() {
        let input = json!({ "file_path": "/none/a", "old_string": "x", "new_string": "```\ny" });
        let call = asked_with("Edit", &input);
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
