//! Calls: when they run, and the order of their results.

use crate::world::ThreadAction::{
    Asks, Connects, Done, Emit, EmitForbidden, Interrupt, Model, ModelRefused, Replies, Results,
    Say,
};
use crate::world::{World, check, plan, transcript};

#[test]
fn results_are_stored_in_the_order_of_their_calls() {
    let calls = Model("", &[("a", "once"), ("b", "once"), ("c", "once")]);
    for order in [["a", "b", "c"], ["c", "b", "a"], ["b", "c", "a"]] {
        let [first, second, third] = order.map(Done);
        transcript(
            plan(),
            &[Say("hi"), calls, first, second, third],
            &[
                "user hi",
                "agent [a] [b] [c]",
                "tool_result a: \"done\"",
                "tool_result b: \"done\"",
                "tool_result c: \"done\"",
            ],
        );
    }
}

#[test]
fn calls_of_one_class_run_sequentially() {
    let calls = Model("", &[("a", "serial"), ("b", "serial"), ("c", "once")]);
    let mut world = World::after(plan(), &[Say("hi"), calls]);
    assert_eq!(world.pending(), ["=> run a", "=> run c"]);
    assert_eq!(
        world.play(Done("a")),
        ["tool.completed", "tool.started", "=> run b"]
    );
    assert_eq!(world.pending(), ["=> run b", "=> run c"]);
}

#[test]
fn parallel_calls_are_limited() {
    let mut narrow = plan();
    narrow.max_parallel_calls = 2;
    let calls = Model("", &[("a", "once"), ("b", "once"), ("c", "once")]);
    let mut world = World::after(narrow, &[Say("hi"), calls]);
    assert_eq!(world.pending(), ["=> run a", "=> run b"]);
    world.play(Done("b"));
    assert_eq!(world.pending(), ["=> run a", "=> run c"]);
}

#[test]
fn call_with_a_free_class_waits_for_a_slot() {
    let mut narrow = plan();
    narrow.max_parallel_calls = 1;
    let calls = Model("", &[("a", "serial"), ("b", "serial"), ("c", "once")]);
    let given = &[Say("hi"), calls, Connects("a")];
    let mut world = World::after(narrow, given);
    assert_eq!(world.pending(), ["=> run c"]);
    world.play(Results(&[("a", 1)]));
    assert_eq!(world.pending(), ["=> run c"]);
    world.play(Done("c"));
    assert_eq!(world.pending(), ["=> run b"]);
}

#[test]
fn call_that_waits_for_a_client_uses_no_slot() {
    let mut narrow = plan();
    narrow.max_parallel_calls = 1;
    let calls = Model("", &[("a", "client"), ("b", "once")]);
    let world = World::after(narrow, &[Say("hi"), calls]);
    assert_eq!(world.pending(), ["=> run b"]);
}

#[test]
fn invalid_call_is_answered_immediately() {
    check(
        plan(),
        &[Say("hi")],
        ModelRefused("a", "nothing"),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "tool.completed",
            "act.completed",
            "reason.started",
            "=> model",
        ],
    );
    transcript(
        plan(),
        &[Say("hi"), ModelRefused("a", "nothing")],
        &["user hi", "agent [a]", "tool_result a: no such tool"],
    );
}

#[test]
fn result_is_accepted_once() {
    let calls = Model("", &[("a", "once"), ("b", "once")]);
    check(
        plan(),
        &[Say("hi"), calls, Done("a")],
        Done("a"),
        &["! stale"],
    );
}

#[test]
fn call_waits_for_a_connection_after_it_ran() {
    let given = &[Say("hi"), Model("", &[("a", "once")])];
    check(plan(), given, Connects("a"), &["tool.call_requested"]);
    let waits = &[given[0], given[1], Connects("a")];
    check(plan(), waits, Done("a"), &["! stale"]);
    check(
        plan(),
        waits,
        Results(&[("a", 1)]),
        &[
            "tool.call_resolved",
            "tool.completed",
            "act.completed",
            "reason.started",
            "=> model",
        ],
    );
}

#[test]
fn call_waits_for_the_users_answer() {
    let given = &[Say("hi"), Model("", &[("a", "once")]), Asks("a")];
    check(
        plan(),
        given,
        Replies("a", "yes"),
        &[
            "user_input.answered",
            "tool.completed",
            "act.completed",
            "reason.started",
            "=> model",
        ],
    );
    check(
        plan(),
        given,
        Interrupt,
        &[
            "turn.interrupt_requested",
            "user_input.canceled",
            "tool.completed",
            "turn.cancelled",
            "session.idled",
        ],
    );
}

#[test]
fn equal_answer_changes_nothing_and_another_is_rejected() {
    let given = &[
        Say("hi"),
        Model("", &[("a", "once")]),
        Asks("a"),
        Replies("a", "yes"),
    ];
    check(plan(), given, Replies("a", "yes"), &[]);
    check(
        plan(),
        given,
        Replies("a", "no"),
        &["! it was answered differently before"],
    );
}

#[test]
fn answer_to_an_unknown_question_is_rejected() {
    check(
        plan(),
        &[Say("hi"), Model("", &[("a", "once")])],
        Replies("a", "yes"),
        &["! no such question is open"],
    );
}

#[test]
fn step_records_only_allowed_events_while_it_runs() {
    let given = &[Say("hi"), Model("", &[("a", "once"), ("b", "client")])];
    check(plan(), given, Emit("a"), &["custom"]);
    check(
        plan(),
        given,
        EmitForbidden("a"),
        &["! not emittable: session.updated"],
    );
    check(plan(), given, Emit("b"), &["! stale"]);
    let done = &[given[0], given[1], Done("a")];
    check(plan(), done, Emit("a"), &["! stale"]);
    let stopped = &[given[0], given[1], Interrupt];
    check(plan(), stopped, Emit("a"), &["! stale"]);
}
