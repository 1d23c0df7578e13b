//! The OpenAPI document.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_protocol::ErrorCode;

use crate::support::{Frame, TestDaemon, text};

const CHECKED_IN: &str = include_str!("../../../../docs/openapi.json");

/// Collects every reference of a document.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value.as_str()) {
                    ("$ref", Some(target)) => found.push(target.to_owned()),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_error_code_is_documented() {
    let described: Value = serde_json::from_str(CHECKED_IN).unwrap();
    let described = &described["components"]["schemas"]["ErrorCode"]["enum"];
    let names: Vec<_> = ErrorCode::ALL.iter().map(|code| code.as_str()).collect();
    assert_eq!(*described, serde_json::json!(names));
}

#[tokio::test]
async fn served_description_equals_the_checked_in_one() {
    let daemon = TestDaemon::start().await;
    let served = daemon.client.get("/v1/openapi.json").await.expect(200);
    let mut found = Vec::new();
    references(&served, &mut found);
    for target in found {
        let pointer = target.trim_start_matches('#');
        assert!(
            served.pointer(pointer).is_some(),
            "{target} is not described"
        );
    }
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let text = serde_json::to_string_pretty(&served).unwrap();
        std::fs::write(path, text + "\n").unwrap();
        return;
    }
    let checked_in: Value = serde_json::from_str(CHECKED_IN).unwrap();
    assert!(
        served == checked_in,
        "docs/openapi.json is not what is served; run the test with WINDLASS_BLESS=1"
    );
}

fn described() -> Value {
    serde_json::from_str(CHECKED_IN).unwrap()
}

#[test]
fn operation_ids_are_unique() {
    let described = described();
    let paths = described["paths"].as_object().unwrap().values();
    let operations = paths.flat_map(|path| path.as_object().unwrap().values());
    let mut names: Vec<_> = operations
        .map(|operation| text(&operation["operationId"]))
        .collect();
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
    assert!(names.contains(&"startTurn".to_owned()), "{names:?}");
}

#[test]
fn optional_field_has_no_default() {
    for (name, schema) in described()["components"]["schemas"].as_object().unwrap() {
        let fields = schema["properties"].as_object().into_iter().flatten();
        for (field, schema) in fields {
            assert_eq!(schema.get("default"), None, "{name}.{field}");
        }
    }
    let create = &described()["components"]["schemas"]["CreateThread"];
    assert_eq!(create.get("required"), None);
}

#[test]
fn headers_and_query_values_are_described() {
    let described = described();
    let parameter = |path: &str, method: &str, name: &str| {
        let all = described["paths"][path][method]["parameters"].as_array();
        let found = all.into_iter().flatten().find(|one| one["name"] == name);
        text(&found.unwrap_or_else(|| panic!("{path}: {name}"))["description"])
    };
    parameter("/v1/threads", "post", "Idempotency-Key");
    parameter("/v1/threads/{id}/turns", "post", "Idempotency-Key");
    let events = "/v1/threads/{id}/events";
    parameter(events, "get", "Last-Event-ID");
    assert!(parameter(events, "get", "include").contains("tool_output"));
}

/// Returns the fields of a schema, including those from references and `allOf`.
fn fields_of(schemas: &Value, schema: &Value) -> BTreeSet<String> {
    let own = schema["properties"].as_object().into_iter().flatten();
    let mut fields: BTreeSet<_> = own.map(|(name, _)| name.clone()).collect();
    if let Some(target) = schema["$ref"].as_str() {
        let name = target.trim_start_matches("#/components/schemas/");
        fields.extend(fields_of(schemas, &schemas[name]));
    }
    for part in schema["allOf"].as_array().into_iter().flatten() {
        fields.extend(fields_of(schemas, part));
    }
    fields
}

