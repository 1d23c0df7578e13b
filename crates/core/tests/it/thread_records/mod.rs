//! The stored forms of a thread record. A fixture stays as it was written; a later version adds its own.

use serde_json::{Value, json};
use windlass_core::events::{Event, EventContext, EventRequest, SessionStartedData};
use windlass_core::typed_id::{EventId, SessionId};
use windlass_core::{ThreadRecord, ThreadRecordError};

const BEFORE_VERSIONS: &str = include_str!("before-versions.json");
const VERSION_1: &str = include_str!("1.json");

fn form(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn stored_forms_of_all_versions_are_the_same_record() {
    let newest = ThreadRecord::decode(form(VERSION_1)).unwrap();
    let oldest = ThreadRecord::decode(form(BEFORE_VERSIONS)).unwrap();
    assert_eq!(oldest, newest);
}

#[test]
fn record_is_written_in_the_newest_form() {
    let record = ThreadRecord::decode(form(VERSION_1)).unwrap();
    assert_eq!(serde_json::to_value(&record).unwrap(), form(VERSION_1));
    let text = serde_json::to_string(&record).unwrap();
    assert!(text.starts_with(r#"{"version":1,"#), "{text}");
}

#[test]
fn smallest_record_before_versions_is_readable() {
    let stored = json!({
        "schema_version": 2, "id": "thr_1", "created_at": "2026-01-01T00:00:00Z", "updated_at": "2026-01-01T00:00:00Z",
        "model": "m", "workspace": "/", "mode": "agent", "allow_shell": true, "trust_mode": false, "auto_approve": false,
        "archived": false,
    });
    let record = ThreadRecord::decode(stored).unwrap();
    assert_eq!(record.policy.model, "m");
    assert_eq!(record.owner, None);
}

#[test]
fn unknown_version_is_a_distinct_error() {
    for (name, text, version) in [
        ("version", VERSION_1, json!(2)),
        ("version", VERSION_1, json!("1")),
        ("schema_version", BEFORE_VERSIONS, json!(3)),
    ] {
        let mut stored = form(text);
        stored[name] = version.clone();
        let error = ThreadRecord::decode(stored).unwrap_err();
        let is_named =
            matches!(&error, ThreadRecordError::UnknownVersion(found) if *found == version);
        assert!(is_named, "{error}");
    }
}

#[test]
fn unknown_or_missing_fields_are_refused() {
    let mut unknown = form(VERSION_1);
    unknown["policy"]["sandbox"] = json!("none");
    let mut missing = form(VERSION_1);
    missing.as_object_mut().unwrap().remove("policy");
    for stored in [unknown, missing, json!({}), json!(1)] {
        let error = ThreadRecord::decode(stored).unwrap_err();
        assert!(matches!(error, ThreadRecordError::Malformed(_)), "{error}");
    }
}

#[test]
fn every_free_text_is_visited() {
    let mut record = ThreadRecord::decode(form(VERSION_1)).unwrap();
    record.visit_texts(&mut |text| "masked".clone_into(text), &mut |json| {
        *json = json!("masked")
    });
    // Names, times and numbers of our own stay readable.
    let own = [
        "version",
        "created_at",
        "updated_at",
        "latest_turn_id",
        "parent",
        "mode",
        "on_restart",
    ];
    fn check(name: &str, value: &Value, own: &[&str]) {
        match value {
            _ if own.contains(&name) => {}
            Value::String(text) => assert_eq!(text, "masked", "{name}"),
            Value::Array(list) => list.iter().for_each(|value| check(name, value, own)),
            Value::Object(fields) => fields
                .iter()
                .for_each(|(name, value)| check(name, value, own)),
            _ => {}
        }
    }
    check("", &serde_json::to_value(&record).unwrap(), &own);
}

#[test]
fn event_with_a_record_of_an_unknown_version_is_unreadable() {
    let record = ThreadRecord::decode(form(VERSION_1)).unwrap();
    let data = SessionStartedData {
        title: None,
        record: Some(Box::new(record)),
    };
    let event = EventRequest::new(SessionId::from_seed(1), EventContext::default(), data);
    let event = event.into_event(EventId::from_seed(1), Some(1));
    let mut stored = serde_json::to_value(&event).unwrap();
    assert_eq!(
        serde_json::from_value::<Event>(stored.clone()).unwrap(),
        event
    );
    stored["data"]["record"] = form(BEFORE_VERSIONS);
    assert_eq!(
        serde_json::from_value::<Event>(stored.clone()).unwrap(),
        event
    );
    stored["data"]["record"]["version"] = json!(2);
    let error = serde_json::from_value::<Event>(stored)
        .unwrap_err()
        .to_string();
    assert!(error.contains("the thread record has version 2"), "{error}");
}
