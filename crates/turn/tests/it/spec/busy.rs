//! What becomes of an input while a turn is running.

use serde_json::Value;
use windlass_core::message::{ContentPart, InputMessage, Message, ToolCallContentPart};
use windlass_core::typed_id::TurnId;
use windlass_turn::OnBusy::{Interrupt, Queue, Refuse, Steer};
use windlass_turn::{Input, Rejected};

use crate::world::ThreadAction::{Begin, Model, Say, SayIf};
use crate::world::{World, check, plan, transcript};

const PARKED: &[crate::world::ThreadAction] = &[Say("hi"), Model("", &[("a", "client")])];

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
fn steer_reaches_the_running_turn() {
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
fn interrupting_input_is_first_in_the_queue() {
    transcript(
        plan(),
        &[Say("hi"), Say("later"), SayIf("now", Interrupt), Begin],
        &["user hi", "user now"],
    );
}

#[test]
fn refuse_rejects_the_input() {
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
fn queueing_after_a_parked_turn_is_rejected() {
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
fn turn_with_a_caller_id_starts_once() {
    let submit = |seed| Input::Submit {
        message: InputMessage::user("hi"),
        on_busy: Queue,
        timeout: None,
        turn_id: Some(TurnId::from_seed(seed)),
    };
    let mut world = World::new(plan());
    let begun = world.decide(submit(1)).unwrap();
    world.take(begun);
    assert_eq!(world.thread.turn().unwrap().id, TurnId::from_seed(1));
    let queued = world.decide(submit(2)).unwrap();
    world.take(queued);
    for seed in [1, 2] {
        let again = world.decide(submit(seed));
        assert_eq!(again.unwrap_err(), Rejected::Busy(TurnId::from_seed(seed)));
    }
}

#[test]
fn input_with_calls_or_results_is_rejected() {
    let call = ContentPart::ToolCall(ToolCallContentPart {
        id: "a".to_owned(),
        name: "once".to_owned(),
        arguments: Value::Null,
    });
    let result = Message::tool_result("a", None, None).content.remove(0);
    for part in [call, result] {
        let message = InputMessage {
            content: vec![part],
            ..InputMessage::user("hi")
        };
        let submit = |on_busy| Input::Submit {
            message: message.clone(),
            on_busy,
            timeout: None,
            turn_id: None,
        };
        assert!(World::new(plan()).decide(submit(Queue)).is_err());
        let mut busy = World::after(plan(), &[Say("hi")]);
        for policy in [Queue, Steer, Interrupt] {
            assert!(busy.decide(submit(policy)).is_err(), "{policy:?}");
        }
        let message = message.clone();
        assert!(
            busy.decide(Input::Steer {
                turn_id: None,
                message
            })
            .is_err()
        );
    }
}

#[test]
fn steer_for_an_ended_turn_does_not_reach_the_next() {
    let mut world = World::after(plan(), &[Say("hi")]);
    let first = world.thread.turn().map(|turn| turn.id);
    let steer = |turn_id| Input::Steer {
        turn_id,
        message: InputMessage::user("more"),
    };
    assert!(world.decide(steer(first)).is_ok());
    for step in [Model("hello", &[]), Say("again")] {
        world.play(step);
    }
    assert_eq!(world.decide(steer(first)).unwrap_err(), Rejected::NoTurn);
    let second = world.thread.turn().map(|turn| turn.id);
    assert_ne!(first, second);
    assert!(world.decide(steer(second)).is_ok());
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
