//! Turns whose final answer must match a JSON Schema.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::events::{Event, EventData};
use windlass_core::llm_driver_registry::OutputSchema;
use windlass_core::message::InputMessage;
use windlass_core::tools::ToolExecutionResult;
use windlass_core::turn_request::TurnRequest;
use windlass_runtime::{
    MemoryJournal, Replay, RuntimeBackends, StopReason, TurnResult, check_output_schema,
};

use crate::support::{Fixture, ScriptedCall, Setup, SpyJournal, call, soon, tool, types};

fn city() -> Value {
    json!({
        "type": "object",
        "properties": { "name": { "type": "string" }, "population": { "type": "integer" } },
        "required": ["name", "population"],
        "additionalProperties": false
    })
}

const OSLO: &str = r#"{"name": "Oslo", "population": 717710}"#;
const WRONG: &str = r#"{"name": "Oslo", "population": "many"}"#;

fn input(schema: Value) -> InputMessage {
    InputMessage::user("Which city?").with_turn_request(TurnRequest {
        output_schema: Some(OutputSchema::new(schema)),
        ..TurnRequest::default()
    })
}

async fn run(fixture: &Fixture, schema: Value) -> Result<TurnResult> {
    soon(fixture.runtime.run_turn(fixture.session, input(schema))).await
}

async fn answered(answers: &[&str]) -> (Fixture, TurnResult) {
    let calls = answers.iter().map(|answer| ScriptedCall::answer(answer));
    let fixture = Setup::new(calls).build().await;
    let result = run(&fixture, city()).await.unwrap();
    fixture.assert_sound().await;
    (fixture, result)
}

#[tokio::test]
async fn an_answer_that_matches_is_the_output() {
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct City {
        name: String,
        population: u64,
    }
    for answer in [OSLO, &format!("Here:\n```json\n{OSLO}\n```")] {
        let (fixture, result) = answered(&[answer]).await;
        assert_eq!(
            result.output,
            Some(json!({"name": "Oslo", "population": 717_710}))
        );
        let oslo: City = result.output_as().unwrap().unwrap();
        assert_eq!((oslo.name.as_str(), oslo.population), ("Oslo", 717_710));
        let requests = fixture.model.requests();
        assert!(requests[0].system_prompt.contains("\"population\""));
        let sent = requests[0].config.output_schema.as_ref().unwrap();
        assert_eq!(sent.schema, city());
        // The value is recorded as the text of the answer only, as often as in a turn without a schema.
        let recorded = async || {
            let events = fixture.events().await;
            let events: Vec<&Event> = events.iter().map(AsRef::as_ref).collect();
            let events = serde_json::to_string(&events).unwrap();
            events.matches("717710").count()
        };
        let with_schema = recorded().await;
        fixture.model.then(ScriptedCall::answer(answer));
        fixture.run("Again").await;
        assert_eq!(recorded().await, 2 * with_schema);
    }
}

#[tokio::test]
async fn a_wrong_answer_is_repaired_once() {
    let (fixture, result) = answered(&[WRONG, OSLO]).await;
    assert!(result.success);
    assert_eq!(result.output.unwrap()["population"], 717_710);
    let repair = fixture.model.requests()[1].clone();
    let read = repair.history.last().unwrap().text().unwrap().to_owned();
    assert!(
        read.contains("/population: value is not of type \"integer\""),
        "{read}"
    );
    assert!(!read.contains("many"), "{read}");
}

#[tokio::test]
async fn a_second_wrong_answer_fails_with_its_code() {
    let (fixture, result) = answered(&["I do not know", WRONG]).await;
    assert_eq!(result.stop_reason, StopReason::Failed);
    assert_eq!(result.error_code.as_deref(), Some("output_schema_mismatch"));
    assert_eq!((result.output, result.response.as_str()), (None, WRONG));
    assert_eq!(fixture.model.calls(), 2);
    fixture.assert_usable().await;
}

#[tokio::test]
async fn the_next_turn_has_no_schema() {
    let (fixture, _) = answered(&[OSLO]).await;
    fixture.model.then(ScriptedCall::answer("Hello"));
    let result = fixture.run("Hi").await;
    assert_eq!((result.response.as_str(), result.output), ("Hello", None));
    let requests = fixture.model.requests();
    let last = requests.last().unwrap();
    assert!(last.config.output_schema.is_none());
    assert!(!last.system_prompt.contains("output-schema"));
}

