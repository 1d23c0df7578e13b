//! Messages that the host adds, and calls whose results are lost.

use windlass_core::events::EventData;

use crate::world::ThreadAction::{ImportAgent, ImportResult, ImportUser, Model, Say};
use crate::world::{World, check, plan, transcript};

const LOST: &str = "the result of this call was lost; it may or may not have taken effect";

#[test]
fn imported_messages_are_part_of_the_conversation() {
    let given = &[
        ImportUser("before"),
        ImportAgent("", &[("a", "once")]),
        ImportResult("a"),
        ImportAgent("done", &[]),
        Say("hi"),
    ];
    transcript(
        plan(),
        given,
        &[
            "user before",
            "agent [a]",
            "tool_result a: 1",
            "agent done",
            "user hi",
        ],
    );
    assert_eq!(World::after(plan(), given).count("transcript.repaired"), 0);
}

#[test]
fn calls_and_results_must_pair_up() {
    check(
        plan(),
        &[ImportAgent("", &[("a", "once")])],
        ImportAgent("next", &[]),
        &["! earlier calls have no results yet"],
    );
    check(
        plan(),
        &[],
        ImportResult("a"),
        &["! it does not answer an earlier call"],
    );
    check(
        plan(),
        &[ImportAgent("", &[("a", "once")]), ImportResult("a")],
        ImportResult("a"),
        &["! it does not answer an earlier call"],
    );
}

#[test]
fn import_during_a_turn_is_rejected() {
    check(
        plan(),
        &[Say("hi")],
        ImportUser("x"),
        &["! a turn is running"],
    );
}

#[test]
fn dangling_call_is_repaired_once() {
    let given = &[
        ImportAgent("", &[("a", "once"), ("b", "once")]),
        ImportResult("a"),
    ];
    check(
        plan(),
        given,
        Say("hi"),
        &[
            "transcript.repaired",
            "turn.started",
            "input.message",
            "session.activated",
            "reason.started",
            "=> model",
        ],
    );
    let steps = [given, &[Say("hi"), Model("hello", &[]), Say("again")][..]].concat();
    let repaired = format!("tool_result b: {LOST}");
    transcript(
        plan(),
        &steps,
        &[
            "agent [a] [b]",
            "tool_result a: 1",
            &repaired,
            "user hi",
            "agent hello",
            "user again",
        ],
    );
    assert_eq!(World::after(plan(), &steps).count("transcript.repaired"), 1);
}

#[test]
fn calls_with_one_id_each_get_a_result() {
    let twins = ImportAgent("", &[("a", "once"), ("a", "once")]);
    let repaired = format!("tool_result a: {LOST}");
    transcript(
        plan(),
        &[twins, ImportResult("a"), Say("hi")],
        &["agent [a] [a]", "tool_result a: 1", &repaired, "user hi"],
    );
    transcript(
        plan(),
        &[twins, Say("hi")],
        &["agent [a] [a]", &repaired, &repaired, "user hi"],
    );
}

#[test]
fn input_after_a_dangling_call_follows_its_result() {
    let repaired = format!("tool_result a: {LOST}");
    transcript(
        plan(),
        &[
            ImportAgent("", &[("a", "once")]),
            ImportUser("next"),
            Say("hi"),
        ],
        &["agent [a]", &repaired, "user next", "user hi"],
    );
}

#[test]
fn repaired_result_has_the_id_of_its_event() {
    let world = World::after(plan(), &[ImportAgent("", &[("a", "once")]), Say("hi")]);
    let repaired = world
        .events
        .iter()
        .find(|event| matches!(event.data, EventData::TranscriptRepaired(_)))
        .unwrap();
    let message = world.thread.history().get(1).unwrap();
    assert_eq!(message.id.uuid(), repaired.id.uuid());
    assert_eq!(message.created_at, repaired.ts);
}
