//! Going on after the process was gone.

use std::time::Duration;

use windlass_core::events::{EventData, ToolStatus};
use windlass_turn::TurnPlan;

use crate::world::Step::{After, Allow, Crash, Done, Model, Results, Say, Steer, Streams};
use crate::world::{Step, World, check, plan, transcript};

fn and(given: &[Step], more: &[Step]) -> Vec<Step> {
    [given, more].concat()
}

fn status_of_last_call(world: &World) -> ToolStatus {
    match world.last("tool.completed") {
        EventData::ToolCompleted(data) => data.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_idle_thread_has_nothing_to_recover() {
    check(plan(), &[], Crash, &[]);
    check(plan(), &[Say("hi"), Model("hello", &[])], Crash, &[]);
}

#[test]
fn a_model_call_is_made_again_under_a_new_step() {
    let mut world = World::after(plan(), &[Say("hi")]);
    let before = world.model();
    assert_eq!(
        world.play(Crash),
        [
            "turn.resumed",
            "llm.generation",
            "reason.completed",
            "reason.started",
            "=> stop model",
            "=> model"
        ]
    );
    assert_ne!(world.model(), before);
    assert_eq!(world.pending(), ["=> model"]);
}

#[test]
fn a_model_call_that_is_made_again_does_not_count_against_the_limit() {
    let mut short = plan();
    short.max_iterations = 2;
    let given = [
        Say("hi"),
        Crash,
        Crash,
        Model("", &[("a", "once")]),
        Done("a"),
        Model("hello", &[]),
    ];
    let world = World::after(short, &given);
    let EventData::TurnCompleted(end) = world.last("turn.completed") else {
        panic!("another event")
    };
    assert_eq!((end.iterations, end.llm_call_count), (2, Some(4)));
}

#[test]
fn what_was_shown_before_the_crash_stays_for_people_and_not_for_the_model() {
    transcript(
        plan(),
        &[Say("hi"), Streams("hel"), Crash, Model("hello", &[])],
        &["user hi", "agent hel (error) (report)", "agent hello"],
    );
}

#[test]
fn a_tool_that_is_safe_to_repeat_runs_again_under_its_step() {
    for tool in ["pure", "same"] {
        let calls = match tool {
            "pure" => Model("", &[("a", "pure")]),
            _ => Model("", &[("a", "same")]),
        };
        let mut world = World::after(plan(), &[Say("hi"), calls]);
        let step = world.exec("a");
        assert_eq!(world.play(Crash), ["turn.resumed"]);
        assert_eq!(world.pending(), ["=> run a"]);
        assert_eq!(world.exec("a"), step);
        assert_eq!(world.play(Done("a")).last().unwrap(), "=> model");
    }
}

#[test]
fn a_tool_that_may_run_once_is_not_repeated() {
    let given = &[Say("hi"), Model("", &[("a", "once"), ("b", "pure")])];
    let mut world = World::after(plan(), given);
    assert_eq!(
        world.play(Crash),
        ["turn.resumed", "tool.completed", "=> stop a"]
    );
    assert_eq!(status_of_last_call(&world), ToolStatus::Unknown);
    assert_eq!(world.pending(), ["=> run b"]);
    assert_eq!(world.play(Done("a")), ["! stale"]);
}

#[test]
fn a_call_that_was_allowed_and_ran_is_not_repeated_either() {
    let given = &[Say("hi"), Model("", &[("a", "ask")]), Allow("a"), Crash];
    let world = World::after(plan(), given);
    assert_eq!(status_of_last_call(&world), ToolStatus::Unknown);
    assert_eq!(world.pending(), ["=> model"]);
}

#[test]
fn a_call_that_never_started_runs() {
    let given = &[
        Say("hi"),
        Model("", &[("a", "serial"), ("b", "serial")]),
        Crash,
    ];
    let world = World::after(plan(), given);
    assert_eq!(world.pending(), ["=> run b"]);
}

#[test]
fn what_waits_still_waits_with_its_deadline() {
    let patient = || TurnPlan {
        wait_timeout: Some(Duration::from_secs(60)),
        ..plan()
    };
    for tool in ["client", "ask"] {
        let calls = match tool {
            "client" => Model("", &[("a", "client")]),
            _ => Model("", &[("a", "ask")]),
        };
        let mut world = World::after(patient(), &[Say("hi"), calls]);
        let (deadline, turn) = (world.thread.next_deadline(), world.thread.turn().cloned());
        assert!(deadline.is_some());
        // However often the process restarts: nobody but the one who is waited for ends the wait.
        for _ in 0..5 {
            assert!(world.play(Crash).is_empty());
        }
        assert_eq!(world.thread.next_deadline(), deadline);
        assert_eq!(world.thread.turn(), turn.as_ref());
        assert_eq!(world.play(After(60)).last().unwrap(), "=> model");
    }
    let answered = &[
        Say("hi"),
        Model("", &[("a", "client")]),
        Crash,
        Results(&[("a", 1)]),
    ];
    assert_eq!(World::after(patient(), answered).pending(), ["=> model"]);
    let repeated = &and(answered, &[Crash]);
    check(patient(), repeated, Results(&[("a", 1)]), &[]);
}

#[test]
fn a_call_that_waits_beside_a_running_one_still_waits() {
    let given = &[
        Say("hi"),
        Model("", &[("a", "client"), ("b", "once")]),
        Crash,
    ];
    let world = World::after(plan(), given);
    assert!(world.pending().is_empty());
    let waiting = world.thread.turn().and_then(|turn| turn.waiting_for());
    assert_eq!(waiting.unwrap().tool_results, ["a"]);
}

#[test]
fn a_steer_that_was_not_read_is_read_after_the_crash() {
    transcript(
        plan(),
        &[Say("hi"), Steer("more"), Crash],
        &["user hi", "user more"],
    );
}

#[test]
fn a_queued_input_is_prepared_after_a_crash() {
    let given = &[Say("hi"), Say("more"), Model("hello", &[]), Crash];
    assert_eq!(World::after(plan(), given).pending(), ["=> prepare"]);
}

#[test]
fn the_fourth_resume_fails_the_turn() {
    let three = &[Say("hi"), Crash, Crash, Crash];
    assert_eq!(World::after(plan(), three).pending(), ["=> model"]);
    check(
        plan(),
        three,
        Crash,
        &[
            "turn.resumed",
            "llm.generation",
            "reason.completed",
            "turn.failed",
            "session.idled",
            "=> stop model",
        ],
    );
    let world = World::after(plan(), &and(three, &[Crash]));
    let EventData::TurnFailed(failed) = world.last("turn.failed") else {
        panic!("another event")
    };
    assert_eq!(failed.error_code.as_deref(), Some("crashed"));
}

#[test]
fn giving_up_does_not_say_that_a_lost_call_was_cancelled() {
    let given = &[
        Say("hi"),
        Crash,
        Crash,
        Crash,
        Model("", &[("a", "once")]),
        Crash,
    ];
    let world = World::after(plan(), given);
    assert!(world.thread.turn().is_none());
    assert_eq!(status_of_last_call(&world), ToolStatus::Unknown);
}