#[tokio::test]
async fn tools_run_before_the_answer_is_checked() {
    let hello = tool("hello", |_, _| async {
        ToolExecutionResult::success("hello")
    });
    let calls = [
        ScriptedCall::tools(vec![call("c", "hello", json!({}))]),
        ScriptedCall::answer(WRONG),
        ScriptedCall::tools(vec![call("d", "hello", json!({}))]),
        ScriptedCall::answer(OSLO),
    ];
    let fixture = Setup::new(calls).tool(&hello).build().await;
    let result = run(&fixture, city()).await.unwrap();
    assert!(result.success && result.output.is_some(), "{result:?}");
    assert_eq!(result.tool_calls_count, 2);
    let report = soon(Replay::of(&fixture.runtime, fixture.session).run())
        .await
        .unwrap();
    assert!(report.divergence.is_none(), "{report:?}");
}

#[tokio::test]
async fn a_failed_repair_is_decided_again_the_same_way() {
    let (fixture, _) = answered(&[WRONG, WRONG]).await;
    let report = soon(Replay::of(&fixture.runtime, fixture.session).run())
        .await
        .unwrap();
    assert!(report.divergence.is_none(), "{report:?}");
}

#[tokio::test]
async fn a_failed_commit_anywhere_leaves_one_repair() {
    for failing in 1..3 {
        let journal = SpyJournal::new(MemoryJournal::new());
        let fixture = Setup::new([
            ScriptedCall::answer(WRONG),
            ScriptedCall::answer(WRONG),
            ScriptedCall::answer(OSLO),
        ])
        .backends(RuntimeBackends::on_journal(Arc::clone(&journal) as _))
        .build()
        .await;
        journal.fail_after(failing);
        let heard = run(&fixture, city()).await;
        assert!(matches!(heard, Err(AgentLoopError::StoreUnavailable(_))));
        fixture
            .model
            .rewrite([ScriptedCall::answer(OSLO), ScriptedCall::answer("next")]);
        fixture.run("next").await;
        let events = fixture.events().await;
        let rejected = types(&events)
            .iter()
            .filter(|it| **it == "output.rejected")
            .count();
        assert_eq!(rejected, failing - 1, "{:?}", types(&events));
        let first = events.iter().find_map(|event| match &event.data {
            EventData::TurnCompleted(data) => data.final_answer_preview.clone(),
            _ => None,
        });
        assert_eq!(first.as_deref(), Some(OSLO), "{failing}");
        fixture.assert_sound().await;
    }
}

#[tokio::test]
async fn hostile_schemas_are_refused_before_anything_is_recorded() {
    let mut doubling = json!({"d0": {"type": "string"}});
    for level in 1..40 {
        let below = format!("#/$defs/d{}", level - 1);
        doubling[format!("d{level}")] = json!({"anyOf": [{"$ref": below}, {"$ref": below}]});
    }
    let mut deep = json!({"type": "object"});
    for _ in 0..70 {
        deep = json!({"type": "object", "properties": {"a": deep}});
    }
    let fixture = Setup::new([]).build().await;
    for (schema, why) in [
        (json!({"$ref": "#/$defs/d39", "$defs": doubling}), "too"),
        (deep, "too"),
        (json!({"pattern": "(a|a)*".repeat(500)}), "too"),
        (json!({"description": "x".repeat(70_000)}), "64 KiB"),
        (
            json!({"$ref": "https://example.com/schema.json"}),
            "out of the schema",
        ),
        (json!({"$ref": "file:///etc/passwd"}), "out of the schema"),
        (json!({"properties": {"a": {"$ref": "#"}}}), "to itself"),
        (json!({"$dynamicRef": "#a"}), "$dynamicRef"),
        (json!({"type": "no such type"}), "not valid"),
        (json!({"pattern": "("}), "not valid"),
        (json!(true), "object"),
        (json!([1]), "object"),
    ] {
        let refused = check_output_schema(&schema).unwrap_err();
        assert!(refused.contains(why), "{refused}");
        let error = run(&fixture, schema).await.unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
    assert!(fixture.events().await.is_empty());
    assert_eq!(fixture.model.calls(), 0);
}

#[tokio::test]
async fn an_expensive_pattern_does_not_stop_the_thread() {
    let schema = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+(?=$)b$"}}});
    let answer = format!("{{\"a\": \"{}\"}}", "a".repeat(5_000));
    let fixture = Setup::new([ScriptedCall::answer(&answer), ScriptedCall::answer(&answer)])
        .build()
        .await;
    let result = run(&fixture, schema).await.unwrap();
    assert_eq!(result.error_code.as_deref(), Some("output_schema_mismatch"));
}

#[tokio::test]
async fn an_answer_that_is_nested_too_deep_does_not_match() {
    let deep = format!("{{\"a\": {}{}}}", "[".repeat(100), "]".repeat(100));
    let fixture = Setup::new([ScriptedCall::answer(&deep), ScriptedCall::answer("{}")])
        .build()
        .await;
    let result = run(&fixture, json!({"type": "object"})).await.unwrap();
    assert_eq!(result.output, Some(json!({})));
    assert_eq!(fixture.model.calls(), 2);
}
