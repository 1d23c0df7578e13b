//! Calls: when they run, and the order of their results.

use crate::world::Step::{
    Asks, Connects, Done, Emit, EmitForbidden, Interrupt, Model, ModelRefused, Replies, Results,
    Say,
};
use crate::world::{World, check, plan, transcript};

#[test]
fn results_stand_in_the_order_of_the_calls_whatever_finishes_first() {
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
fn calls_of_one_class_run_one_after_the_other_and_others_beside_them() {
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
fn no_more_calls_run_at_once_than_planned() {
    let mut narrow = plan();
    narrow.max_parallel_calls = 2;
    let calls = Model("", &[("a", "once"), ("b", "once"), ("c", "once")]);
    let mut world = World::after(narrow, &[Say("hi"), calls]);
    assert_eq!(world.pending(), ["=> run a", "=> run b"]);
    world.play(Done("b"));
    assert_eq!(world.pending(), ["=> run a", "=> run c"]);
}

#[test]
fn a_call_whose_class_becomes_free_waits_for_a_place() {
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
fn a_call_that_waits_for_a_client_takes_no_place() {
    let mut narrow = plan();
    narrow.max_parallel_calls = 1;
    let calls = Model("", &[("a", "client"), ("b", "once")]);
    let world = World::after(narrow, &[Say("hi"), calls]);
    assert_eq!(world.pending(), ["=> run b"]);
}

#[test]
fn a_call_that_cannot_be_carried_out_is_answered_at_once() {
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
fn a_result_is_taken_once() {
    let calls = Model("", &[("a", "once"), ("b", "once")]);
    check(
        plan(),
        &[Say("hi"), calls, Done("a")],
        Done("a"),
        &["! stale"],
    );
}

#[test]
fn a_call_may_wait_for_a_connection_after_it_ran() {
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
fn a_call_may_wait_for_an_answer_of_the_user() {
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
fn an_equal_answer_of_the_user_changes_nothing_and_another_is_refused() {
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
fn a_question_that_was_never_asked_has_no_answer() {
    check(
        plan(),
        &[Say("hi"), Model("", &[("a", "once")])],
        Replies("a", "yes"),
        &["! no such question is open"],
    );
}

#[test]
fn a_step_records_only_what_it_may_and_only_while_it_runs() {
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
