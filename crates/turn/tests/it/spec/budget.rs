//! How much turns may use.

use serde_json::json;
use windlass_core::backend::{BackendEnd, BackendErrorKind, BackendEvent, BackendUsage};
use windlass_core::budget::{Budget, Budgets, Reserve};
use windlass_core::events::{EventData, LlmGenerationMetadata, TurnFailedData};
use windlass_turn::{FailureDetails, Input, TurnPlan};

use super::backend::{Backend, agent_plan, ends, established, fails};
use crate::world::ThreadAction::{
    After, Begin, Compact, Crash, Done, Interrupt, Model, ModelUsing, Say, Steer,
};
use crate::world::{ThreadAction, World, check, plan};

const NO_RESERVE: Reserve = Reserve {
    tokens: 0,
    micro_usd: 0,
};

fn allowing(turn: Budget, thread: Budget, reserve: Reserve) -> TurnPlan {
    TurnPlan {
        budgets: Budgets { turn, thread },
        reserve,
        ..plan()
    }
}

fn tokens(n: u64) -> Budget {
    Budget {
        tokens: Some(n),
        ..Budget::default()
    }
}

fn turn_tokens(n: u64, reserve: u64) -> TurnPlan {
    let reserve = Reserve {
        tokens: reserve,
        ..NO_RESERVE
    };
    allowing(tokens(n), Budget::default(), reserve)
}

fn thread_tokens(n: u64) -> TurnPlan {
    allowing(Budget::default(), tokens(n), NO_RESERVE)
}

fn failed(world: &World) -> &TurnFailedData {
    let EventData::TurnFailed(failed) = world.last("turn.failed") else {
        panic!("another event")
    };
    failed
}

/// Says which limit ended the last turn, and how much it allowed, how much was used, and how much a call would set aside.
fn exceeded(world: &World) -> (String, u64, u64, u64) {
    let failed = failed(world);
    assert_eq!(failed.error_code.as_deref(), Some("budget_exceeded"));
    let fields = json!(failed.error_fields);
    let number = |name: &str| fields[name].as_u64();
    let numbers = (number("allowed"), number("used"), number("reserve"));
    let (Some(limit), (Some(allowed), Some(used), Some(reserve))) =
        (fields["limit"].as_str(), numbers)
    else {
        panic!("{fields} does not say which limit it was")
    };
    assert!(failed.error.contains(limit), "{}", failed.error);
    (limit.to_owned(), allowed, used, reserve)
}

const STOPPED: &[&str] = &[
    "tool.completed",
    "act.completed",
    "turn.failed",
    "session.idled",
];
const CONTINUES: &[&str] = &[
    "tool.completed",
    "act.completed",
    "reason.started",
    "=> model",
];

#[test]
fn turn_stops_before_a_call_that_may_exceed_the_budget() {
    let given = |used| [Say("hi"), ModelUsing(&[("a", "once")], used)];
    // Past usage plus the possible usage of a call must fit, to the last token.
    check(turn_tokens(100, 30), &given(30), Done("a"), CONTINUES);
    check(turn_tokens(100, 70), &given(30), Done("a"), CONTINUES);
    check(turn_tokens(100, 71), &given(30), Done("a"), STOPPED);
    // A call may use as much as the one before it.
    check(turn_tokens(100, 0), &given(50), Done("a"), CONTINUES);
    check(turn_tokens(100, 0), &given(51), Done("a"), STOPPED);
    let given = [Say("hi"), ModelUsing(&[("a", "once")], 30), Done("a")];
    let world = World::after(turn_tokens(100, 71), &given);
    assert_eq!(exceeded(&world), ("turn_tokens".to_owned(), 100, 30, 71));
}

#[test]
fn overrun_is_at_most_the_excess_of_one_call_over_its_reserve() {
    for used in 1..=40 {
        let mut world = World::after(turn_tokens(100, 20), &[Say("hi")]);
        let mut calls = 0;
        while world.thread.turn().is_some() {
            world.play(ModelUsing(&[("a", "pure")], used));
            world.play(Done("a"));
            calls += 1;
        }
        let (_, allowed, spent, reserve) = exceeded(&world);
        assert_eq!(spent, u64::from(used) * calls);
        assert!(spent + reserve > allowed, "it stopped too early at {used}");
        let beyond = u64::from(used).saturating_sub(20);
        assert!(spent <= allowed + beyond, "{spent} of {allowed} at {used}");
    }
}

