//! The records of a turn, their order and the number of commits.

use crate::world::ThreadAction::{Done, Model, Say, Streams, Thinks, UnflushedText};
use crate::world::{World, check, plan, transcript};

#[test]
fn input_starts_turn_and_model_call_in_one_commit() {
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
fn answer_ends_the_turn_in_one_commit() {
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
fn unflushed_text_precedes_its_answer() {
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
fn streamed_thinking_is_closed_even_if_the_answer_omits_it() {
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
fn answer_starts_its_call_in_the_same_commit() {
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
fn last_result_starts_the_next_model_call_in_the_same_commit() {
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
fn plain_turn_is_two_commits_and_a_one_tool_turn_four() {
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
fn event_size_does_not_grow_with_the_thread() {
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
