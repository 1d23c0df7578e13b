//! What the published types of the original promise about shapes.

use serde_json::{Value, from_str, from_value, json, to_string, to_value};
use windlass_protocol::{
    DynamicToolCallContent, DynamicToolCallParams, DynamicToolCallResult, DynamicToolItemStatus,
    DynamicToolSpec, EventName, EventPayload, Mode, RuntimeEventEnvelope, TurnEnvironmentParams,
};

#[test]
fn a_tool_spec_without_options_is_loaded_at_once() {
    let spec: DynamicToolSpec = from_value(json!({
        "namespace": "tau_bench", "name": "get_reservation",
        "description": "Look up an airline reservation.", "input_schema": {"type": "object"}
    }))
    .unwrap();
    assert!(!spec.defer_loading);
    assert_eq!(spec.canonical_name(), "tau_bench::get_reservation");
    let bare: DynamicToolSpec =
        from_value(json!({"name": "x", "description": "", "input_schema": {}})).unwrap();
    assert_eq!(bare.canonical_name(), "x");
    assert!(to_value(&bare).unwrap().get("namespace").is_none());
}

#[test]
fn statuses_and_contents_have_the_names_of_the_original() {
    assert_eq!(
        to_string(&DynamicToolItemStatus::InProgress).unwrap(),
        "\"in_progress\""
    );
    let text = DynamicToolCallContent::InputText { text: "x".into() };
    assert_eq!(
        to_string(&text).unwrap(),
        r#"{"type":"input_text","text":"x"}"#
    );
    let image = DynamicToolCallContent::InputImage {
        image_url: "y".into(),
    };
    assert_eq!(
        to_string(&image).unwrap(),
        r#"{"type":"input_image","image_url":"y"}"#
    );
}

#[test]
fn a_result_may_come_without_content_and_never_without_success() {
    let result: DynamicToolCallResult = from_str(r#"{ "success": false }"#).unwrap();
    assert!(!result.success && result.content.is_empty());
    assert!(from_str::<DynamicToolCallResult>(r#"{ "content": [] }"#).is_err());
}

#[test]
fn call_params_leave_out_an_absent_namespace() {
    let value = json!({"thread_id": "thr_1", "turn_id": "turn_1", "call_id": "call_1", "tool": "t", "arguments": {"a": 1}});
    let params: DynamicToolCallParams = from_value(value.clone()).unwrap();
    assert_eq!(to_value(&params).unwrap(), value);
}

#[test]
fn environments_read_as_written() {
    let value = json!({"environment_id": "local", "cwd": "/workspace"});
    let read: TurnEnvironmentParams = from_value(value.clone()).unwrap();
    assert_eq!(to_value(&read).unwrap(), value);
}

#[test]
fn an_envelope_without_version_is_of_the_first() {
    let envelope: RuntimeEventEnvelope = from_value(json!({
        "seq": 1, "event": "test", "kind": "test", "thread_id": "thr_1",
        "timestamp": "2026-06-12T00:00:00Z", "payload": {}
    }))
    .unwrap();
    assert_eq!(to_value(&envelope).unwrap()["schema_version"], 1);
    assert_eq!(envelope.previous_seq, None);
}

#[test]
fn envelope_of_another_version_is_refused() {
    let refused = from_value::<RuntimeEventEnvelope>(json!({
        "schema_version": 2, "seq": 1, "event": "test", "kind": "test", "thread_id": "thr_1",
        "timestamp": "2026-06-12T00:00:00Z", "payload": {}
    }));
    let error = refused.unwrap_err().to_string();
    assert_eq!(error, "the event has the unknown envelope version 2");
}

#[test]
fn absent_ids_of_an_envelope_are_null_and_the_link_is_a_field() {
    let mut envelope: RuntimeEventEnvelope = from_value(json!({
        "seq": 2, "event": "approval.timeout", "kind": "approval.timeout", "thread_id": "thr_1",
        "timestamp": "2026-06-12T00:00:00Z", "payload": {"approval_id": "apr_1", "timeout_secs": 5}
    }))
    .unwrap();
    envelope.previous_seq = Some(1);
    let value = to_value(&envelope).unwrap();
    assert_eq!(value["turn_id"], Value::Null);
    assert_eq!(value["item_id"], Value::Null);
    assert_eq!(value["previous_seq"], 1);
}

#[test]
fn event_of_a_newer_server_is_written_as_it_was_read() {
    let value = json!({
        "schema_version": 1, "seq": 1, "event": "thread.renamed", "kind": "thread.renamed", "thread_id": "thr_1",
        "turn_id": null, "item_id": null, "timestamp": "2026-06-12T00:00:00Z", "created_at": "2026-06-12T00:00:00Z",
        "payload": {"title": "x"}
    });
    let envelope: RuntimeEventEnvelope = from_value(value.clone()).unwrap();
    assert!(
        matches!(&envelope.payload, EventPayload::Unknown(event) if event.name == "thread.renamed")
    );
    assert_eq!(to_value(&envelope).unwrap(), value);
}

#[test]
fn known_event_without_a_required_field_is_an_error() {
    let payload = json!({"delta": "x"});
    let refused = EventPayload::read("item.delta".to_owned(), payload);
    assert_eq!(refused.unwrap_err().to_string(), "missing field `kind`");
}

#[test]
fn modes_are_read_by_their_aliases_and_written_in_one_form() {
    for (word, mode) in [
        ("agent", Mode::Agent),
        ("AUTO", Mode::Agent),
        ("1", Mode::Agent),
        ("Plan", Mode::Plan),
        ("2", Mode::Plan),
        ("yolo", Mode::Yolo),
        ("4", Mode::Yolo),
        ("bypass", Mode::Yolo),
        ("bypass-permissions", Mode::Yolo),
        ("act", Mode::Agent),
        (" Act\n", Mode::Agent),
        ("operate", Mode::Operate),
        ("Operation", Mode::Operate),
        ("ops", Mode::Operate),
        ("3", Mode::Operate),
        ("bypassPermissions", Mode::Yolo),
    ] {
        assert_eq!(from_value::<Mode>(json!(word)).unwrap(), mode, "{word}");
        assert_eq!(to_value(mode).unwrap(), mode.as_str());
    }
    for word in [
        "plann",
        "",
        "work",
        "5",
        "bypass_permissions",
        "act ops",
        "АСТ",
    ] {
        assert!(from_value::<Mode>(json!(word)).is_err(), "{word}");
    }
}

#[test]
fn there_are_exactly_the_event_names_that_clients_listen_to() {
    let all = EventName::ALL.iter().map(|name| name.as_str());
    let (on_request, always): (Vec<_>, Vec<_>) =
        all.partition(|name| name.starts_with("input.") || *name == "output.rejected");
    assert_eq!(always.len(), 28);
    // Deployed clients do not know these: streams have the first three only with `include=queue`, and the last only in a turn with
    // an `output_schema`.
    assert_eq!(
        on_request,
        [
            "input.queued",
            "input.edited",
            "input.removed",
            "output.rejected"
        ]
    );
    for name in EventName::ALL {
        assert_eq!(to_value(name).unwrap(), name.as_str());
    }
}