#[test]
fn steering_and_compaction_use_the_same_budget() {
    let calls = Budget {
        model_calls: Some(1),
        ..Budget::default()
    };
    let one_call = || allowing(calls, Budget::default(), NO_RESERVE);
    let mut world = World::after(one_call(), &[Say("hi"), Steer("and")]);
    let lines = world.play(Model("hello", &[]));
    assert_eq!(lines.last().map(String::as_str), Some("session.idled"));
    assert_eq!(exceeded(&world).0, "turn_model_calls");

    let plan = allowing(Budget::default(), calls, NO_RESERVE);
    check(
        plan,
        &[Say("hi"), Model("hello", &[])],
        Compact,
        &["turn.started", "turn.failed", "session.idled"],
    );
    // The usage of a compaction counts like that of any other call.
    let two = Budget {
        model_calls: Some(2),
        ..Budget::default()
    };
    let plan = allowing(Budget::default(), two, NO_RESERVE);
    let given = [Say("hi"), Model("hello", &[]), Compact, Model("short", &[])];
    let mut world = World::after(plan, &given);
    world.play(Say("more"));
    assert_eq!(exceeded(&world), ("thread_model_calls".to_owned(), 2, 2, 0));
}

#[test]
fn turns_share_the_thread_budget_and_continue_after_a_raise() {
    let given = [
        Say("hi"),
        ModelUsing(&[], 60),
        Say("more"),
        ModelUsing(&[], 30),
    ];
    let mut world = World::after(thread_tokens(160), &given);
    world.play(Say("again"));
    assert!(world.thread.turn().is_some());
    world.play(ModelUsing(&[("a", "once")], 50));
    world.play(Done("a"));
    assert_eq!(exceeded(&world), ("thread_tokens".to_owned(), 160, 140, 50));
    // The call's result is recorded for the resumed turn.
    let before = world.transcript();
    assert!(before.last().unwrap().contains('a'), "{before:?}");
    world.plan = thread_tokens(190);
    let lines = world.play(Say("continue"));
    assert_eq!(lines.last().map(String::as_str), Some("=> model"));
    assert_eq!(world.transcript().len(), before.len() + 1);
}

#[test]
fn input_without_budget_is_recorded_and_its_turn_fails() {
    let given = [Say("hi"), Say("second"), ModelUsing(&[], 60)];
    check(
        thread_tokens(60),
        &given,
        Begin,
        &[
            "turn.started",
            "input.message",
            "session.activated",
            "turn.failed",
            "session.idled",
        ],
    );
}

#[test]
fn sums_are_the_same_after_a_crash() {
    let given = [
        Say("hi"),
        ModelUsing(&[("a", "once"), ("b", "pure")], 30),
        Done("a"),
        Done("b"),
        After(3),
        ModelUsing(&[], 40),
        Say("more"),
    ];
    let mut world = World::after(thread_tokens(1000), &given);
    let before = *world.thread.spent();
    assert_eq!(before.tokens(&NO_RESERVE), 70);
    assert_eq!((before.model_calls, before.tool_calls), (2, 2));
    assert_eq!(before.millis, 3_000);
    world.play(Crash);
    // The usage of the call that the crash cut off is unknown: it counts as its reserve.
    let after = *world.thread.spent();
    for (least, tokens) in [(7, 110), (50, 120)] {
        let least = Reserve {
            tokens: least,
            ..NO_RESERVE
        };
        assert_eq!(after.tokens(&least), tokens);
    }
    assert_eq!(after.model_calls, 3);
}

#[test]
fn crash_does_not_bypass_a_limit() {
    let plan = || turn_tokens(100, 40);
    // 40, and 40 for the call that is cut off: the same call again does not fit.
    let given = [Say("hi"), ModelUsing(&[("a", "pure")], 40), Done("a")];
    let mut world = World::after(plan(), &given);
    world.play(Crash);
    assert_eq!(world.thread.turn(), None);
    assert_eq!(exceeded(&world), ("turn_tokens".to_owned(), 100, 80, 40));
}

