//! Calls whose results come from an external client.

use std::time::Duration;

use windlass_core::events::{EventData, ToolStatus};
use windlass_core::session::SessionStatus;
use windlass_turn::TurnPlan;

use crate::world::ThreadAction::{
    After, Allow, Connects, Deny, Done, Interrupt, Model, ResultFails, Results, Say,
};
use crate::world::{ThreadAction, World, check, plan, transcript};

const ONE: &[ThreadAction] = &[Say("hi"), Model("", &[("a", "client")])];
const TWO: &[ThreadAction] = &[Say("hi"), Model("", &[("a", "client"), ("b", "client")])];
const TWINS: &[ThreadAction] = &[Say("hi"), Model("", &[("a", "client"), ("a", "client")])];
const CONTINUES: &[&str] = &[
    "tool.call_resolved",
    "tool.completed",
    "act.completed",
    "reason.started",
    "=> model",
];

fn and(given: &[ThreadAction], step: ThreadAction) -> Vec<ThreadAction> {
    [given, &[step]].concat()
}

#[test]
fn client_side_call_parks_the_turn() {
    check(
        plan(),
        &ONE[..1],
        ONE[1],
        &[
            "llm.generation",
            "output.message.completed",
            "reason.completed",
            "act.started",
            "tool.started",
            "tool.call_requested",
        ],
    );
    let world = World::after(plan(), ONE);
    assert_eq!(world.thread.status(), SessionStatus::WaitingForToolResults);
    assert!(world.pending().is_empty());
}

#[test]
fn turn_continues_when_every_call_is_answered() {
    check(
        plan(),
        TWO,
        Results(&[("b", 2)]),
        &["tool.call_resolved", "tool.completed"],
    );
    check(
        plan(),
        &and(TWO, Results(&[("b", 2)])),
        Results(&[("a", 1)]),
        CONTINUES,
    );
    transcript(
        plan(),
        &and(TWO, Results(&[("b", 2), ("#a", 1)])),
        &[
            "user hi",
            "agent [a] [b]",
            "tool_result a: 1",
            "tool_result b: 2",
        ],
    );
}

#[test]
fn equal_repeat_is_accepted_and_changes_nothing() {
    let one = and(TWO, Results(&[("a", 1)]));
    for name in ["a", "#a"] {
        let repeat = Results(if name == "a" {
            &[("a", 1)]
        } else {
            &[("#a", 1)]
        });
        check(plan(), &one, repeat, &[]);
    }
    check(
        plan(),
        &and(ONE, Results(&[("a", 1)])),
        Results(&[("a", 1)]),
        &[],
    );
    let ended = [ONE, &[Results(&[("a", 1)]), Model("hello", &[])]].concat();
    check(plan(), &ended, Results(&[("a", 1)]), &[]);
}

#[test]
fn repeat_does_not_block_a_new_answer() {
    check(
        plan(),
        &and(TWO, Results(&[("a", 1)])),
        Results(&[("a", 1), ("b", 2)]),
        CONTINUES,
    );
}

#[test]
fn external_failure_fails_the_call() {
    let failed = and(ONE, ResultFails("a"));
    transcript(
        plan(),
        &failed,
        &["user hi", "agent [a]", "tool_result a: broken"],
    );
    let world = World::after(plan(), &failed);
    let EventData::ToolCompleted(end) = world.last("tool.completed") else {
        panic!("another event")
    };
    assert_eq!((end.success, end.status), (false, ToolStatus::Error));
    check(plan(), &failed, ResultFails("a"), &[]);
    check(
        plan(),
        &failed,
        Results(&[("a", 1)]),
        &["! it was answered differently before"],
    );
}

