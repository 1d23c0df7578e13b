//! What becomes of an input while a turn is running.

use windlass_turn::OnBusy::{Interrupt, Queue, Refuse, Steer};

use crate::world::Step::{Begin, Model, Say, SayIf};
use crate::world::{check, plan, transcript};

const PARKED: &[crate::world::Step] = &[Say("hi"), Model("", &[("a", "client")])];

#[test]
fn queue_lets_the_input_wait_for_its_own_turn() {
    check(
        plan(),
        &[Say("hi")],
        SayIf("more", Queue),
        &["input.queued"],
    );
    check(
        plan(),
        &[Say("hi"), Say("more")],
        Model("hello", &[]),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "turn.completed",
            "session.idled",
            "=> prepare",
        ],
    );
    transcript(
        plan(),
        &[Say("hi"), Say("more"), Model("hello", &[]), Begin],
        &["user hi", "agent hello", "user more"],
    );
}

#[test]
fn steer_tells_the_running_turn() {
    check(
        plan(),
        &[Say("hi")],
        SayIf("more", Steer),
        &["turn.steered", "input.message"],
    );
}

#[test]
fn interrupt_stops_the_turn_and_starts_the_next() {
    check(
        plan(),
        &[Say("hi")],
        SayIf("more", Interrupt),
        &[
            "turn.interrupt_requested",
            "llm.generation",
            "reason.completed",
            "turn.cancelled",
            "session.idled",
            "input.queued",
            "=> stop model",
            "=> prepare",
        ],
    );
}

#[test]
fn an_input_that_interrupts_goes_before_those_that_wait() {
    transcript(
        plan(),
        &[Say("hi"), Say("later"), SayIf("now", Interrupt), Begin],
        &["user hi", "user now"],
    );
}

#[test]
fn refuse_tells_the_caller() {
    check(plan(), &[Say("hi")], SayIf("more", Refuse), &["! busy"]);
}

#[test]
fn refuse_also_refuses_while_a_queued_input_is_about_to_begin() {
    check(
        plan(),
        &[Say("hi"), Say("more"), Model("hello", &[])],
        SayIf("again", Refuse),
        &["! busy"],
    );
}

#[test]
fn nobody_waits_behind_a_parked_turn_without_knowing() {
    check(
        plan(),
        PARKED,
        SayIf("more", Queue),
        &["! waiting for results of a"],
    );
    check(
        plan(),
        PARKED,
        SayIf("more", Refuse),
        &["! waiting for results of a"],
    );
    check(
        plan(),
        PARKED,
        SayIf("more", Steer),
        &["turn.steered", "input.message"],
    );
    check(
        plan(),
        PARKED,
        SayIf("more", Interrupt),
        &[
            "turn.interrupt_requested",
            "tool.call_canceled",
            "tool.completed",
            "turn.cancelled",
            "session.idled",
            "input.queued",
            "=> prepare",
        ],
    );
}

#[test]
fn without_a_turn_every_policy_starts_one() {
    for policy in [Queue, Steer, Interrupt, Refuse] {
        check(
            plan(),
            &[],
            SayIf("hi", policy),
            &[
                "turn.started",
                "input.message",
                "session.activated",
                "reason.started",
                "=> model",
            ],
        );
    }
}
