//! Agents that never start, fall silent, or die: before their session, during a turn, between turns.

use std::time::Duration;

use windlass_core::backend::{BackendEnd, BackendErrorKind, BackendStatus, SessionChoice};

use crate::support::{BOTH, StubFixture, StubProtocol, prompt, text};

const ABORT: i32 = 6;

#[tokio::test]
async fn failed_start_reports_the_reason() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let mut missing = fixture.spec("");
    missing.command = Some("no-such-agent".into());
    let error = fixture.backend().open(missing.clone()).await.err().unwrap();
    assert_eq!(error.kind, BackendErrorKind::SpawnFailed);
    assert!(error.message.contains("npm install"), "{error}");
    let error = fixture.backend().check(&missing).await.unwrap_err();
    assert_eq!(error.kind, BackendErrorKind::SpawnFailed);

    let mut gone = fixture.spec("");
    gone.cwd = fixture.root().join("gone");
    let error = fixture.backend().open(gone).await.err().unwrap();
    assert_eq!(error.kind, BackendErrorKind::SpawnFailed);

    let mut odd = fixture.spec("");
    odd.session = SessionChoice::Resume {
        id: "--dangerous".to_owned(),
    };
    let error = fixture.backend().open(odd).await.err().unwrap();
    assert_eq!(error.kind, BackendErrorKind::BadInvocation);

    let session = fixture.open("").await;
    let (empty, _) = prompt(session.as_ref(), " \n").await;
    assert_eq!(empty.error_kind(), Some(BackendErrorKind::BadInvocation));
    let (good, _) = prompt(session.as_ref(), "say hi").await;
    assert_eq!(good.result, Ok(BackendEnd::Completed));
}

#[tokio::test]
async fn check_reports_the_version() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let checked = fixture.backend().check(&fixture.spec("")).await.unwrap();
        assert_eq!(checked.version, "1.2.3 (Stub)");
    }
}

/// The stage at which an agent dies, and the expected outcome.
struct Death {
    start: &'static str,
    orders: &'static str,
    kind: BackendErrorKind,
    is_aborted: bool,
    text: &'static str,
}

#[tokio::test]
async fn exit_is_reported_accurately_at_every_stage() {
    let killed = BackendErrorKind::Killed(ABORT);
    let deaths = [
        Death {
            start: "complain crashed; abort",
            orders: "say x",
            kind: killed,
            is_aborted: true,
            text: "",
        },
        Death {
            start: "complain bad flag; exit 1",
            orders: "say x",
            kind: BackendErrorKind::BadInvocation,
            is_aborted: false,
            text: "",
        },
        Death {
            start: "",
            orders: "say half; die",
            kind: killed,
            is_aborted: false,
            text: "half",
        },
        Death {
            start: "",
            orders: "say half; exit 0",
            kind: BackendErrorKind::Protocol,
            is_aborted: false,
            text: "half",
        },
        Death {
            start: "",
            orders: "say half; exit 3",
            kind: BackendErrorKind::Protocol,
            is_aborted: false,
            text: "half",
        },
    ];
    for protocol in BOTH {
        for death in &deaths {
            let fixture = StubFixture::new(protocol);
            let session = fixture.open(death.start).await;
            let (outcome, events) = prompt(session.as_ref(), death.orders).await;
            let case = format!(
                "{protocol:?} {} / {}: {outcome:?}",
                death.start, death.orders
            );
            assert_eq!(outcome.error_kind(), Some(death.kind), "{case}");
            assert_eq!(outcome.aborted_signal, death.is_aborted, "{case}");
            assert_eq!(text(&events), death.text, "{case}");
            let exit = outcome.exit.unwrap();
            assert!(exit.is_whole, "{case}");
            assert_eq!(
                outcome.session_id.is_some(),
                death.start.is_empty(),
                "{case}"
            );
            assert_eq!(outcome.stderr.is_empty(), death.start.is_empty(), "{case}");
            assert_eq!(session.close().await, exit);
            assert_eq!(session.status(), BackendStatus::Failed, "{case}");
        }
    }
}

#[tokio::test]
async fn exit_between_turns_is_reported_in_the_next_turn() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let session = fixture.open("").await;
    // The end of the turn precedes its death.
    let (outcome, _) = prompt(session.as_ref(), "say hi").await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed));
    let (outcome, _) = prompt(session.as_ref(), "exit 0").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::Protocol));
    let (outcome, _) = prompt(session.as_ref(), "say hi").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::Closed));
}

#[tokio::test]
async fn inactive_agent_is_stopped_and_its_last_output_is_reported() {
    for protocol in BOTH {
        for (start, orders, seen) in [
            ("stall", "say x", "nothing"),
            ("", "say x; tool t; stall", "the end of a call"),
            ("ignore", "say x; stall", "text"),
        ] {
            let fixture = StubFixture::new(protocol);
            let mut spec = fixture.spec(start);
            spec.inactivity_timeout = Some(Duration::from_secs(1));
            let session = fixture.backend().open(spec).await.unwrap();
            let (outcome, _) = prompt(session.as_ref(), orders).await;
            assert_eq!(
                outcome.error_kind(),
                Some(BackendErrorKind::Inactive),
                "{protocol:?} {outcome:?}"
            );
            let message = outcome.result.unwrap_err().message;
            assert!(message.ends_with(seen), "{protocol:?} {orders}: {message}");
            // The test ended it.
            assert!(!outcome.aborted_signal);
            assert!(outcome.exit.unwrap().is_whole);
            assert_eq!(session.status(), BackendStatus::Failed);
        }
    }
}

#[tokio::test]
async fn announced_retry_is_awaited() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let mut spec = fixture.spec("");
    spec.inactivity_timeout = Some(Duration::from_millis(1000));
    let session = fixture.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "retry 600000; pause 3000; say on").await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{outcome:?}");
}

#[tokio::test]
async fn turn_is_stopped_at_its_deadline() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let mut spec = fixture.spec("");
    spec.turn_limit = Some(Duration::from_millis(1500));
    let session = fixture.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "say x; stall").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::TimeOver));
    assert!(outcome.exit.unwrap().is_whole);
}

#[tokio::test]
async fn process_stopped_after_closing_its_output_is_not_an_abort() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let session = fixture.open("close-output").await;
    let (outcome, _) = prompt(session.as_ref(), "say x").await;
    assert_eq!(outcome.error_kind(), Some(BackendErrorKind::Protocol));
    assert!(!outcome.aborted_signal, "{outcome:?}");
    assert!(outcome.exit.unwrap().is_whole);
}

#[tokio::test]
async fn host_requests_are_served_during_continuous_output() {
    let fixture = StubFixture::new(StubProtocol::Acp);
    let mut spec = fixture.spec("");
    let id = "2222c0de-0000-7000-8000-000000000001".to_owned();
    spec.session = SessionChoice::Resume { id };
    let session = fixture.backend().open(spec).await.unwrap();
    let turn = prompt(session.as_ref(), "say new");
    let turn = tokio::time::timeout(Duration::from_secs(60), turn).await;
    let (outcome, events) = turn.expect("it is asked");
    assert_eq!(outcome.result, Ok(BackendEnd::Completed));
    // Both halves arrive, regardless of the lines in between.
    assert!(text(&events).contains("ew"), "{}", text(&events));
}