#[test]
fn answer_to_an_earlier_turn_is_recognized_by_its_step() {
    let next = [
        ONE,
        &[Results(&[("a", 1)]), Model("hello", &[]), Say("again")],
    ]
    .concat();
    let later = [&next, &[Model("hello", &[]), Say("more")][..]].concat();
    for given in [&next, &later] {
        check(plan(), given, Results(&[("#a", 1)]), &[]);
        check(
            plan(),
            given,
            Results(&[("#a", 2)]),
            &["! it was answered differently before"],
        );
        // A provider may use its id again, for another call.
        check(
            plan(),
            given,
            Results(&[("a", 1)]),
            &["! the session has no such call"],
        );
    }
}

#[test]
fn decision_about_an_earlier_turn_is_recognized() {
    let given = [
        Say("hi"),
        Model("", &[("a", "ask")]),
        Allow("a"),
        Done("a"),
        Model("hello", &[]),
        Say("again"),
    ];
    check(plan(), &given, Allow("#a"), &[]);
    check(
        plan(),
        &given,
        Deny("#a"),
        &["! it was answered differently before"],
    );
}

#[test]
fn another_answer_is_refused() {
    check(
        plan(),
        &and(TWO, Results(&[("a", 1)])),
        Results(&[("a", 2)]),
        &["! it was answered differently before"],
    );
}

#[test]
fn unknown_call_rejects_the_whole_batch() {
    let mut world = World::after(plan(), TWO);
    let before = world.thread.clone();
    assert_eq!(
        world.play(Results(&[("a", 1), ("z", 2)])),
        ["! the session has no such call"]
    );
    assert_eq!(world.thread, before);
}

#[test]
fn calls_with_the_same_id_need_their_step_ids() {
    check(
        plan(),
        TWINS,
        Results(&[("a", 1)]),
        &["! several calls have this id; name the step instead"],
    );
    let mut world = World::after(plan(), TWINS);
    let calls = world.thread.turn().and_then(|turn| turn.act()).unwrap();
    let steps: Vec<String> = calls.calls.iter().map(|c| c.exec_id.to_string()).collect();
    for (n, step) in steps.iter().enumerate() {
        let results = vec![windlass_core::tools::ToolResult::success(step, n)];
        let decision = world.decide(windlass_turn::Input::ToolResults { results });
        world.take(decision.unwrap());
    }
    assert_eq!(
        world.transcript(),
        [
            "user hi",
            "agent [a] [a]",
            "tool_result a: 0",
            "tool_result a: 1"
        ]
    );
}

#[test]
fn repeat_is_recognized_despite_a_later_call_with_the_same_id() {
    let second = [
        ONE,
        &[
            Results(&[("a", 1)]),
            Model("", &[("a", "client")]),
            Results(&[("a", 2)]),
        ],
    ]
    .concat();
    check(plan(), &second, Results(&[("a", 2)]), &[]);
}

#[test]
fn repeat_is_recognized_after_an_approval() {
    let given = &[
        Say("hi"),
        Model("", &[("a", "ask")]),
        Allow("a"),
        Connects("a"),
        Results(&[("a", 1)]),
    ];
    check(plan(), given, Results(&[("a", 1)]), &[]);
}

#[test]
fn unanswered_call_expires_and_late_answers_are_rejected() {
    let patient = || TurnPlan {
        wait_timeout: Some(Duration::from_secs(60)),
        ..plan()
    };
    check(patient(), ONE, After(59), &[]);
    check(
        patient(),
        ONE,
        After(60),
        &[
            "tool.call_timeout",
            "tool.completed",
            "act.completed",
            "reason.started",
            "=> model",
        ],
    );
    let late = World::after(patient(), &and(ONE, After(60))).play(Results(&[("a", 1)]));
    assert!(late[0].starts_with('!'), "{late:?}");
}

#[test]
fn interrupt_ends_the_wait() {
    check(
        plan(),
        ONE,
        Interrupt,
        &[
            "turn.interrupt_requested",
            "tool.call_canceled",
            "tool.completed",
            "turn.cancelled",
            "session.idled",
        ],
    );
    check(
        plan(),
        &and(ONE, Interrupt),
        Results(&[("a", 1)]),
        &["! the session has no such call"],
    );
}
