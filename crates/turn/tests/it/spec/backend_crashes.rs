//! A process that stops while an external agent executes a turn.

use windlass_core::backend::{BackendEnd, BackendErrorKind};

use super::backend::{
    Backend, agent_plan, asks, at_work, calls, done, ends, established, fails, text,
};
use crate::world::ThreadAction::*;
use crate::world::World;

#[test]
fn unestablished_session_gets_the_prompt_again() {
    let mut world = World::after(agent_plan(), &[Say("hi")]);
    assert_eq!(
        world.play(Crash),
        [
            "turn.resumed",
            "backend.completed",
            "backend.notice",
            "backend.started",
            "=> stop backend",
            "=> backend new History"
        ]
    );
    assert_eq!(world.thread.backend_prompt(9).unwrap().text, "hi");
}

#[test]
fn established_session_is_resumed() {
    let mut world = at_work();
    world.says(text("half"));
    world.says(calls("a"));
    world.says(text("an answer"));
    world.play(Steer("hurry"));
    assert_eq!(
        world.play(Crash),
        [
            "turn.resumed",
            "tool.completed",
            "output.message.completed",
            "backend.completed",
            "backend.started",
            "=> stop backend",
            "=> backend resume s1 GoOn"
        ]
    );
    let prompt = world.thread.backend_prompt(9).unwrap().text;
    assert!(prompt.ends_with("hurry"), "{prompt}");
    let transcript = world.transcript();
    assert!(
        transcript[2].contains("outcome is unknown"),
        "{transcript:?}"
    );
    // The agent does not know the session: it receives the whole conversation, including this turn.
    let refused = world.ends_with(fails(BackendErrorKind::ResumeRefused));
    assert_eq!(refused.last().unwrap(), "=> backend new History");
    let prompt = world.thread.backend_prompt(10_000).unwrap().text;
    assert!(
        prompt.contains("half") && prompt.ends_with("hurry"),
        "{prompt}"
    );
}

#[test]
fn three_crashes_in_a_row_are_too_many() {
    let mut world = at_work();
    world.play(Crash);
    world.says(established("s1"));
    world.play(Crash);
    // A call that comes to its end shows that the turn gets on.
    world.says(established("s1"));
    world.says(calls("a"));
    world.says(done("a"));
    world.play(Crash);
    world.play(Crash);
    let end = world.play(Crash);
    assert!(end.contains(&"turn.failed".to_owned()), "{end:?}");
}

#[test]
fn orderly_stop_is_not_a_crash() {
    let mut world = at_work();
    for _ in 0..5 {
        let again = world.play(Restart);
        assert!(again.contains(&"backend.started".to_owned()), "{again:?}");
        world.says(established("s1"));
    }
}

#[test]
fn approval_is_still_pending_after_a_restart() {
    let mut world = at_work();
    world.says(asks("r1", Some("a")));
    for _ in 0..5 {
        assert_eq!(world.play(Crash)[0], "turn.resumed");
        assert!(world.pending().is_empty(), "no process runs meanwhile");
    }
    assert_eq!(
        world.play(Allow("a")),
        [
            "approval.decided",
            "tool.completed",
            "backend.completed",
            "backend.started",
            "=> backend resume s1 GoOn"
        ]
    );
    // The backend asks for the same again: it was decided.
    world.says(established("s1"));
    world.says(calls("b"));
    assert_eq!(
        world.says(asks("r2", Some("b"))),
        [
            "approval.required",
            "approval.decided",
            "=> answer r2 Allow"
        ]
    );
    world.says(done("b"));
    // The decision applies once: a further request requires a new decision.
    world.says(calls("c"));
    assert_eq!(world.says(asks("r3", Some("c"))), ["approval.required"]);
}

#[test]
fn denial_after_a_restart_applies() {
    let mut world = at_work();
    world.says(asks("r1", Some("a")));
    world.play(Crash);
    world.play(Deny("a"));
    world.says(established("s1"));
    assert_eq!(
        world.says(asks("r2", Some("b"))).last().unwrap(),
        "=> answer r2 Deny"
    );
    world.ends_with(ends(BackendEnd::Completed));
}

#[test]
fn turn_is_interrupted_while_its_process_is_gone() {
    let mut world = at_work();
    world.says(asks("r1", Some("a")));
    world.play(Crash);
    assert_eq!(
        world.play(Interrupt),
        [
            "turn.interrupt_requested",
            "approval.decided",
            "tool.completed",
            "backend.completed",
            "turn.cancelled",
            "session.idled"
        ]
    );
}
