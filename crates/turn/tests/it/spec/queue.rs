//! Inputs that wait for their turns.

use windlass_core::events::EventData;
use windlass_core::items::input_summary;
use windlass_core::message::{Controls, InputMessage, Message};
use windlass_core::turn_request::TurnRequest;
use windlass_core::typed_id::TurnId;
use windlass_turn::{Input, OnBusy, QueueEdit};

use crate::world::ThreadAction::{
    Begin, BeginFails, CancelQueued, Crash, EditQueued, Model, MoveQueued, RemoveQueued, Say,
};
use crate::world::{World, check, plan, transcript};

const READY: &[crate::world::ThreadAction] =
    &[Say("hi"), Say("second"), Say("third"), Model("hello", &[])];

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
fn input_joins_the_end_of_the_queue() {
    check(plan(), READY, Say("fourth"), &["input.queued"]);
}

#[test]
fn begin_needs_an_idle_thread_and_a_queued_input() {
    check(plan(), &[], Begin, &["! no turn"]);
    check(plan(), &[Say("hi"), Say("more")], Begin, &["! busy"]);
}

#[test]
fn queued_input_is_cancelled_by_its_turn_id() {
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
fn cancelling_an_unknown_turn_is_rejected() {
    let mut world = World::after(plan(), READY);
    let unknown = Input::Interrupt {
        turn_id: Some(TurnId::from_seed(99)),
        reason: None,
    };
    assert!(world.decide(unknown).is_err());
}

#[test]
fn plan_of_a_cancelled_input_does_not_start_the_next() {
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
fn failed_plan_fails_its_turn_and_the_next_continues() {
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

#[test]
fn edited_input_starts_with_its_new_text() {
    let given = [READY, &[EditQueued(0, "changed"), Begin]].concat();
    check(plan(), READY, EditQueued(0, "changed"), &["input.edited"]);
    transcript(plan(), &given, &["user hi", "agent hello", "user changed"]);
}

#[test]
fn moved_input_starts_at_its_new_position() {
    check(
        plan(),
        READY,
        MoveQueued(1, 0),
        &["input.edited", "=> prepare"],
    );
    transcript(
        plan(),
        &[READY, &[MoveQueued(1, 0), Begin]].concat(),
        &["user hi", "agent hello", "user third"],
    );
    // An index past the end is the last one.
    transcript(
        plan(),
        &[READY, &[MoveQueued(0, 9), Begin]].concat(),
        &["user hi", "agent hello", "user third"],
    );
}

#[test]
fn unchanged_edit_is_not_recorded() {
    check(plan(), READY, EditQueued(0, "second"), &[]);
    check(plan(), READY, MoveQueued(1, 1), &[]);
    check(plan(), READY, MoveQueued(1, 7), &[]);
}

#[test]
fn removed_input_does_not_start() {
    check(
        plan(),
        READY,
        RemoveQueued(0),
        &["turn.cancelled", "=> prepare"],
    );
    transcript(
        plan(),
        &[READY, &[RemoveQueued(0), Begin]].concat(),
        &["user hi", "agent hello", "user third"],
    );
}

#[test]
fn started_turn_is_not_queued() {
    let begun = &[Say("hi")];
    for step in [EditQueued(0, "late"), MoveQueued(0, 0), RemoveQueued(0)] {
        check(plan(), begun, step, &["! not queued"]);
        check(
            plan(),
            &[Say("hi"), Model("a", &[])],
            step,
            &["! not queued"],
        );
    }
}

#[test]
fn edited_queue_survives_a_crash() {
    let edits = [EditQueued(1, "changed"), MoveQueued(1, 0), Crash];
    let running = [&[Say("hi"), Say("second"), Say("third")], &edits[..]].concat();
    let world = World::after(plan(), &running);
    let texts = |world: &World| {
        let queue = world.thread.queue().iter();
        queue
            .map(|it| it.message.text().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(texts(&world), ["changed", "second"]);
    let removed = World::after(plan(), &[&running[..], &[RemoveQueued(0), Crash]].concat());
    assert_eq!(texts(&removed), ["second"]);
}

#[test]
fn editing_the_text_drops_the_clients_summary() {
    let mut world = World::after(plan(), &[Say("hi")]);
    let request = TurnRequest {
        input_summary: Some("in short".to_owned()),
        ..TurnRequest::default()
    };
    let message = InputMessage {
        controls: Some(Controls {
            turn: Some(Box::new(request)),
            ..Controls::default()
        }),
        ..InputMessage::user("second")
    };
    let submit = Input::Submit {
        message,
        on_busy: OnBusy::Queue,
        timeout: None,
        turn_id: None,
    };
    let queued = world.decide(submit).unwrap();
    world.take(queued);
    world.play(EditQueued(0, "changed"));
    let message = &world.thread.queue()[0].message;
    assert_eq!(input_summary(message), "changed");
}

#[test]
fn edit_with_calls_or_results_is_rejected() {
    let mut world = World::after(plan(), READY);
    let edit = QueueEdit {
        content: Some(Message::tool_result("a", None, None).content),
        position: None,
    };
    let turn_id = world.thread.queue()[0].turn_id;
    assert!(world.decide(Input::EditQueued { turn_id, edit }).is_err());
}
