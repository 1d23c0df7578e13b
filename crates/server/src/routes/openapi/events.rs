//! A schema for each event: the envelope with its name, and what its payload holds.

use serde_json::{Map, Value, json};
use windlass_protocol::EventName::{self, *};

use super::named;

/// The name of the schema of all events.
pub(super) const ANY: &str = "RuntimeEvent";

/// What a field of a payload is.
enum Field {
    /// Another schema.
    One(&'static str),
    Text,
    /// A text, or null.
    NoText,
    Number,
    Flag,
    /// One of these words.
    Words(&'static [&'static str]),
    Any,
}

use Field::{Any, Flag, NoText, Number, One, Text, Words};

/// The fields of a payload; the name of one that may be missing ends with a question mark.
type Fields = &'static [(&'static str, Field)];

const ITEM: Fields = &[
    ("item", One("Item")),
    ("tool?", One("EventToolCall")),
    ("auto?", Flag),
    ("messages_before?", Number),
    ("messages_after?", Number),
];

fn call(status: &'static [&'static str]) -> Vec<(&'static str, Field)> {
    vec![
        ("thread_id", Text),
        ("turn_id", Text),
        ("call_id", Text),
        ("item_id", Text),
        ("status", Words(status)),
    ]
}

/// What the payload of an event holds; `None` for one that is not sent yet.
fn fields(name: EventName) -> Option<Value> {
    let of_call = |status, more: Vec<(&'static str, Field)>| {
        let mut all = call(status);
        all.extend(more);
        object(&all)
    };
    Some(match name {
        ThreadStarted => object(&[("thread", One("Thread"))]),
        ThreadUpdated => object(&[("thread", One("Thread")), ("changes", Any)]),
        ThreadForked => object(&[
            ("thread", One("Thread")),
            ("source_thread_id", Text),
            ("source_seq", Number),
            ("backtrack_depth_from_tail?", Number),
            ("dropped_turn_id?", Text),
        ]),
        TurnStarted => object(&[("turn", One("Turn")), ("manual_compaction?", Flag)]),
        TurnLifecycle => object(&[
            ("status", Words(&["in_progress"])),
            ("resumed?", Flag),
            ("resumed_count?", Number),
        ]),
        TurnSteered => object(&[("thread_id", Text), ("turn_id", Text), ("input", Text)]),
        TurnInterruptRequested => object(&[("thread_id", Text), ("turn_id", Text)]),
        TurnCompleted => object(&[("turn", One("Turn")), ("recovered?", Flag)]),
        ItemStarted | ItemCompleted | ItemFailed | ItemInterrupted => object(ITEM),
        ItemDelta => object(&[
            ("delta", Text),
            (
                "kind",
                Words(&["agent_message", "agent_reasoning", "tool_call"]),
            ),
        ]),
        ApprovalRequired => object(&[
            ("id", Text),
            ("approval_id", Text),
            ("turn_id", Text),
            ("tool_name", Text),
            ("description", Text),
            ("summary", Text),
            ("intent_summary", NoText),
            ("call_id", Text),
            ("item_id", Text),
            ("expires_at?", Text),
        ]),
        ApprovalDecided => object(&[
            ("approval_id", Text),
            ("item_id", Text),
            ("decision", One("ApprovalDecision")),
            ("remember", Flag),
            ("remember_for?", Text),
            ("timeout?", Flag),
            ("reason?", Text),
        ]),
        ApprovalTimeout => object(&[("approval_id", Text), ("timeout_secs", Number)]),
        UserInputRequired => object(&[
            ("id", Text),
            ("input_id", Text),
            ("turn_id", Text),
            ("request", Any),
            ("item_id", Text),
            ("expires_at?", Text),
        ]),
        UserInputAnswered => object(&[("id", Text), ("input_id", Text)]),
        UserInputCanceled => object(&[("id", Text), ("input_id", Text), ("terminal", Flag)]),
        ToolCallRequested => object(&[
            ("thread_id", Text),
            ("turn_id", Text),
            ("call_id", Text),
            ("namespace?", Text),
            ("tool", Text),
            ("arguments", Any),
            ("item_id", Text),
            ("expires_at?", Text),
        ]),
        ToolCallResolved => of_call(
            &["resolved"],
            vec![("success", Flag), ("result_accepted", Flag)],
        ),
        ToolCallTimeout => of_call(&["timeout"], vec![("timeout_secs", Number)]),
        ToolCallCanceled => of_call(
            &["canceled"],
            vec![("reason", Text), ("terminal", Flag), ("recovered?", Flag)],
        ),
        SandboxDenied | AgentSpawned | AgentProgress | AgentCompleted | AgentList => return None,
    })
}

fn object(fields: &[(&'static str, Field)]) -> Value {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for (name, field) in fields {
        let is_required = !name.ends_with('?');
        let name = name.trim_end_matches('?');
        if is_required {
            required.push(name);
        }
        let schema = match field {
            One(schema) => named(schema),
            Text => json!({ "type": "string" }),
            NoText => json!({ "type": ["string", "null"] }),
            Number => json!({ "type": "integer", "minimum": 0 }),
            Flag => json!({ "type": "boolean" }),
            Words(words) => json!({ "type": "string", "enum": words }),
            Any => json!({}),
        };
        properties.insert(name.to_owned(), schema);
    }
    json!({ "type": "object", "properties": properties, "required": required })
}

/// Returns the schemas of all events, and of any of them.
pub(super) fn schemas() -> Vec<(String, Value)> {
    let mut all = Vec::new();
    let mut any = Vec::new();
    for name in EventName::ALL {
        let payload = fields(*name).unwrap_or_else(
            || json!({ "type": "object", "description": "Not sent yet; the name is kept for it." }),
        );
        let schema = format!("{name:?}Event");
        any.push(named(&schema));
        let event = json!({
            "allOf": [named("RuntimeEventEnvelope"), {
                "type": "object",
                "properties": {
                    "event": { "type": "string", "enum": [name.as_str()] },
                    "kind": { "type": "string", "enum": [name.as_str()] },
                    "payload": payload,
                },
                "required": ["event", "kind", "payload"],
            }],
        });
        all.push((schema, event));
    }
    let tool = object(&[("id", Text), ("name", Text), ("input", Any)]);
    all.push(("EventToolCall".to_owned(), tool));
    let any = json!({
        "description": "An event of a thread: the data of a frame, or a line of an export.",
        "oneOf": any,
    });
    all.push((ANY.to_owned(), any));
    all
}
