//! An interrupt starts nothing, retains finished work and takes effect at once.

use windlass_core::events::{EventData, ToolStatus};

use crate::world::ThreadAction::{
    Done, Interrupt, Model, ModelFails, Say, SayIf, Streams, UnflushedText,
};
use crate::world::{World, check, plan, transcript};

#[test]
fn there_must_be_a_turn_to_interrupt() {
    check(plan(), &[], Interrupt, &["! no turn"]);
    check(
        plan(),
        &[Say("hi"), Model("hello", &[])],
        Interrupt,
        &["! no turn"],
    );
}

#[test]
fn silent_model_call_leaves_no_message() {
    check(
        plan(),
        &[Say("hi")],
        Interrupt,
        &[
            "turn.interrupt_requested",
            "llm.generation",
            "reason.completed",
            "turn.cancelled",
            "session.idled",
            "=> stop model",
        ],
    );
    transcript(plan(), &[Say("hi"), Interrupt], &["user hi"]);
}

#[test]
fn partial_text_is_preserved_with_unflushed_text() {
    let given = &[Say("hi"), Streams("hel"), UnflushedText("lo, wor")];
    check(
        plan(),
        given,
        Interrupt,
        &[
            "output.message.delta",
            "turn.interrupt_requested",
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.cancelled",
            "session.idled",
            "=> stop model",
        ],
    );
    transcript(
        plan(),
        &[given[0], given[1], given[2], Interrupt],
        &["user hi", "agent hello, wor"],
    );
}

#[test]
fn unflushed_text_is_recorded_before_the_interrupt() {
    check(
        plan(),
        &[Say("hi"), UnflushedText("hel")],
        Interrupt,
        &[
            "output.message.started",
            "output.message.delta",
            "turn.interrupt_requested",
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.cancelled",
            "session.idled",
            "=> stop model",
        ],
    );
}

#[test]
fn finished_results_stay_and_running_calls_are_stopped() {
    let given = &[
        Say("hi"),
        Model("", &[("a", "once"), ("b", "once")]),
        Done("b"),
    ];
    check(
        plan(),
        given,
        Interrupt,
        &[
            "turn.interrupt_requested",
            "tool.completed",
            "turn.cancelled",
            "session.idled",
            "=> stop a",
        ],
    );
    transcript(
        plan(),
        &[given[0], given[1], given[2], Interrupt],
        &[
            "user hi",
            "agent [a] [b]",
            "tool_result a: cancelled: the turn was interrupted",
            "tool_result b: \"done\"",
        ],
    );
}

#[test]
fn queued_call_is_answered_without_starting() {
    let given = &[Say("hi"), Model("", &[("a", "serial"), ("b", "serial")])];
    check(
        plan(),
        given,
        Interrupt,
        &[
            "turn.interrupt_requested",
            "tool.completed",
            "tool.completed",
            "turn.cancelled",
            "session.idled",
            "=> stop a",
        ],
    );
    let world = World::after(plan(), &[given[0], given[1], Interrupt]);
    let EventData::ToolCompleted(last) = world.last("tool.completed") else {
        panic!("another event")
    };
    assert_eq!(last.status, ToolStatus::Cancelled);
    let EventData::TurnCancelled(end) = world.last("turn.cancelled") else {
        panic!("another event")
    };
    assert_eq!(end.tool_call_count, Some(1));
}

#[test]
fn results_of_stopped_steps_are_stale() {
    for late in [Model("hello", &[]), ModelFails, Streams("hello")] {
        check(plan(), &[Say("hi"), Interrupt], late, &["! stale"]);
    }
    let stopped = &[Say("hi"), Model("", &[("a", "once")]), Interrupt];
    check(plan(), stopped, Done("a"), &["! stale"]);
}

#[test]
fn results_of_stopped_steps_are_stale_in_the_next_turn_too() {
    let mut world = World::after(plan(), &[Say("hi")]);
    world.remember_model();
    for step in [
        SayIf("now", windlass_turn::OnBusy::Interrupt),
        crate::world::ThreadAction::Begin,
    ] {
        world.play(step);
    }
    assert_eq!(world.pending(), ["=> model"]);
    assert_eq!(world.play(Model("hello", &[])), ["! stale"]);
}