#[test]
fn interrupted_call_is_charged_and_a_failed_call_is_not() {
    let reserve = Reserve {
        tokens: 7,
        ..NO_RESERVE
    };
    let stopped = World::after(thread_tokens(1000), &[Say("hi"), Interrupt]);
    assert_eq!(stopped.thread.spent().tokens(&reserve), 7);

    let mut failed = World::after(thread_tokens(1000), &[Say("hi")]);
    let decision = failed.decide(Input::ModelFailed {
        exec_id: failed.model(),
        failure: FailureDetails {
            code: "server".to_owned(),
            message: "overloaded".to_owned(),
            user_message: "Something went wrong.".to_owned(),
            fields: None,
        },
        metadata: Box::new(LlmGenerationMetadata {
            provider: Some("provider".to_owned()),
            ..LlmGenerationMetadata::default()
        }),
    });
    failed.take(decision.unwrap());
    assert_eq!(failed.thread.spent().tokens(&reserve), 0);
}

#[test]
fn tool_call_over_budget_does_not_run() {
    let two = Budget {
        tool_calls: Some(2),
        ..Budget::default()
    };
    let plan = allowing(two, Budget::default(), NO_RESERVE);
    let calls = &[("a", "once"), ("b", "once"), ("c", "once"), ("d", "client")];
    let mut world = World::after(plan, &[Say("hi"), Model("", calls)]);
    assert_eq!(world.count("tool.started"), 2);
    assert_eq!(world.count("tool.call_requested"), 0);
    world.play(Done("a"));
    let lines = world.play(Done("b"));
    assert_eq!(lines.last().map(String::as_str), Some("=> model"));
    let EventData::ToolCompleted(refused) = &world
        .events
        .iter()
        .find(|event| matches!(&event.data, EventData::ToolCompleted(end) if !end.success))
        .unwrap()
        .data
    else {
        panic!("another event")
    };
    assert!(refused.error.as_ref().unwrap().contains("2 tool calls"));
    // Only calls that ran are counted, so that a raise gives as many more.
    assert_eq!(world.thread.spent().tool_calls, 2);
}

#[test]
fn repeated_call_after_a_crash_counts_once() {
    let one = Budget {
        tool_calls: Some(1),
        ..Budget::default()
    };
    let plan = allowing(one, Budget::default(), NO_RESERVE);
    let mut world = World::after(plan, &[Say("hi"), Model("", &[("a", "pure")])]);
    let lines = world.play(Crash);
    assert_eq!(lines, ["turn.resumed"]);
    assert_eq!(world.pending(), ["=> run a"]);
}

#[test]
fn turn_stops_at_the_time_limit_of_its_budget() {
    let seconds = |n| Budget {
        seconds: Some(n),
        ..Budget::default()
    };
    let plan = allowing(seconds(5), Budget::default(), NO_RESERVE);
    let world = World::after(plan, &[Say("hi"), After(5)]);
    assert_eq!(exceeded(&world), ("turn_seconds".to_owned(), 5, 5, 0));

    // Turns share the time of their thread; the time between turns does not count.
    let plan = allowing(Budget::default(), seconds(5), NO_RESERVE);
    let given = [
        Say("hi"),
        After(2),
        Model("hello", &[]),
        After(60),
        Say("more"),
        After(3),
    ];
    let world = World::after(plan, &given);
    assert_eq!(exceeded(&world), ("thread_seconds".to_owned(), 5, 5, 0));

    // A shorter time of the turn's own is not the budget's.
    let plan = allowing(seconds(5), Budget::default(), NO_RESERVE);
    let world = World::after(plan, &[ThreadAction::SayWithin("hi", 2), After(2)]);
    assert_eq!(failed(&world).error_code.as_deref(), Some("turn_timeout"));
}

