//! The records of a turn, their order and the number of commits.

use crate::world::Step::{Done, Model, Say, Streams, Thinks, UnflushedText};
use crate::world::{World, check, plan, transcript};

#[test]
fn an_input_starts_a_turn_and_its_model_call_in_one_commit() {
    check(
        plan(),
        &[],
        Say("hi"),
        &[
            "turn.started",
            "input.message",
            "session.activated",
            "reason.started",
            "=> model",
        ],
    );
}

#[test]
fn an_answer_ends_the_turn_in_one_commit() {
    check(
        plan(),
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
fn text_that_was_not_written_yet_comes_before_its_answer() {
    check(
        plan(),
        &[Say("hi"), UnflushedText("hello")],
        Model("hello", &[]),
        &[
            "output.message.started",
            "output.message.delta",
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.completed",
            "session.idled",
        ],
    );
}

#[test]
fn streamed_text_starts_its_message_once() {
    check(
        plan(),
        &[Say("hi"), Streams("he")],
        Streams("llo"),
        &["output.message.delta"],
    );
}

#[test]
fn thinking_that_was_shown_is_closed_also_when_the_answer_does_not_repeat_it() {
    check(
        plan(),
        &[Say("hi"), Thinks("hm")],
        Model("hello", &[]),
        &[
            "reason.thinking.completed",
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.completed",
            "session.idled",
        ],
    );
}

#[test]
fn an_answer_with_a_call_starts_the_call_in_the_same_commit() {
    check(
        plan(),
        &[Say("hi")],
        Model("", &[("a", "once")]),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "=> run a",
        ],
    );
}

#[test]
fn the_last_result_starts_the_next_model_call_in_the_same_commit() {
    check(
        plan(),
        &[Say("hi"), Model("", &[("a", "once")])],
        Done("a"),
        &[
            "tool.completed",
            "act.completed",
            "reason.started",
            "=> model",
        ],
    );
}

#[test]
fn a_plain_turn_is_two_commits_and_a_one_tool_turn_four() {
    let plain = World::after(plan(), &[Say("hi"), Model("hello", &[])]);
    assert_eq!(plain.commits, 2);
    let with_tool = &[
        Say("hi"),
        Model("", &[("a", "once")]),
        Done("a"),
        Model("hello", &[]),
    ];
    assert_eq!(World::after(plan(), with_tool).commits, 4);
    transcript(
        plan(),
        with_tool,
        &[
            "user hi",
            "agent [a]",
            "tool_result a: \"done\"",
            "agent hello",
        ],
    );
}

#[test]
fn events_of_the_fiftieth_turn_are_as_large_as_those_of_the_second() {
    let turn = [
        Say("hi"),
        Model("", &[("a", "once")]),
        Done("a"),
        Model("hello", &[]),
    ];
    let mut world = World::new(plan());
    let mut sizes = Vec::new();
    for _ in 0..50 {
        let before = world.events.len();
        for step in turn {
            world.play(step);
        }
        let turn = world.events[before..].iter();
        sizes.push(
            turn.map(|event| serde_json::to_vec(event.as_ref()).unwrap().len())
                .sum::<usize>(),
        );
    }
    // Only the digits of numbers grow.
    assert!(sizes[49] - sizes[1] < 64, "{sizes:?}");
}
