//! Counters and timings, and the fold's tolerance of unusual records.

use windlass_core::events::{EventData, ToolStatus};
use windlass_core::message::ContentPart;
use windlass_core::session::SessionStatus;
use windlass_core::tools::{ToolResult, ToolResultImage};
use windlass_turn::{Input, ToolOutcome};

use crate::world::ThreadAction::{After, Done, Interrupt, Model, ModelUsing, Say, Streams};
use crate::world::{World, plan};

#[test]
fn usage_adds_up_over_the_calls_of_a_turn_and_the_turns_of_a_session() {
    let turn = [
        Say("hi"),
        ModelUsing(&[("a", "once")], 3),
        Done("a"),
        ModelUsing(&[], 4),
    ];
    let world = World::after(plan(), &[turn, turn].concat());
    let EventData::TurnCompleted(end) = world.last("turn.completed") else {
        panic!("another event")
    };
    assert_eq!(end.usage.unwrap().output_tokens, 7);
    assert_eq!(world.thread.usage().unwrap().output_tokens, 14);
}

#[test]
fn cancelled_turn_records_its_usage() {
    let given = [Say("hi"), ModelUsing(&[("a", "once")], 3), Interrupt];
    let world = World::after(plan(), &given);
    let EventData::TurnCancelled(end) = world.last("turn.cancelled") else {
        panic!("another event")
    };
    assert_eq!(end.usage.unwrap().output_tokens, 3);
    assert_eq!((end.iterations, end.llm_call_count), (Some(1), Some(1)));
}

#[test]
fn times_come_from_the_context() {
    let given = [
        Say("hi"),
        After(1),
        Streams("a"),
        After(1),
        Streams("b"),
        After(1),
        Model("ab", &[("a", "once")]),
        After(2),
        Done("a"),
        Streams("c"),
        Model("c", &[]),
    ];
    let world = World::after(plan(), &given);
    let EventData::TurnCompleted(end) = world.last("turn.completed") else {
        panic!("another event")
    };
    assert_eq!(end.time_to_first_token_ms, Some(1_000));
    assert_eq!(end.duration_ms, Some(5_000));
    let EventData::ToolCompleted(call) = world.last("tool.completed") else {
        panic!("another event")
    };
    assert_eq!(call.duration_ms, Some(2_000));
}

#[test]
fn session_starts_with_its_first_turn() {
    let world = World::new(plan());
    assert_eq!(world.thread.status(), SessionStatus::Started);
    assert_eq!(world.thread.started_at(), None);
    let mut world = World::after(plan(), &[Say("hi")]);
    assert_eq!(world.thread.status(), SessionStatus::Active);
    let started_at = world.thread.started_at();
    assert_eq!(started_at, Some(world.events[0].ts));
    for step in [Model("hello", &[]), After(9)] {
        world.play(step);
    }
    assert_eq!(world.thread.status(), SessionStatus::Idle);
    world.play(Say("again"));
    assert_eq!(world.thread.started_at(), started_at);
}

#[test]
fn result_retains_images_and_duration() {
    let mut world = World::after(plan(), &[Say("hi"), Model("", &[("a", "once")])]);
    let image = ToolResultImage {
        base64: "AA==".to_owned(),
        media_type: "image/png".to_owned(),
    };
    let outcome = ToolOutcome {
        status: ToolStatus::Success,
        result: ToolResult {
            images: Some(vec![image]),
            ..ToolResult::success("another id", "done")
        },
        duration_ms: Some(42),
        wait: None,
        refused: false,
    };
    let exec_id = world.exec("a");
    let outcome = Box::new(outcome);
    let decision = world.decide(Input::ToolFinished { exec_id, outcome });
    world.take(decision.unwrap());
    let message = world.thread.history().last().unwrap();
    assert_eq!(message.tool_call_id(), Some("a"));
    assert!(
        matches!(&message.content[1], ContentPart::Image(image) if image.media_type.as_deref() == Some("image/png"))
    );
    let EventData::ToolCompleted(call) = world.last("tool.completed") else {
        panic!("another event")
    };
    assert_eq!(call.duration_ms, Some(42));
}
