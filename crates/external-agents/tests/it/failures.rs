//! Outcomes of processes that know no session, crash or refuse their arguments.

use windlass_core::backend::{
    Attempts, BackendErrorKind, BackendOutcome, BackendSpec, Next, SessionChoice,
};

use crate::support::{BOTH, Tongue, World, prompt};

const UNKNOWN: &str = "11111111-2222-4333-8444-555555555555";

/// Starts a process and prompts it once; returns the outcome and the step that follows from it.
async fn attempt(world: &World, spec: BackendSpec) -> (BackendOutcome, Next) {
    let choice = spec.session.clone();
    let session = world.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "say short").await;
    session.close().await;
    let next = Attempts::default().next(&choice, &outcome);
    (outcome, next)
}

#[tokio::test]
async fn an_unknown_session_is_refused_and_begun_anew() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let mut spec = world.spec("");
        spec.session = SessionChoice::Resume {
            id: UNKNOWN.to_owned(),
        };
        let (outcome, next) = attempt(&world, spec).await;
        let kind = outcome.error_kind();
        assert_eq!(kind, Some(BackendErrorKind::ResumeRefused), "{tongue:?}");
        assert_eq!(outcome.session_id, None, "{tongue:?}");
        assert_eq!(next, Next::StartFresh, "{tongue:?}");
    }
}

#[tokio::test]
async fn a_crash_before_the_session_is_repeated() {
    for tongue in BOTH {
        let world = World::new(tongue);
        std::fs::write(world.root().join("aborts-left"), "1").unwrap();
        let (outcome, next) = attempt(&world, world.spec("abort-times")).await;
        assert!(outcome.aborted_signal, "{tongue:?} {outcome:?}");
        assert_eq!(next, Next::Again, "{tongue:?}");
        let (outcome, next) = attempt(&world, world.spec("abort-times")).await;
        assert!(outcome.result.is_ok(), "{tongue:?} {outcome:?}");
        assert_eq!(next, Next::Done, "{tongue:?}");
    }
}

#[tokio::test]
async fn a_bad_argument_is_not_repeated() {
    let world = World::new(Tongue::Claude);
    let spec = world.spec("complain bad flag; exit 1");
    let (outcome, next) = attempt(&world, spec).await;
    let kind = outcome.error_kind();
    assert_eq!(kind, Some(BackendErrorKind::BadInvocation));
    assert_eq!(next, Next::Done);
}
