//! How turns end otherwise: limits, deadlines, failures.

use std::time::Duration;

use windlass_core::events::EventData;
use windlass_turn::TurnPlan;

use crate::world::ThreadAction::{
    After, Begin, Done, Model, ModelFails, Say, SayWithin, Streams, UnflushedText,
};
use crate::world::{ThreadAction, World, check, plan, transcript};

fn at_most(max_iterations: usize) -> TurnPlan {
    TurnPlan {
        max_iterations,
        ..plan()
    }
}

fn hasty() -> TurnPlan {
    TurnPlan {
        turn_timeout: Some(Duration::from_secs(60)),
        ..plan()
    }
}

fn code_of_end(plan: TurnPlan, steps: &[ThreadAction]) -> Option<String> {
    let world = World::after(plan, steps);
    match world.last("turn.failed") {
        EventData::TurnFailed(failed) => failed.error_code.clone(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn calls_in_the_last_allowed_answer_do_not_run() {
    let given = &[Say("hi"), Model("", &[("a", "once")]), Done("a")];
    let last = Model("", &[("b", "once"), ("c", "client")]);
    check(
        at_most(2),
        given,
        last,
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "tool.completed",
            "tool.completed",
            "turn.failed",
            "session.idled",
        ],
    );
    let steps = [given, &[last][..]].concat();
    assert_eq!(
        code_of_end(at_most(2), &steps).as_deref(),
        Some("max_iterations")
    );
    transcript(
        at_most(2),
        &steps,
        &[
            "user hi",
            "agent [a]",
            "tool_result a: \"done\"",
            "agent [b] [c]",
            "tool_result b: not run: the turn reached its limit of 2 model calls",
            "tool_result c: not run: the turn reached its limit of 2 model calls",
        ],
    );
}

#[test]
fn final_answer_in_the_last_allowed_call_completes_the_turn() {
    check(
        at_most(1),
        &[Say("hi")],
        Model("hello", &[]),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.completed",
            "session.idled",
        ],
    );
}

#[test]
fn timed_out_turn_fails_and_preserves_its_text() {
    check(hasty(), &[Say("hi")], After(59), &[]);
    let given = &[Say("hi"), Streams("hel"), UnflushedText("lo")];
    check(
        hasty(),
        given,
        After(60),
        &[
            "output.message.delta",
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.failed",
            "session.idled",
            "=> stop model",
        ],
    );
    let steps = [given, &[After(60)][..]].concat();
    assert_eq!(
        code_of_end(hasty(), &steps).as_deref(),
        Some("turn_timeout")
    );
    transcript(hasty(), &steps, &["user hi", "agent hello"]);
}

#[test]
fn parked_turn_times_out_with_every_call_answered() {
    let waits = &[Say("hi"), Model("", &[("a", "client"), ("b", "once")])];
    check(
        hasty(),
        waits,
        After(60),
        &[
            "tool.call_canceled",
            "tool.completed",
            "tool.completed",
            "turn.failed",
            "session.idled",
            "=> stop b",
        ],
    );
}

#[test]
fn queued_input_may_have_its_own_deadline() {
    let timed_out = |given: &[ThreadAction]| {
        let said = World::after(hasty(), given).play(After(5));
        said.contains(&"turn.failed".to_owned())
    };
    assert!(timed_out(&[SayWithin("hi", 5)]));
    assert!(!timed_out(&[SayWithin("hi", 6)]));
    let waited = [
        Say("hi"),
        SayWithin("second", 5),
        After(30),
        Model("hello", &[]),
        Begin,
    ];
    assert!(timed_out(&waited));
    assert!(World::after(hasty(), &waited).play(After(4)).is_empty());
}

#[test]
fn next_deadline_is_the_earliest() {
    let mut hurried = hasty();
    hurried.wait_timeout = Some(Duration::from_secs(5));
    let waits = &[Say("hi"), Model("", &[("a", "client")])];
    let world = World::after(hurried, waits);
    let turn = world.thread.turn().unwrap();
    let nearest = turn.started_at + Duration::from_secs(5);
    assert_eq!(world.thread.next_deadline(), Some(nearest));
    assert_eq!(
        turn.deadline,
        Some(turn.started_at + Duration::from_secs(60))
    );
}

#[test]
fn failed_model_call_leaves_one_message_marked_as_error() {
    check(
        plan(),
        &[Say("hi")],
        ModelFails,
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.failed",
            "session.idled",
        ],
    );
    transcript(
        plan(),
        &[Say("hi"), ModelFails],
        &["user hi", "agent Something went wrong. (error) (report)"],
    );
    transcript(
        plan(),
        &[Say("hi"), Streams("hel"), UnflushedText("lo"), ModelFails],
        &["user hi", "agent hello (error)"],
    );
    assert_eq!(
        code_of_end(plan(), &[Say("hi"), ModelFails]).as_deref(),
        Some("server")
    );
}

#[test]
fn end_contains_the_metrics_of_the_turn() {
    let steps = &[
        Say("hi"),
        Model("", &[("a", "once"), ("b", "once")]),
        Done("a"),
        Done("b"),
        Streams("hello"),
        Model("hello", &[]),
    ];
    let world = World::after(plan(), steps);
    let EventData::TurnCompleted(end) = world.last("turn.completed") else {
        panic!("another event")
    };
    assert_eq!(end.iterations, 2);
    assert_eq!(end.llm_call_count, Some(2));
    assert_eq!(end.tool_call_count, Some(2));
    assert_eq!(end.final_answer_preview.as_deref(), Some("hello"));
    let last = world.thread.history().last().map(|message| message.id);
    assert_eq!(end.final_message_id, last);
    assert!(end.time_to_first_token_ms.is_some());
}
