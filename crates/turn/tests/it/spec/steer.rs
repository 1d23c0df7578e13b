//! The position of steering messages.

use crate::world::ThreadAction::{Done, Interrupt, Model, Say, Steer};
use crate::world::{check, plan, transcript};

#[test]
fn there_must_be_a_turn_to_steer() {
    check(plan(), &[], Steer("more"), &["! no turn"]);
}

#[test]
fn steered_text_precedes_the_next_model_call() {
    let steered = &[
        Say("hi"),
        Model("", &[("a", "once"), ("b", "once")]),
        Done("b"),
        Steer("more"),
        Done("a"),
        Model("hello", &[]),
    ];
    transcript(
        plan(),
        steered,
        &[
            "user hi",
            "agent [a] [b]",
            "tool_result a: \"done\"",
            "tool_result b: \"done\"",
            "user more",
            "agent hello",
        ],
    );
}

#[test]
fn steer_during_the_final_answer_causes_another_model_call() {
    check(
        plan(),
        &[Say("hi"), Steer("more")],
        Model("hello", &[]),
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "reason.started",
            "=> model",
        ],
    );
    transcript(
        plan(),
        &[
            Say("hi"),
            Steer("more"),
            Model("hello", &[]),
            Model("indeed", &[]),
        ],
        &["user hi", "agent hello", "user more", "agent indeed"],
    );
}

#[test]
fn unread_steered_text_remains_in_the_conversation() {
    transcript(
        plan(),
        &[Say("hi"), Steer("more"), Interrupt],
        &["user hi", "user more"],
    );
    transcript(
        plan(),
        &[
            Say("hi"),
            Model("", &[("a", "once")]),
            Steer("more"),
            Interrupt,
        ],
        &[
            "user hi",
            "agent [a]",
            "tool_result a: cancelled: the turn was interrupted",
            "user more",
        ],
    );
    let mut short = plan();
    short.max_iterations = 1;
    transcript(
        short,
        &[Say("hi"), Steer("more"), Model("hello", &[])],
        &["user hi", "agent hello", "user more"],
    );
}
