//! Answers that do not match the schema of their turn.

use windlass_core::events::{Event, EventData};
use windlass_core::llm_driver_registry::OutputSchema;
use windlass_core::message::InputMessage;
use windlass_core::turn_request::TurnRequest;
use windlass_turn::{Input, OUTPUT_SCHEMA_MISMATCH, OnBusy, Thread, TurnPlan};

use crate::world::ThreadAction::*;
use crate::world::{World, check, plan};

const REPAIR: &[&str] = &[
    "llm.generation",
    "output.message.completed",
    "reason.completed",
    "output.rejected",
    "reason.started",
    "=> model",
];

fn failed(world: &World) -> (Option<String>, String) {
    let EventData::TurnFailed(data) = world.last("turn.failed") else {
        panic!("another event")
    };
    (data.error_code.clone(), data.error.clone())
}

#[test]
fn mismatched_answer_is_rejected_in_the_same_commit() {
    check(plan(), &[Say("x")], Mismatch("no"), REPAIR);
}

#[test]
fn model_reads_the_errors_after_its_answer() {
    let world = World::after(plan(), &[Say("x"), Mismatch("no")]);
    let context = world.context();
    assert_eq!(context.len(), 3, "{context:?}");
    assert_eq!(context[1], "agent no");
    assert!(context[2].starts_with("user "), "{context:?}");
    assert!(context[2].ends_with("\n- /a: it is wrong"), "{context:?}");
}

#[test]
fn repaired_answer_completes_the_turn() {
    let world = World::after(plan(), &[Say("x"), Mismatch("no"), Model("yes", &[])]);
    assert_eq!(world.count("turn.completed"), 1);
    assert_eq!(world.transcript().last().unwrap(), "agent yes");
}

#[test]
fn second_mismatch_fails_the_turn() {
    let world = World::after(plan(), &[Say("x"), Mismatch("no"), Mismatch("nor this")]);
    let (code, error) = failed(&world);
    assert_eq!(code.as_deref(), Some(OUTPUT_SCHEMA_MISMATCH));
    assert!(error.contains("/a: it is wrong"), "{error}");
    assert_eq!(world.count("output.rejected"), 1);
    assert!(world.pending().is_empty());
}

#[test]
fn repair_may_call_tools_and_is_not_repeated() {
    let given = [
        Say("x"),
        Mismatch("no"),
        Model("", &[("a", "once")]),
        Done("a"),
        Mismatch("nor this"),
    ];
    let world = World::after(plan(), &given);
    assert_eq!(failed(&world).0.as_deref(), Some(OUTPUT_SCHEMA_MISMATCH));
}

#[test]
fn each_turn_has_a_repair_of_its_own() {
    let given = [Say("x"), Mismatch("no"), Model("yes", &[]), Say("y")];
    let world = World::after(plan(), &[&given[..], &[Mismatch("no")]].concat());
    assert_eq!(world.count("output.rejected"), 2);
    assert_eq!(world.count("turn.failed"), 0);
}

#[test]
fn answer_before_a_steer_is_not_final() {
    let given = [Say("x"), Steer("more"), Mismatch("no")];
    let world = World::after(plan(), &given);
    assert_eq!(world.count("output.rejected"), 0);
    assert_eq!(world.pending().len(), 1);
}

#[test]
fn without_a_model_call_left_there_is_no_repair() {
    let plan = TurnPlan {
        max_iterations: 1,
        ..plan()
    };
    let world = World::after(plan, &[Say("x"), Mismatch("no")]);
    assert_eq!(failed(&world).0.as_deref(), Some(OUTPUT_SCHEMA_MISMATCH));
}

#[test]
fn crash_during_the_repair_repeats_only_the_repair() {
    let given = [Say("x"), Mismatch("no"), Crash];
    let world = World::after(plan(), &given);
    assert_eq!(world.count("output.rejected"), 1);
    assert_eq!(world.pending().len(), 1);
    let given = [&given[..], &[Mismatch("nor this")]].concat();
    assert_eq!(
        failed(&World::after(plan(), &given)).0.as_deref(),
        Some(OUTPUT_SCHEMA_MISMATCH)
    );
}

#[test]
fn fold_is_the_same_wherever_the_journal_is_split() {
    let given = [Say("x"), Mismatch("no"), Model("yes", &[])];
    let world = World::after(plan(), &given);
    let mut thread = Thread::new(world.thread.session_id());
    for event in &world.events {
        thread.evolve(event).unwrap();
    }
    assert_eq!(thread, world.thread);
}

#[test]
fn rejection_is_valid_once_for_the_newest_answer() {
    let given = [Say("x"), Mismatch("no")];
    let world = World::after(plan(), &given);
    let mut before = World::after(plan(), &[Say("x")]);
    let rejection = |event: &&std::sync::Arc<Event>| event.event_type == "output.rejected";
    let event = world.events.iter().find(rejection).unwrap();
    assert!(before.thread.evolve(event).is_err());
    let mut again = Event::clone(event);
    again.sequence = Some(world.thread.head() + 1);
    assert!(world.thread.clone().evolve(&again).is_err());
}

#[test]
fn outline_records_the_output_schema() {
    let mut world = World::after(plan(), &[]);
    let schema = OutputSchema::new(serde_json::json!({"type": "object"}));
    let request = TurnRequest {
        output_schema: Some(schema),
        ..TurnRequest::default()
    };
    let decision = world
        .decide(Input::Submit {
            message: InputMessage::user("x").with_turn_request(request),
            on_busy: OnBusy::Queue,
            timeout: None,
            turn_id: None,
        })
        .unwrap();
    world.take(decision);
    world.play(Model("{}", &[]));
    let EventData::TurnCompleted(data) = world.last("turn.completed") else {
        panic!("another event")
    };
    assert!(data.outline.as_ref().unwrap().has_output_schema);
}
