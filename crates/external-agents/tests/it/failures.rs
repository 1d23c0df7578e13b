//! Outcomes of processes that know no session, crash or refuse their arguments.

use windlass_core::backend::{
    Attempts, BackendErrorKind, BackendOutcome, BackendSpec, Next, SessionChoice,
};

use crate::support::{BOTH, StubFixture, StubProtocol, prompt};

const UNKNOWN: &str = "11111111-2222-4333-8444-555555555555";

/// Starts a process and prompts it once; returns the outcome and the step that follows from it.
async fn attempt(fixture: &StubFixture, spec: BackendSpec) -> (BackendOutcome, Next) {
    let choice = spec.session.clone();
    let session = fixture.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "say short").await;
    session.close().await;
    let next = Attempts::default().next(&choice, &outcome);
    (outcome, next)
}

#[tokio::test]
async fn unknown_session_is_replaced_by_a_new_one() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let mut spec = fixture.spec("");
        spec.session = SessionChoice::Resume {
            id: UNKNOWN.to_owned(),
        };
        let (outcome, next) = attempt(&fixture, spec).await;
        let kind = outcome.error_kind();
        assert_eq!(kind, Some(BackendErrorKind::ResumeRefused), "{protocol:?}");
        assert_eq!(outcome.session_id, None, "{protocol:?}");
        assert_eq!(next, Next::StartFresh, "{protocol:?}");
    }
}

#[tokio::test]
async fn crash_before_the_session_is_retried() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        std::fs::write(fixture.root().join("aborts-left"), "1").unwrap();
        let (outcome, next) = attempt(&fixture, fixture.spec("abort-times")).await;
        assert!(outcome.aborted_signal, "{protocol:?} {outcome:?}");
        assert_eq!(next, Next::Again, "{protocol:?}");
        let (outcome, next) = attempt(&fixture, fixture.spec("abort-times")).await;
        assert!(outcome.result.is_ok(), "{protocol:?} {outcome:?}");
        assert_eq!(next, Next::Done, "{protocol:?}");
    }
}

#[tokio::test]
async fn invalid_argument_is_not_retried() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let spec = fixture.spec("complain bad flag; exit 1");
    let (outcome, next) = attempt(&fixture, spec).await;
    let kind = outcome.error_kind();
    assert_eq!(kind, Some(BackendErrorKind::BadInvocation));
    assert_eq!(next, Next::Done);
}
