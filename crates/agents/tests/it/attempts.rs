//! Prompts that are carried over refused sessions and crashes.

use tokio::sync::mpsc;
use windlass_agents::{Carried, carry};
use windlass_core::backend::{
    BackendEnd, BackendErrorKind, BackendEvent, MAX_ABORTS, SessionChoice,
};

use crate::support::{BOTH, Tongue, World, text};

const UNKNOWN: &str = "11111111-2222-4333-8444-555555555555";
const KNOWN: &str = "0199c0de-0000-7000-8000-000000000001";

/// Carries `say short`, or `say whole` where it has to begin anew. Returns the sessions that were tried, too.
async fn carried(
    world: &World,
    resume: Option<&str>,
    start: &str,
    fresh: Option<&str>,
) -> (Carried, Vec<SessionChoice>, Vec<BackendEvent>) {
    let mut spec = world.spec(start);
    if let Some(id) = resume {
        spec.session = SessionChoice::Resume { id: id.to_owned() };
    }
    let (events, mut told) = mpsc::channel(64);
    let mut tried = Vec::new();
    let backend = world.backend();
    let carrying = carry(
        backend.as_ref(),
        spec,
        "say short",
        fresh,
        events,
        |session| {
            tried.push(session.clone());
        },
    );
    let reading = async {
        let mut all = Vec::new();
        while let Some(event) = told.recv().await {
            all.push(event);
        }
        all
    };
    let (carried, events) = tokio::join!(carrying, reading);
    (carried, tried, events)
}

#[tokio::test]
async fn a_session_that_nobody_knows_is_begun_anew_once() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let (carried, tried, events) = carried(&world, Some(UNKNOWN), "", Some("say whole")).await;
        assert_eq!(
            carried.outcome.result,
            Ok(BackendEnd::Completed),
            "{tongue:?}"
        );
        assert!(carried.started_fresh && carried.outcome.is_fresh);
        assert_eq!(text(&events), "whole", "{tongue:?}");
        assert_ne!(carried.outcome.session_id.as_deref(), Some(UNKNOWN));
        assert!(tried[0].is_resume() && !tried[1].is_resume() && tried.len() == 2);
    }
}

#[tokio::test]
async fn without_a_whole_prompt_a_refused_session_stays_refused() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let (carried, tried, _) = carried(&world, Some(UNKNOWN), "", None).await;
        let outcome = &carried.outcome;
        assert_eq!(
            outcome.error_kind(),
            Some(BackendErrorKind::ResumeRefused),
            "{tongue:?}"
        );
        assert_eq!(outcome.session_id, None, "a refused session is never told");
        assert!(!carried.started_fresh);
        assert_eq!(tried.len(), 1);
    }
}

#[tokio::test]
async fn a_crash_before_the_session_is_tried_again_so_many_times() {
    for tongue in BOTH {
        for (aborts, is_good) in [(MAX_ABORTS - 1, true), (MAX_ABORTS, false)] {
            let world = World::new(tongue);
            std::fs::write(world.root().join("aborts-left"), aborts.to_string()).unwrap();
            let (carried, tried, _) = carried(&world, None, "abort-times", None).await;
            let outcome = &carried.outcome;
            assert_eq!(outcome.result.is_ok(), is_good, "{tongue:?} {outcome:?}");
            assert_eq!(outcome.aborted_signal, !is_good);
            assert_eq!(tried.len(), MAX_ABORTS as usize);
        }
    }
}

#[tokio::test]
async fn a_crash_of_a_resume_begins_anew() {
    let world = World::new(Tongue::Claude);
    let (carried, tried, events) =
        carried(&world, Some(KNOWN), "abort-on-resume", Some("say whole")).await;
    assert_eq!(carried.outcome.result, Ok(BackendEnd::Completed));
    assert!(carried.started_fresh);
    assert_eq!(text(&events), "whole");
    assert_eq!(tried.len(), 2);
}

#[tokio::test]
async fn a_failure_of_another_kind_is_not_tried_again() {
    let world = World::new(Tongue::Claude);
    let (carried, tried, _) = carried(
        &world,
        Some(KNOWN),
        "complain bad flag; exit 1",
        Some("say whole"),
    )
    .await;
    assert_eq!(
        carried.outcome.error_kind(),
        Some(BackendErrorKind::BadInvocation)
    );
    assert_eq!(tried.len(), 1);
    assert!(carried.session.is_none());
}