#[test]
fn external_agent_starts_while_any_budget_is_left() {
    let plan = || TurnPlan {
        backend: agent_plan().backend,
        ..thread_tokens(100)
    };
    let run = |world: &mut World, tokens| {
        let mut outcome = ends(BackendEnd::Completed);
        outcome.usage = Some(BackendUsage {
            output_tokens: tokens,
            cost_usd: Some(0.0),
            ..BackendUsage::default()
        });
        world.ends_with(outcome);
    };
    let mut world = World::after(plan(), &[Say("hi")]);
    run(&mut world, 60);
    // The usage of a run does not predict that of the next run or of a model call.
    world.play(Say("more"));
    assert!(world.thread.turn().is_some(), "{:?}", failed(&world));
    run(&mut world, 39);
    world.play(Say("and more"));
    run(&mut world, 1);
    world.play(Say("too much"));
    assert_eq!(exceeded(&world), ("thread_tokens".to_owned(), 100, 100, 0));

    let mut world = World::after(plan(), &[Say("hi")]);
    run(&mut world, 60);
    world.plan = thread_tokens(100);
    let lines = world.play(Say("to the model"));
    assert_eq!(lines.last().map(String::as_str), Some("=> model"));
}

#[test]
fn interrupted_summary_is_charged_like_any_call() {
    let reserve = Reserve {
        tokens: 7,
        ..NO_RESERVE
    };
    let given = [Say("hi"), ModelUsing(&[], 5), Compact];
    let plan = || allowing(Budget::default(), tokens(19), reserve);
    for cut_off in [Interrupt, Crash] {
        let mut world = World::after(plan(), &given);
        world.play(cut_off);
        let spent = *world.thread.spent();
        assert_eq!((spent.model_calls, spent.tokens(&reserve)), (2, 12));
    }
    // No crash is a way around the limit.
    let mut world = World::after(plan(), &given);
    world.play(Crash);
    assert_eq!(world.pending(), ["=> summarise"]);
    world.play(Crash);
    assert_eq!(exceeded(&world), ("thread_tokens".to_owned(), 19, 19, 7));
    assert_eq!(world.count("context.compacted"), 1);
}

fn reported(output_tokens: u64) -> BackendUsage {
    BackendUsage {
        output_tokens,
        ..BackendUsage::default()
    }
}

fn agent_with_reserve(tokens: u64) -> TurnPlan {
    TurnPlan {
        reserve: Reserve {
            tokens,
            ..NO_RESERVE
        },
        ..agent_plan()
    }
}

#[test]
fn interrupted_run_is_charged_its_last_report() {
    for end in [Interrupt, Crash] {
        let mut world = World::after(agent_with_reserve(30), &[Say("hi")]);
        world.says(established("s1"));
        assert_eq!(
            world.says(BackendEvent::Usage(reported(5))),
            ["backend.usage"]
        );
        world.says(BackendEvent::Usage(reported(7)));
        assert!(world.says(BackendEvent::Usage(reported(7))).is_empty());
        world.play(end);
        let used = world.thread.usage().map(|usage| usage.output_tokens);
        assert_eq!(used, Some(7));
        let reserve = &world.plan.reserve;
        assert_eq!(world.thread.spent().tokens(reserve), 7);
    }
}

#[test]
fn interrupted_run_without_a_report_is_charged_its_reservation() {
    for end in [Interrupt, Crash] {
        let mut world = World::after(agent_with_reserve(30), &[Say("hi")]);
        world.says(established("s1"));
        world.play(end);
        let reserve = &world.plan.reserve;
        assert_eq!(world.thread.spent().tokens(reserve), 30);
        assert_eq!(world.thread.usage(), None);
    }
}

#[test]
fn lost_runs_use_up_the_budget() {
    let mut world = World::after(
        TurnPlan {
            budgets: Budgets {
                turn: tokens(50),
                ..Budgets::default()
            },
            ..agent_with_reserve(30)
        },
        &[Say("hi")],
    );
    world.says(established("s1"));
    world.play(Crash);
    world.says(established("s1"));
    world.play(Crash);
    assert_eq!(exceeded(&world).0, "turn_tokens");
}

#[test]
fn run_that_never_started_is_free() {
    let mut world = World::after(agent_with_reserve(30), &[Say("hi")]);
    world.ends_with(fails(BackendErrorKind::SpawnFailed));
    assert_eq!(world.thread.spent().tokens(&world.plan.reserve), 0);
}
