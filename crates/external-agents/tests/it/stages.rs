//! Agents that never start, fall silent, or die: before their session, during a turn, between turns.

use std::time::Duration;

use windlass_core::backend::{BackendEnd, BackendErrorKind, BackendStatus, SessionChoice};

use crate::support::{BOTH, Tongue, World, prompt, text};

const ABORT: i32 = 6;

#[tokio::test]
async fn what_cannot_start_says_why() {
    let world = World::new(Tongue::Claude);
    let mut missing = world.spec("");
    missing.command = Some("no-such-agent".into());
    let error = world.backend().open(missing.clone()).await.err().unwrap();
    assert_eq!(error.kind, BackendErrorKind::SpawnFailed);
    assert!(error.message.contains("npm install"), "{error}");
    let error = world.backend().check(&missing).await.unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::SpawnFailed);

    let mut gone = world.spec("");
    gone.cwd = world.root().join("gone");
    let error = world.backend().open(gone).await.err().unwrap();
    assert_eq!(error.kind, BackendErrorKind::SpawnFailed);

    let mut odd = world.spec("");
    odd.session = SessionChoice::Resume {
        id: "--dangerous".to_owned(),
    };
    let error = world.backend().open(odd).await.err().unwrap();
    assert_eq!(error.kind, BackendErrorKind::BadInvocation);

    let session = world.open("").await;
    let (empty, _) = prompt(session.as_ref(), " \n").await;
    assert_eq!(empty.error_kind(), Some(BackendErrorKind::BadInvocation));
    let (good, _) = prompt(session.as_ref(), "say hi").await;
    assert_eq!(good.result, Ok(BackendEnd::Completed));
}

#[tokio::test]
async fn a_check_tells_the_version() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let checked = world.backend().check(&world.spec("")).await.unwrap();
        assert_eq!(checked.version, "1.2.3 (Stub)");
    }
}

/// The stage at which an agent dies, and the expected outcome.
struct Death {
    start: &'static str,
    orders: &'static str,
    kind: BackendErrorKind,
    is_aborted: bool,
    said: &'static str,
}

#[tokio::test]
async fn death_is_told_as_it_was_at_every_stage() {
    let killed = BackendErrorKind::Killed(ABORT);
    let deaths = [
        Death {
            start: "complain crashed; abort",
            orders: "say x",
            kind: killed,
            is_aborted: true,
            said: "",
        },
        Death {
            start: "complain bad flag; exit 1",
            orders: "say x",
            kind: BackendErrorKind::BadInvocation,
            is_aborted: false,
            said: "",
        },
        Death {
            start: "",
            orders: "say half; die",
            kind: killed,
            is_aborted: false,
            said: "half",
        },
        Death {
            start: "",
            orders: "say half; exit 0",
            kind: BackendErrorKind::Protocol,
            is_aborted: false,
            said: "half",
        },
        Death {
            start: "",
            orders: "say half; exit 3",
            kind: BackendErrorKind::Protocol,
            is_aborted: false,
            said: "half",
        },
    ];
    for tongue in BOTH {
        for death in &deaths {
            let world = World::new(tongue);
            let session = world.open(death.start).await;
            let (outcome, events) = prompt(session.as_ref(), death.orders).await;
            let what = format!("{tongue:?} {} / {}: {outcome:?}", death.start, death.orders);
            assert_eq!(outcome.error_kind(), Some(death.kind), "{what}");
            assert_eq!(outcome.aborted_signal, death.is_aborted, "{what}");
            assert_eq!(text(&events), death.said, "{what}");
            let exit = outcome.exit.unwrap();
            assert!(exit.is_whole, "{what}");
            assert_eq!(
                outcome.session_id.is_some(),
                death.start.is_empty(),
                "{what}"
            );
            assert_eq!(outcome.stderr.is_empty(), death.start.is_empty(), "{what}");
            assert_eq!(session.close().await, exit);
            assert_eq!(session.status(), BackendStatus::Failed, "{what}");
        }
    }
}

#[tokio::test]
async fn an_agent_that_dies_between_turns_tells_so_in_the_next() {
    let world = World::new(Tongue::Claude);
    let session = world.open("").await;
    // The end of the turn precedes its death.
    let (outcome, _) = prompt(session.as_ref(), "say hi").await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed));
    let (outcome, _) = prompt(session.as_ref(), "exit 0").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::Protocol));
    let (outcome, _) = prompt(session.as_ref(), "say hi").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::Closed));
}

#[tokio::test]
async fn silence_is_ended_and_says_what_was_seen_last() {
    for tongue in BOTH {
        for (start, orders, seen) in [
            ("stall", "say x", "nothing"),
            ("", "say x; tool t; stall", "the end of a call"),
            ("ignore", "say x; stall", "text"),
        ] {
            let world = World::new(tongue);
            let mut spec = world.spec(start);
            spec.inactivity_timeout = Some(Duration::from_secs(1));
            let session = world.backend().open(spec).await.unwrap();
            let (outcome, _) = prompt(session.as_ref(), orders).await;
            assert_eq!(
                outcome.error_kind(),
                Some(BackendErrorKind::Inactive),
                "{tongue:?} {outcome:?}"
            );
            let message = outcome.result.unwrap_err().message;
            assert!(message.ends_with(seen), "{tongue:?} {orders}: {message}");
            // The test ended it.
            assert!(!outcome.aborted_signal);
            assert!(outcome.exit.unwrap().is_whole);
            assert_eq!(session.status(), BackendStatus::Failed);
        }
    }
}

#[tokio::test]
async fn a_retry_that_was_announced_is_waited_for() {
    let world = World::new(Tongue::Claude);
    let mut spec = world.spec("");
    spec.inactivity_timeout = Some(Duration::from_millis(1000));
    let session = world.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "retry 600000; pause 3000; say on").await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{outcome:?}");
}

#[tokio::test]
async fn a_turn_that_takes_too_long_is_ended() {
    let world = World::new(Tongue::Claude);
    let mut spec = world.spec("");
    spec.turn_limit = Some(Duration::from_millis(1500));
    let session = world.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "say x; stall").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::TimeOver));
    assert!(outcome.exit.unwrap().is_whole);
}

#[tokio::test]
async fn a_process_that_we_end_because_it_closed_its_output_is_no_abort() {
    let world = World::new(Tongue::Claude);
    let session = world.open("close-output").await;
    let (outcome, _) = prompt(session.as_ref(), "say x").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::Protocol));
    assert!(!outcome.aborted_signal, "{outcome:?}");
    assert!(outcome.exit.unwrap().is_whole);
}

#[tokio::test]
async fn an_agent_that_never_falls_silent_is_asked_all_the_same() {
    let world = World::new(Tongue::Acp);
    let mut spec = world.spec("");
    let id = "2222c0de-0000-7000-8000-000000000001".to_owned();
    spec.session = SessionChoice::Resume { id };
    let session = world.backend().open(spec).await.unwrap();
    let turn = prompt(session.as_ref(), "say new");
    let turn = tokio::time::timeout(Duration::from_secs(60), turn).await;
    let (outcome, events) = turn.expect("it is asked");
    assert_eq!(outcome.result, Ok(BackendEnd::Completed));
    // Both halves arrive, regardless of the lines in between.
    assert!(text(&events).contains("ew"), "{}", text(&events));
}
