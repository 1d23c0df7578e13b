//! Resuming after a lost process.

use std::time::Duration;

use windlass_core::events::{EventData, ToolStatus};
use windlass_turn::{Thread, TurnPlan};

use crate::world::ThreadAction::{
    After, Allow, Asks, Compact, Crash, Deny, Done, Down, Model, Release, Replies, Restart,
    Results, Say, Steer, Streams,
};
use crate::world::{ThreadAction, World, check, plan, transcript};

fn and(given: &[ThreadAction], more: &[ThreadAction]) -> Vec<ThreadAction> {
    [given, more].concat()
}

fn status_of_last_call(world: &World) -> ToolStatus {
    match world.last("tool.completed") {
        EventData::ToolCompleted(data) => data.status,
        other => panic!("{other:?}"),
    }
}

#[test]
fn idle_thread_has_nothing_to_recover() {
    check(plan(), &[], Crash, &[]);
    check(plan(), &[Say("hi"), Model("hello", &[])], Crash, &[]);
}

#[test]
fn model_call_is_repeated_under_a_new_step() {
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
fn repeated_model_call_does_not_count_against_the_limit() {
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
fn text_before_a_crash_remains_visible_to_users_only() {
    transcript(
        plan(),
        &[Say("hi"), Streams("hel"), Crash, Model("hello", &[])],
        &["user hi", "agent hel (error) (report)", "agent hello"],
    );
}

#[test]
fn idempotent_tool_runs_again_under_its_step() {
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
fn at_most_once_tool_is_not_repeated() {
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
fn approved_call_that_ran_is_not_repeated() {
    let given = &[Say("hi"), Model("", &[("a", "ask")]), Allow("a"), Crash];
    let world = World::after(plan(), given);
    assert_eq!(status_of_last_call(&world), ToolStatus::Unknown);
    assert_eq!(world.pending(), ["=> model"]);
}

#[test]
fn call_that_never_started_runs() {
    let given = &[
        Say("hi"),
        Model("", &[("a", "serial"), ("b", "serial")]),
        Crash,
    ];
    let world = World::after(plan(), given);
    assert_eq!(world.pending(), ["=> run b"]);
}

#[test]
fn time_without_the_daemon_does_not_count_against_a_wait() {
    let patient = TurnPlan {
        wait_timeout: Some(Duration::from_secs(60)),
        ..plan()
    };
    for tool in ["client", "ask"] {
        let calls = match tool {
            "client" => Model("", &[("a", "client")]),
            _ => Model("", &[("a", "ask")]),
        };
        let given = [Say("hi"), calls, Down(3_600), After(59)];
        let mut world = World::after(patient.clone(), &given);
        let waiting = |world: &World| world.thread.turn().and_then(|turn| turn.waiting_for());
        assert!(waiting(&world).is_some(), "{tool}");
        // After two downtimes, an answer within the extended deadline is still in time.
        world.play(Down(3_600));
        assert!(waiting(&world).is_some(), "{tool}");
        let folded = Thread::fold(
            world.thread.session_id(),
            world.events.iter().map(AsRef::as_ref),
        );
        assert_eq!(folded.unwrap(), world.thread);
        world.play(After(60));
        assert!(waiting(&world).is_none(), "{tool}");
    }
}

#[test]
fn pending_wait_retains_its_deadline() {
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
        let waiting = |world: &World| world.thread.turn().and_then(|turn| turn.waiting_for());
        let (deadline, waits) = (world.thread.next_deadline(), waiting(&world));
        assert!(deadline.is_some() && waits.is_some());
        // Any number of restarts does not end the wait.
        for times in 1..=5 {
            assert_eq!(world.play(Crash), ["turn.resumed"]);
            let turn = world.thread.turn().unwrap();
            assert_eq!((turn.resumes, turn.crashes), (times, 0));
        }
        assert_eq!(world.thread.next_deadline(), deadline);
        assert_eq!(waiting(&world), waits);
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
fn pending_call_next_to_a_running_one_still_waits() {
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
fn unread_steer_is_read_after_the_crash() {
    transcript(
        plan(),
        &[Say("hi"), Steer("more"), Crash],
        &["user hi", "user more"],
    );
}

#[test]
fn queued_input_is_prepared_after_a_crash() {
    let given = &[Say("hi"), Say("more"), Model("hello", &[]), Crash];
    assert_eq!(World::after(plan(), given).pending(), ["=> prepare"]);
}

/// Plays all but the last step, which must be the restart that ends the turn.
#[track_caller]
fn fails_at_the_last_of(given: &[ThreadAction]) -> World {
    let [before @ .., last] = given else {
        panic!("nothing is given")
    };
    let mut world = World::after(plan(), before);
    assert!(world.thread.turn().is_some(), "it fails before: {given:?}");
    world.play(*last);
    assert!(world.thread.turn().is_none(), "it continues: {given:?}");
    let EventData::TurnFailed(failed) = world.last("turn.failed") else {
        panic!("another event")
    };
    assert_eq!(failed.error_code.as_deref(), Some("crashed"), "{given:?}");
    world
}

#[test]
fn third_restart_fails_the_turn() {
    let two = &[Say("hi"), Crash, Crash];
    assert_eq!(World::after(plan(), two).pending(), ["=> model"]);
    check(
        plan(),
        two,
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
}

#[test]
fn three_crashes_in_a_row_fail_the_turn_wherever_they_find_it() {
    let once = Model("", &[("a", "once")]);
    let pure = Model("", &[("a", "pure")]);
    let refused = ThreadAction::ModelRefused("a", "none");
    for given in [
        &[Say("hi"), Crash, Crash, Crash][..],
        &[Say("hi"), pure, Crash, Crash, Crash],
        &[Say("hi"), Model("hello", &[]), Compact, Crash, Crash, Crash],
        // The model asks for the same again and again: its answers alone are no progress.
        &[Say("hi"), once, Crash, once, Crash, once, Crash],
        &[Say("hi"), Crash, pure, Crash, Crash],
        // A stop in order is no crash, and no progress either.
        &[Say("hi"), Crash, Restart, Crash, Restart, Restart, Crash],
        &[Say("hi"), Restart, Crash, Crash, Crash],
        // A parked call next to a running one does not make the running one's crash harmless.
        &[
            Say("hi"),
            Model("", &[("a", "client"), ("b", "pure")]),
            Crash,
            Crash,
            Crash,
        ],
        // Neither do restarts while it waits, and they do not begin the count anew.
        &[
            Say("hi"),
            Crash,
            Model("", &[("a", "ask")]),
            Crash,
            Crash,
            Allow("a"),
            Crash,
            Crash,
        ],
        // The count begins anew when a call has come to its end, and only then.
        &[
            Say("hi"),
            Crash,
            Crash,
            pure,
            Done("a"),
            Crash,
            Crash,
            Crash,
        ],
        // One that never ran has not.
        &[Say("hi"), Crash, Crash, refused, Crash],
        &[
            Say("hi"),
            Crash,
            Crash,
            Model("", &[("a", "ask")]),
            Deny("a"),
            Crash,
        ],
    ] {
        fails_at_the_last_of(given);
    }
}

#[test]
fn completed_call_resets_the_crash_count() {
    let two = [Say("hi"), Crash, Crash];
    for ends in [
        &[Model("", &[("a", "once")]), Done("a")][..],
        &[Model("", &[("a", "client")]), Results(&[("a", 1)])],
        &[Model("", &[("a", "once")]), Asks("a"), Replies("a", "yes")],
    ] {
        let mut world = World::after(plan(), &and(&two, ends));
        for crashes in 1..=2 {
            world.play(Crash);
            let turn = world.thread.turn().unwrap();
            assert_eq!((turn.crashes, turn.resumes), (crashes, 2 + crashes));
        }
        world.play(Crash);
        assert!(world.thread.turn().is_none(), "{ends:?}");
    }
}

#[test]
fn orderly_stop_is_not_a_crash() {
    let pure = Model("", &[("a", "pure")]);
    let compacts = &[Say("hi"), Model("hello", &[]), Compact];
    for given in [&[Say("hi")][..], &[Say("hi"), pure], compacts] {
        let mut world = World::after(plan(), given);
        let pending = world.pending();
        for times in 1..=20 {
            assert_eq!(world.play(Release), ["turn.released"], "{given:?}");
            world.play(Crash);
            let turn = world.thread.turn().unwrap();
            assert_eq!((turn.resumes, turn.crashes), (times, 0), "{given:?}");
        }
        assert_eq!(world.pending(), pending, "{given:?}");
    }
}

#[test]
fn only_the_executing_process_releases_a_turn() {
    for given in [
        &[][..],
        &[Say("hi"), Model("hello", &[])],
        // No process is executing a parked turn.
        &[Say("hi"), Model("", &[("a", "client")])],
        // A second release has no effect.
        &[Say("hi"), Release],
    ] {
        check(plan(), given, Release, &[]);
    }
}

#[test]
fn lost_call_of_an_abandoned_turn_has_an_unknown_outcome() {
    let once = Model("", &[("a", "once")]);
    let world = fails_at_the_last_of(&[Say("hi"), Crash, Crash, once, Crash]);
    assert_eq!(status_of_last_call(&world), ToolStatus::Unknown);
}

#[test]
fn tenth_crash_fails_the_turn() {
    let pure = Model("", &[("a", "pure")]);
    let mut given = vec![Say("hi")];
    for _ in 0..4 {
        given.extend([Crash, Crash, pure, Done("a")]);
    }
    given.extend([Crash, Crash]);
    fails_at_the_last_of(&given);
}
