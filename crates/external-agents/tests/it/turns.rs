//! Turns that succeed, fail, ask, and are interrupted; several in one process.

use std::time::Duration;

use tokio::sync::mpsc;
use windlass_core::backend::{
    BackendEnd, BackendErrorKind, BackendEvent, BackendNotice, BackendStatus, PermissionDecision,
    PermissionScope, SessionChoice, Steered,
};

use crate::support::{BOTH, Tongue, World, prompt, text};

#[tokio::test]
async fn one_process_serves_several_turns() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let session = world.open("").await;
        assert_eq!(session.status(), BackendStatus::Idle);
        let orders = "think hm; say hello; tool t1; say done; cost 0.5";
        let (outcome, events) = prompt(session.as_ref(), orders).await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{tongue:?}");
        assert_eq!(text(&events), "hellodone", "{tongue:?}");
        let started = events
            .iter()
            .filter(|event| matches!(event, BackendEvent::Started { .. }));
        assert_eq!(started.count(), 1);
        let calls = events.iter().filter(|event| {
            matches!(
                event,
                BackendEvent::ToolStarted(_) | BackendEvent::ToolCompleted(_)
            )
        });
        assert_eq!(calls.count(), 2, "{tongue:?}");
        let usage = outcome.usage.unwrap();
        assert_eq!(
            (usage.input_tokens, usage.cached_tokens, usage.output_tokens),
            (3, 1, 2)
        );
        assert_eq!(outcome.exit, None);
        assert!(outcome.is_fresh);

        let (second, events) = prompt(session.as_ref(), "say again; cost 0.75").await;
        assert_eq!(second.result, Ok(BackendEnd::Completed), "{tongue:?}");
        assert_eq!(text(&events), "again");
        assert_eq!(second.session_id, outcome.session_id);
        if tongue == Tongue::Claude {
            assert_eq!(usage.cost_usd, Some(0.5));
            assert_eq!(second.usage.unwrap().cost_usd, Some(0.25));
            assert_eq!(second.totals.cost_usd, Some(0.75));
        }
        assert_eq!(session.status(), BackendStatus::Idle);
        assert!(session.close().await.is_whole);
        assert_eq!(session.status(), BackendStatus::Cancelled);
        assert_eq!(session.close().await, session.close().await);
        let (late, _) = prompt(session.as_ref(), "say late").await;
        assert_eq!(late.error_kind(), Some(BackendErrorKind::Closed));
    }
}

#[tokio::test]
async fn the_session_is_the_one_that_was_chosen() {
    let world = World::new(Tongue::Claude);
    let spec = world.spec("");
    let chosen = spec.session.id().unwrap().to_owned();
    let session = world.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "say hi").await;
    assert_eq!(outcome.session_id, Some(chosen));
}

#[tokio::test]
async fn failures_have_their_kinds_and_the_session_stays() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let session = world.open("").await;
        let cases = [
            ("fail 401", BackendErrorKind::Auth),
            ("fail 503", BackendErrorKind::Server),
            ("limited", BackendErrorKind::RateLimit),
        ];
        for (orders, kind) in cases {
            let (outcome, events) = prompt(session.as_ref(), orders).await;
            assert_eq!(outcome.error_kind(), Some(kind), "{tongue:?} {orders}");
            assert_eq!(outcome.rate_limit_exit, kind == BackendErrorKind::RateLimit);
            assert_eq!(outcome.rate_limit_reset_at, None);
            // The program's own text about a failure is not an answer.
            assert_eq!(text(&events), "");
        }
        let (outcome, _) = prompt(session.as_ref(), "say well").await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{tongue:?}");
        assert!(!outcome.rate_limit_exit);
    }
}

#[tokio::test]
async fn a_limit_with_a_reset_time_tells_it() {
    let world = World::new(Tongue::Claude);
    let session = world.open("").await;
    let (outcome, events) = prompt(session.as_ref(), "limited 1800000000").await;
    assert!(outcome.rate_limit_exit);
    let reset_at = outcome.rate_limit_reset_at.unwrap();
    assert_eq!(reset_at.timestamp(), 1_800_000_000);
    let limit = BackendEvent::Notice(BackendNotice::Limit {
        reset_at: Some(reset_at),
    });
    assert!(events.contains(&limit));
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_not_the_process() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let session = world.open("").await;
        let (events, mut told) = mpsc::channel(16);
        let interrupting = async {
            // The agent has started its turn once it reports an event.
            while let Some(event) = told.recv().await {
                if matches!(event, BackendEvent::Text { .. }) {
                    break;
                }
            }
            assert_eq!(session.status(), BackendStatus::Running);
            let other = session.prompt("say no", mpsc::channel(1).0).await;
            assert_eq!(other.error_kind(), Some(BackendErrorKind::Busy));
            assert_eq!(session.steer("more").await, Ok(Steered::Rejected));
            session.interrupt().await.unwrap();
            while told.recv().await.is_some() {}
        };
        let turn = session.prompt("say begun; hang", events);
        let (outcome, ()) = tokio::join!(turn, interrupting);
        assert_eq!(outcome.result, Ok(BackendEnd::Interrupted), "{tongue:?}");
        let (next, events) = prompt(session.as_ref(), "say next").await;
        assert_eq!(next.result, Ok(BackendEnd::Completed), "{tongue:?}");
        assert_eq!(text(&events), "next");
        // Without a turn there is nothing to do.
        session.interrupt().await.unwrap();
    }
}

