//! Inputs that wait for their turns.

use windlass_core::events::EventData;
use windlass_core::typed_id::TurnId;
use windlass_turn::Input;

use crate::world::Step::{Begin, BeginFails, CancelQueued, Model, Say};
use crate::world::{World, check, plan, transcript};

const READY: &[crate::world::Step] = &[Say("hi"), Say("second"), Say("third"), Model("hello", &[])];

#[test]
fn queued_inputs_begin_in_their_order() {
    check(
        plan(),
        READY,
        Begin,
        &[
            "turn.started",
            "input.message",
            "session.activated",
            "reason.started",
            "=> model",
        ],
    );
    let steps = [READY, &[Begin, Model("two", &[]), Begin]].concat();
    transcript(
        plan(),
        &steps,
        &[
            "user hi",
            "agent hello",
            "user second",
            "agent two",
            "user third",
        ],
    );
}

#[test]
fn an_input_waits_behind_those_that_wait() {
    check(plan(), READY, Say("fourth"), &["input.queued"]);
}

#[test]
fn nothing_begins_while_a_turn_runs_or_without_an_input() {
    check(plan(), &[], Begin, &["! no turn"]);
    check(plan(), &[Say("hi"), Say("more")], Begin, &["! busy"]);
}

#[test]
fn a_queued_input_is_cancelled_by_its_turn() {
    let given = &[Say("hi"), Say("second")];
    check(plan(), given, CancelQueued, &["turn.cancelled"]);
    let world = World::after(plan(), &[given[0], given[1], CancelQueued]);
    assert!(world.thread.queue().is_empty());
    let cancelled = world.events.last().unwrap();
    let EventData::TurnCancelled(data) = &cancelled.data else {
        panic!("{cancelled:?}")
    };
    assert_eq!(cancelled.context.turn_id, Some(data.turn_id));
    assert_ne!(world.thread.turn().map(|turn| turn.id), Some(data.turn_id));
    check(
        plan(),
        &[Say("hi"), Say("second"), Model("hello", &[])],
        CancelQueued,
        &["turn.cancelled"],
    );
}

#[test]
fn an_unknown_turn_cannot_be_cancelled() {
    let mut world = World::after(plan(), READY);
    let unknown = Input::Interrupt {
        turn_id: Some(TurnId::from_seed(99)),
        reason: None,
    };
    assert!(world.decide(unknown).is_err());
}

#[test]
fn the_plan_of_a_cancelled_input_does_not_begin_the_next() {
    let mut world = World::after(plan(), READY);
    let turn_id = world.thread.queue()[0].turn_id;
    let cancel = Input::Interrupt {
        turn_id: Some(turn_id),
        reason: None,
    };
    let decision = world.decide(cancel).unwrap();
    assert_eq!(world.take(decision), ["turn.cancelled", "=> prepare"]);
    let failure = None;
    assert!(world.decide(Input::Begin { turn_id, failure }).is_err());
}

#[test]
fn an_input_whose_plan_fails_ends_and_the_next_goes_on() {
    check(
        plan(),
        READY,
        BeginFails,
        &[
            "turn.started",
            "input.message",
            "session.activated",
            "turn.failed",
            "session.idled",
            "=> prepare",
        ],
    );
    transcript(
        plan(),
        &[READY, &[BeginFails, Begin]].concat(),
        &["user hi", "agent hello", "user second", "user third"],
    );
}