/// Checks events against the document: each matches the schema of its name, and has no undocumented field.
fn assert_described(frames: &[Frame]) {
    let described = described();
    let schemas = &described["components"]["schemas"];
    for frame in frames {
        let name: String = frame
            .event
            .split(['.', '_'])
            .map(|word| word[..1].to_uppercase() + &word[1..])
            .collect();
        let any = json!({
            "$ref": "#/components/schemas/RuntimeEvent",
            "components": described["components"],
        });
        let errors = jsonschema::validator_for(&any).unwrap();
        assert!(errors.is_valid(&frame.data), "{:#}", frame.data);
        let own = &schemas[format!("{name}Event")]["allOf"][1]["properties"]["payload"];
        let known = fields_of(schemas, own);
        for field in frame.data["payload"].as_object().unwrap().keys() {
            assert!(known.contains(field), "{}: {field}", frame.event);
        }
    }
}

#[tokio::test]
async fn events_match_their_description() {
    let daemon = TestDaemon::start().await;
    let thread = daemon.thread(json!({})).await;
    let patched = daemon.client.patch(&thread, json!({"title": "new"}));
    patched.await.expect(200);
    let mut events = daemon.events(&thread, 0).await;
    daemon.turn(&thread, json!({"prompt": "hello"})).await;
    let mut frames = events.until("turn.completed").await;
    let turn = daemon.turn(&thread, json!({"prompt": "SLOW please"})).await;
    let steered = daemon
        .client
        .post(&format!("{turn}/steer"), json!({"prompt": "more"}));
    steered.await.expect(200);
    let stopped = daemon.client.post(&format!("{turn}/interrupt"), json!({}));
    stopped.await.expect(200);
    frames.extend(events.until("turn.completed").await);
    for (prompt, wait, decides) in [
        ("SHELL now", "approval.required", true),
        ("SHELL now", "approval.required", false),
        ("ASK me", "user_input.required", true),
        ("ASK me", "user_input.required", false),
        ("LOOKUP it", "tool_call.requested", true),
        ("LOOKUP it", "tool_call.requested", false),
    ] {
        let body = json!({"prompt": prompt, "dynamic_tools": [lookup_tool()]});
        let turn = daemon.turn(&thread, body).await;
        let waiting = events.until(wait).await;
        let id = |name: &str| text(&waiting.last().unwrap().data["payload"][name]);
        let client = &daemon.client;
        let answered = match (wait, decides) {
            ("approval.required", _) => {
                let decision = if decides { "allow" } else { "deny" };
                let path = format!("/v1/approvals/{}", id("approval_id"));
                client.post(&path, json!({ "decision": decision })).await
            }
            (_, false) => client.post(&format!("{turn}/interrupt"), json!({})).await,
            ("user_input.required", _) => {
                let path = thread.replace("/v1/threads", "/v1/user-input");
                let path = format!("{path}/{}", id("input_id"));
                let answer = json!({"id": "colour", "label": "Red", "value": "Red"});
                client.post(&path, json!({"answers": [answer]})).await
            }
            _ => {
                let path = format!("{turn}/tool-calls/{}/result", id("call_id"));
                client.post(&path, json!({"success": true})).await
            }
        };
        assert!(answered.status < 300, "{:?}", answered.body);
        frames.extend(waiting);
        frames.extend(events.until("turn.completed").await);
    }
    let fork = daemon.client.post(&format!("{thread}/fork"), json!({}));
    let fork = text(&fork.await.expect(201)["id"]);
    let mut events = daemon.events(&format!("/v1/threads/{fork}"), 0).await;
    frames.extend(events.until("thread.forked").await);
    assert_described(&frames);
    for name in [
        "thread.started",
        "thread.updated",
        "thread.forked",
        "turn.started",
        "turn.lifecycle",
        "turn.steered",
        "turn.interrupt_requested",
        "turn.completed",
        "item.started",
        "item.delta",
        "item.completed",
        "item.failed",
        "item.interrupted",
        "approval.required",
        "approval.decided",
        "user_input.required",
        "user_input.answered",
        "user_input.canceled",
        "tool_call.requested",
        "tool_call.resolved",
        "tool_call.canceled",
    ] {
        let is_it = |frame: &Frame| frame.event == name;
        assert!(frames.iter().any(is_it), "{name} was not seen");
    }
}

fn lookup_tool() -> Value {
    json!({
        "namespace": "tau_bench",
        "name": "get_reservation",
        "description": "Finds a reservation.",
        "input_schema": {"type": "object"},
    })
}
