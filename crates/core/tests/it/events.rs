//! Events and their JSON. `events.json` has one payload of each type with every field set.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use windlass_core::events::{
    ChangedFields, EVENT_TYPES, Event, EventData, EventDecodeError, SessionUpdatedData, TokenUsage,
};

fn samples() -> Map<String, Value> {
    serde_json::from_str(include_str!("events.json")).unwrap()
}

fn envelope(event_type: &str, data: &Value) -> Value {
    json!({
        "id": "event_00000000000000000000000000000001",
        "type": event_type,
        "ts": "2026-01-02T03:04:05.678901234Z",
        "session_id": "session_00000000000000000000000000000001",
        "context": {
            "turn_id": "turn_00000000000000000000000000000001",
            "input_message_id": "message_00000000000000000000000000000001",
            "exec_id": "exec_00000000000000000000000000000001",
            "trace_id": "t",
            "span_id": "s",
            "parent_span_id": "p",
        },
        "data": data,
        "metadata": { "k": 1 },
        "tags": ["a"],
        "sequence": 7,
    })
}

/// Decodes, encodes and decodes again.
fn survive(event_type: &str, data: &Value) -> Value {
    let wire = envelope(event_type, data);
    let event: Event = serde_json::from_value(wire).unwrap();
    assert_eq!(event.event_type, event_type);
    assert_eq!(event.data.event_type(), event_type);
    let text = serde_json::to_string(&event).unwrap();
    assert_eq!(serde_json::from_str::<Event>(&text).unwrap(), event);
    serde_json::from_str(&text).unwrap()
}

#[test]
fn r40_each_event_type_survives_json_as_the_same_type() {
    let samples = samples();
    let named: BTreeSet<_> = samples.keys().map(String::as_str).collect();
    let known: BTreeSet<_> = EVENT_TYPES.iter().copied().collect();
    assert_eq!(named, known, "events.json has one sample of each type");
    assert_eq!(known.len(), EVENT_TYPES.len(), "a name is used twice");
    for (event_type, data) in &samples {
        assert_eq!(survive(event_type, data), envelope(event_type, data));
    }
}

#[test]
fn every_optional_field_may_be_missing() {
    for (event_type, data) in &samples() {
        let mut least = data.as_object().unwrap().clone();
        for field in data.as_object().unwrap().keys() {
            let mut fields = data.as_object().unwrap().clone();
            fields.remove(field);
            let fields = Value::Object(fields);
            if EventData::from_type(event_type, fields.clone()).is_ok() {
                assert_eq!(survive(event_type, &fields)["data"], fields, "{event_type}");
                least.remove(field);
            }
        }
        let least = Value::Object(least);
        assert_eq!(survive(event_type, &least)["data"], least, "{event_type}");
    }
}

#[test]
fn unknown_type_is_named_in_the_error() {
    let unknown = EventData::from_type("turn.dreamt", json!({}));
    assert!(
        matches!(&unknown, Err(EventDecodeError::UnknownType(name)) if name == "turn.dreamt"),
        "{unknown:?}"
    );
    let wire = envelope("turn.dreamt", &json!({}));
    let error = serde_json::from_value::<Event>(wire).unwrap_err();
    assert!(error.to_string().contains("`turn.dreamt`"), "{error}");
}

#[test]
fn invalid_payload_error_names_the_type() {
    let wrong = EventData::from_type("turn.resumed", json!({ "attempt": "one" }));
    assert!(
        matches!(&wrong, Err(EventDecodeError::Payload { event_type, .. }) if event_type == "turn.resumed"),
        "{wrong:?}"
    );
}

#[test]
fn malformed_event_is_an_error() {
    let known = envelope("turn.resumed", &samples()["turn.resumed"]);
    let event: Event = serde_json::from_value(known).unwrap();
    let text = serde_json::to_string(&event).unwrap();
    for (from, to, why) in [
        ("turn.resumed", "turn.dreamt", "`turn.dreamt`"),
        ("\"attempt\":2", "\"attempt\":\"one\"", "`turn.resumed`"),
        ("\"type\":", "\"kind\":", "missing field `type`"),
        ("\"data\":", "\"payload\":", "missing field `data`"),
        ("\"ts\":\"", "\"ts\":\"never ", "input contains invalid"),
        (
            "{\"id\":",
            "{\"type\":\"a\",\"id\":",
            "duplicate field `type`",
        ),
        (
            "\"data\":",
            "\"data\":{\"turn_id\":\"turn_00000000000000000000000000000001\",\"attempt\":1},\"data\":",
            "duplicate field `data`",
        ),
    ] {
        assert!(text.contains(from), "{from} is not in {text}");
        let error = serde_json::from_str::<Event>(&text.replacen(from, to, 1)).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn usage_sums_saturate_and_retain_one_sided_values() {
    let much = TokenUsage {
        input_tokens: u32::MAX,
        output_tokens: 1,
        cache_read_tokens: Some(u32::MAX),
        cache_creation_tokens: None,
        actual_cost_usd: Some(0.5),
        estimated_cost_usd: None,
        reasoning_tokens: None,
    };
    let some = TokenUsage {
        cache_creation_tokens: Some(2),
        ..much
    };
    let mut sum = much;
    sum.add(&some);
    let expected = TokenUsage {
        output_tokens: 2,
        cache_creation_tokens: Some(2),
        actual_cost_usd: Some(1.0),
        ..much
    };
    assert_eq!(sum, expected);
}

/// Each type has a section on the page with its variant, its fields, and an example with every field.
#[test]
fn events_page_describes_each_type_with_an_example() {
    let page =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/library-events.md");
    let page = std::fs::read_to_string(page).unwrap();
    let sections: Vec<_> = page.split("\n## `").skip(1).collect();
    let named: Vec<_> = sections
        .iter()
        .map(|section| section.split('`').next().unwrap())
        .collect();
    assert_eq!(named, EVENT_TYPES, "one section for each type, in order");
    let samples = samples();
    for (event_type, section) in named.into_iter().zip(sections) {
        let example = section.split("```json\n").nth(1).unwrap();
        let example = example.split("\n```").next().unwrap();
        let example: Value = serde_json::from_str(example).unwrap();
        assert_eq!(survive(event_type, &example)["data"], example);
        let data = EventData::from_type(event_type, example).unwrap();
        let variant = format!("{data:?}");
        let variant = format!("`EventData::{}`", variant.split('(').next().unwrap());
        assert!(section.contains(&variant), "{event_type}: {variant}");
        let fields = section.split("Fields: ").nth(1).unwrap();
        let fields = fields.split("\n\n").next().unwrap();
        for field in samples[event_type].as_object().unwrap().keys() {
            let is_named =
                fields.contains(&format!("`{field}`")) || fields.contains(&format!("`{field}?`"));
            assert!(is_named, "{event_type}: {field}");
        }
    }
}

#[test]
fn changes_with_values_are_read_as_field_names() {
    let old = json!({ "title": "t", "changes": { "mode": "plan", "title": "t" } });
    let data: SessionUpdatedData = serde_json::from_value(old).unwrap();
    let names = ["mode".to_owned(), "title".to_owned()];
    assert_eq!(data.changed_fields, Some(ChangedFields(names.to_vec())));
}
