//! Size limits of a session.

use std::sync::Arc;

use windlass_core::events::EventData;
use windlass_turn::{Limits, TurnPlan};

use crate::world::ThreadAction::{Begin, Done, ImportUser, Model, Results, Say, Steer};
use crate::world::{World, check, plan};

fn messages(n: u64) -> TurnPlan {
    TurnPlan {
        limits: Limits {
            max_messages: Some(n),
            max_events: None,
        },
        ..plan()
    }
}

fn events(n: u64) -> TurnPlan {
    TurnPlan {
        limits: Limits {
            max_messages: None,
            max_events: Some(n),
        },
        ..plan()
    }
}

#[test]
fn full_session_rejects_input() {
    let turn = &[Say("hi"), Model("hello", &[])];
    check(messages(2), turn, Say("more"), &["! at most 2 messages"]);
    check(events(9), turn, Say("more"), &["! at most 9 events"]);
    check(
        messages(2),
        turn,
        ImportUser("more"),
        &["! at most 2 messages"],
    );
    check(
        messages(1),
        &[Say("hi")],
        Steer("more"),
        &["! at most 1 messages"],
    );
}

#[test]
fn queued_inputs_count() {
    check(
        messages(3),
        &[Say("hi"), Say("second"), Say("third")],
        Say("fourth"),
        &["! at most 3 messages"],
    );
    check(
        messages(2),
        &[Say("hi"), Steer("more")],
        Steer("again"),
        &["! at most 2 messages"],
    );
}

#[test]
fn turn_that_fills_the_session_fails() {
    let given = &[Say("hi"), Model("", &[("a", "once")])];
    check(
        messages(3),
        given,
        Done("a"),
        &[
            "tool.completed",
            "act.completed",
            "turn.failed",
            "session.idled",
        ],
    );
    let world = World::after(messages(3), &[given[0], given[1], Done("a")]);
    let EventData::TurnFailed(failed) = world.last("turn.failed") else {
        panic!("another event")
    };
    assert_eq!(failed.error_code.as_deref(), Some("quota_exceeded"));
}

#[test]
fn queued_input_fails_in_a_full_session() {
    check(
        messages(2),
        &[Say("hi"), Say("second"), Model("hello", &[])],
        Begin,
        &[
            "turn.started",
            "input.message",
            "session.activated",
            "turn.failed",
            "session.idled",
        ],
    );
}

#[test]
fn full_queue_rejects_input() {
    let plan = || TurnPlan {
        max_waiting_inputs: Some(2),
        ..plan()
    };
    let given = [Say("hi"), Steer("and"), Say("then")];
    for more in [Say("more"), Steer("more")] {
        let mut world = World::after(plan(), &given);
        let before = world.thread.clone();
        let said = world.play(more);
        assert!(said[0].contains("waiting inputs"), "{said:?}");
        assert_eq!(world.thread, before);
    }
    // A steering message is consumed by the next model call, which frees its slot.
    let given = [&given[..], &[Model("hello", &[])]].concat();
    check(plan(), &given, Say("more"), &["input.queued"]);
}

#[test]
fn excess_pending_call_fails_and_the_turn_continues() {
    let plan = TurnPlan {
        max_pending_calls: Some(2),
        ..plan()
    };
    let calls = &[("a", "client"), ("b", "client"), ("c", "client")];
    let mut world = World::after(plan, &[Say("hi"), Model("", calls)]);
    assert_eq!(world.count("tool.call_requested"), 2);
    let EventData::ToolCompleted(end) = world.last("tool.completed") else {
        panic!("another event")
    };
    assert!(!end.success);
    let said = world.play(Results(&[("a", 1), ("b", 2)]));
    assert_eq!(said.last().map(String::as_str), Some("=> model"));
}

#[test]
fn excess_pending_calls_of_one_class_all_fail() {
    let mut plan = TurnPlan {
        max_pending_calls: Some(0),
        ..plan()
    };
    let tools = Arc::make_mut(&mut plan.tools);
    let client = tools.get_mut("client").unwrap();
    client.concurrency_class = Some("k".to_owned());
    let calls = &[("a", "client"), ("b", "client"), ("c", "client")];
    let mut world = World::after(plan, &[Say("hi")]);
    let said = world.play(Model("", calls));
    assert_eq!(
        said.last().map(String::as_str),
        Some("=> model"),
        "{said:?}"
    );
    assert_eq!(world.count("tool.completed"), 3);
}