#[tokio::test]
async fn a_permission_is_asked_and_answered_once() {
    let allow = PermissionDecision::Allow {
        scope: PermissionScope::Once,
        arguments: None,
    };
    let deny = PermissionDecision::Deny {
        message: "no".to_owned(),
    };
    for tongue in BOTH {
        for (decision, claude, acp) in [
            (&allow, "\"allow\"", "\"yes\""),
            (&deny, "\"deny\"", "\"no\""),
        ] {
            let world = World::new(tongue);
            let mut spec = world.spec("");
            // A person may take any amount of time.
            spec.inactivity_timeout = Some(Duration::from_secs(3600));
            let session = world.backend().open(spec).await.unwrap();
            let (events, mut told) = mpsc::channel(16);
            let answering = async {
                let mut said = Vec::new();
                while let Some(event) = told.recv().await {
                    if let BackendEvent::Permission(request) = &event {
                        assert_eq!(request.call_id.as_deref(), Some("asked"));
                        let unknown = session.answer("other", decision.clone()).await;
                        assert_eq!(unknown.unwrap_err().kind, BackendErrorKind::UnknownRequest);
                        session.answer(&request.id, decision.clone()).await.unwrap();
                        let again = session.answer(&request.id, decision.clone()).await;
                        assert_eq!(again.unwrap_err().kind, BackendErrorKind::UnknownRequest);
                    }
                    said.push(event);
                }
                said
            };
            let (outcome, said) = tokio::join!(session.prompt("ask", events), answering);
            assert_eq!(outcome.result, Ok(BackendEnd::Completed));
            let expected = match tongue {
                Tongue::Claude => claude,
                Tongue::Acp => acp,
            };
            assert!(
                text(&said).contains(expected),
                "{tongue:?}: {}",
                text(&said)
            );
        }
    }
}

#[tokio::test]
async fn a_session_is_taken_up_and_its_history_is_not_told_again() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let mut spec = world.spec("");
        let id = "0199c0de-0000-7000-8000-000000000001".to_owned();
        spec.session = SessionChoice::Resume { id: id.clone() };
        spec.totals.cost_usd = Some(0.5);
        let session = world.backend().open(spec).await.unwrap();
        let (outcome, events) = prompt(session.as_ref(), "say new; cost 0.75").await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{tongue:?}");
        assert_eq!(outcome.session_id, Some(id));
        assert!(!outcome.is_fresh);
        assert_eq!(text(&events), "new", "{tongue:?}");
        if tongue == Tongue::Claude {
            assert_eq!(outcome.usage.unwrap().cost_usd, Some(0.25));
        }
    }
}

#[tokio::test]
async fn what_nobody_understands_is_told_and_the_turn_goes_on() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let session = world.open("garbage").await;
        let orders = "garbage; long 2000000; complain oops; say fine";
        let (outcome, events) = prompt(session.as_ref(), orders).await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{tongue:?}");
        assert_eq!(text(&events), "fine");
        let limit = World::settings().max_line_bytes;
        let cut = BackendEvent::Notice(BackendNotice::LineCut { limit });
        assert!(events.contains(&cut), "{tongue:?}");
        let raw = events
            .iter()
            .filter(|event| matches!(event, BackendEvent::Notice(BackendNotice::Raw { .. })));
        assert_eq!(raw.count(), 10, "{tongue:?}");
    }
}

#[tokio::test]
async fn a_flood_is_told_whole_to_a_slow_reader() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let session = world.open("").await;
        let (events, mut told) = mpsc::channel(1);
        let reading = async {
            let mut bytes = 0;
            while let Some(event) = told.recv().await {
                if let BackendEvent::Text { text, .. } = event {
                    bytes += text.len();
                    tokio::task::yield_now().await;
                }
            }
            bytes
        };
        let turn = session.prompt("flood 4000; complain-much 2000", events);
        let (outcome, bytes) = tokio::join!(turn, reading);
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{tongue:?}");
        assert_eq!(bytes, 4000 * 1024, "{tongue:?}");
        assert_eq!(outcome.stderr.len(), 4096);
    }
}

#[tokio::test]
async fn a_reader_that_does_not_read_keeps_nobody_from_closing() {
    for tongue in BOTH {
        let world = World::new(tongue);
        let session = world.open("").await;
        let (events, _kept) = mpsc::channel(1);
        let turn = session.prompt("flood 4000", events);
        let closing = async {
            while session.status() == BackendStatus::Idle {
                tokio::task::yield_now().await;
            }
            session.close().await
        };
        let (outcome, exit) = tokio::join!(turn, closing);
        assert_eq!(
            outcome.error_kind(),
            Some(BackendErrorKind::Cancelled),
            "{tongue:?}"
        );
        assert!(exit.is_whole);
    }
}

#[tokio::test]
async fn a_reader_that_is_gone_does_not_stop_the_turn() {
    let world = World::new(Tongue::Claude);
    let session = world.open("").await;
    let (events, told) = mpsc::channel(1);
    drop(told);
    let outcome = session.prompt("flood 1000; say on", events).await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed));
}
