//! Turns that succeed, fail, ask, and are interrupted; several in one process.

use std::time::Duration;

use tokio::sync::mpsc;
use windlass_core::backend::{
    BackendEnd, BackendErrorKind, BackendEvent, BackendNotice, BackendStatus, PermissionDecision,
    SessionChoice, Steered,
};

use crate::support::{BOTH, StubFixture, StubProtocol, prompt, text};

#[tokio::test]
async fn one_process_serves_several_turns() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let session = fixture.open("").await;
        assert_eq!(session.status(), BackendStatus::Idle);
        let orders = "think hm; say hello; tool t1; say done; cost 0.5";
        let (outcome, events) = prompt(session.as_ref(), orders).await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{protocol:?}");
        assert_eq!(text(&events), "hellodone", "{protocol:?}");
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
        assert_eq!(calls.count(), 2, "{protocol:?}");
        let usage = outcome.usage.unwrap();
        assert_eq!(
            (usage.input_tokens, usage.cached_tokens, usage.output_tokens),
            (3, 1, 2)
        );
        assert_eq!(outcome.exit, None);
        assert!(outcome.is_fresh);

        let (second, events) = prompt(session.as_ref(), "say again; cost 0.75").await;
        assert_eq!(second.result, Ok(BackendEnd::Completed), "{protocol:?}");
        assert_eq!(text(&events), "again");
        assert_eq!(second.session_id, outcome.session_id);
        if protocol == StubProtocol::Claude {
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
async fn chosen_session_id_is_used() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let spec = fixture.spec("");
    let chosen = spec.session.id().unwrap().to_owned();
    let session = fixture.backend().open(spec).await.unwrap();
    let (outcome, _) = prompt(session.as_ref(), "say hi").await;
    assert_eq!(outcome.session_id, Some(chosen));
}

#[tokio::test]
async fn failures_have_a_kind_and_the_session_stays_open() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let session = fixture.open("").await;
        let cases = [
            ("fail 401", BackendErrorKind::Auth),
            ("fail 503", BackendErrorKind::Server),
            ("limited", BackendErrorKind::RateLimit),
        ];
        for (orders, kind) in cases {
            let (outcome, events) = prompt(session.as_ref(), orders).await;
            assert_eq!(outcome.error_kind(), Some(kind), "{protocol:?} {orders}");
            assert_eq!(outcome.rate_limit_exit, kind == BackendErrorKind::RateLimit);
            assert_eq!(outcome.rate_limit_reset_at, None);
            // The program's own text about a failure is not an answer.
            assert_eq!(text(&events), "");
        }
        let (outcome, _) = prompt(session.as_ref(), "say well").await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{protocol:?}");
        assert!(!outcome.rate_limit_exit);
    }
}

#[tokio::test]
async fn rate_limit_reports_its_reset_time() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let session = fixture.open("").await;
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
async fn interrupt_ends_the_turn_and_not_the_process() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let session = fixture.open("").await;
        let (events, mut received) = mpsc::channel(16);
        let interrupting = async {
            // The agent has started its turn once it reports an event.
            while let Some(event) = received.recv().await {
                if matches!(event, BackendEvent::Text { .. }) {
                    break;
                }
            }
            assert_eq!(session.status(), BackendStatus::Running);
            let other = session.prompt("say no", mpsc::channel(1).0).await;
            assert_eq!(other.error_kind(), Some(BackendErrorKind::Busy));
            assert_eq!(session.steer("more").await, Ok(Steered::Rejected));
            session.interrupt().await.unwrap();
            while received.recv().await.is_some() {}
        };
        let turn = session.prompt("say begun; hang", events);
        let (outcome, ()) = tokio::join!(turn, interrupting);
        assert_eq!(outcome.result, Ok(BackendEnd::Interrupted), "{protocol:?}");
        let (next, events) = prompt(session.as_ref(), "say next").await;
        assert_eq!(next.result, Ok(BackendEnd::Completed), "{protocol:?}");
        assert_eq!(text(&events), "next");
        // Without a turn there is nothing to do.
        session.interrupt().await.unwrap();
    }
}

#[tokio::test]
async fn permission_is_requested_and_answered_once() {
    let allow = PermissionDecision::Allow;
    let deny = PermissionDecision::Deny {
        message: "no".to_owned(),
    };
    for protocol in BOTH {
        for (decision, claude, acp) in [
            (&allow, "\"allow\"", "\"yes\""),
            (&deny, "\"deny\"", "\"no\""),
        ] {
            let fixture = StubFixture::new(protocol);
            let mut spec = fixture.spec("");
            // A person may take any amount of time.
            spec.inactivity_timeout = Some(Duration::from_secs(3600));
            let session = fixture.backend().open(spec).await.unwrap();
            let (events, mut received) = mpsc::channel(16);
            let answering = async {
                let mut events = Vec::new();
                while let Some(event) = received.recv().await {
                    if let BackendEvent::Permission(request) = &event {
                        assert_eq!(request.call_id.as_deref(), Some("asked"));
                        let unknown = session.answer("other", decision.clone()).await;
                        assert_eq!(unknown.unwrap_err().kind, BackendErrorKind::UnknownRequest);
                        session.answer(&request.id, decision.clone()).await.unwrap();
                        let again = session.answer(&request.id, decision.clone()).await;
                        assert_eq!(again.unwrap_err().kind, BackendErrorKind::UnknownRequest);
                    }
                    events.push(event);
                }
                events
            };
            let (outcome, events) = tokio::join!(session.prompt("ask", events), answering);
            assert_eq!(outcome.result, Ok(BackendEnd::Completed));
            let expected = match protocol {
                StubProtocol::Claude => claude,
                StubProtocol::Acp => acp,
            };
            assert!(
                text(&events).contains(expected),
                "{protocol:?}: {}",
                text(&events)
            );
        }
    }
}

#[tokio::test]
async fn resumed_session_does_not_repeat_its_history() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let mut spec = fixture.spec("");
        let id = "0199c0de-0000-7000-8000-000000000001".to_owned();
        spec.session = SessionChoice::Resume { id: id.clone() };
        spec.totals.cost_usd = Some(0.5);
        let session = fixture.backend().open(spec).await.unwrap();
        let (outcome, events) = prompt(session.as_ref(), "say new; cost 0.75").await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{protocol:?}");
        assert_eq!(outcome.session_id, Some(id));
        assert!(!outcome.is_fresh);
        assert_eq!(text(&events), "new", "{protocol:?}");
        if protocol == StubProtocol::Claude {
            assert_eq!(outcome.usage.unwrap().cost_usd, Some(0.25));
        }
    }
}

#[tokio::test]
async fn unknown_messages_are_reported_and_the_turn_continues() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let session = fixture.open("garbage").await;
        let orders = "garbage; long 2000000; complain oops; say fine";
        let (outcome, events) = prompt(session.as_ref(), orders).await;
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{protocol:?}");
        assert_eq!(text(&events), "fine");
        let limit = StubFixture::settings().max_line_bytes;
        let cut = BackendEvent::Notice(BackendNotice::LineCut { limit });
        assert!(events.contains(&cut), "{protocol:?}");
        let raw = events
            .iter()
            .filter(|event| matches!(event, BackendEvent::Notice(BackendNotice::Raw { .. })));
        assert_eq!(raw.count(), 10, "{protocol:?}");
    }
}

#[tokio::test]
async fn slow_reader_receives_a_flood_completely() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let session = fixture.open("").await;
        let (events, mut received) = mpsc::channel(1);
        let reading = async {
            let mut bytes = 0;
            while let Some(event) = received.recv().await {
                if let BackendEvent::Text { text, .. } = event {
                    bytes += text.len();
                    tokio::task::yield_now().await;
                }
            }
            bytes
        };
        let turn = session.prompt("flood 4000; complain-much 2000", events);
        let (outcome, bytes) = tokio::join!(turn, reading);
        assert_eq!(outcome.result, Ok(BackendEnd::Completed), "{protocol:?}");
        assert_eq!(bytes, 4000 * 1024, "{protocol:?}");
        assert_eq!(outcome.stderr.len(), 4096);
    }
}

#[tokio::test]
async fn stalled_reader_does_not_prevent_closing() {
    for protocol in BOTH {
        let fixture = StubFixture::new(protocol);
        let session = fixture.open("").await;
        let (events, _reader) = mpsc::channel(1);
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
            "{protocol:?}"
        );
        assert!(exit.is_whole);
    }
}

#[tokio::test]
async fn dropped_reader_does_not_stop_the_turn() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let session = fixture.open("").await;
    let (events, received) = mpsc::channel(1);
    drop(received);
    let outcome = session.prompt("flood 1000; say on", events).await;
    assert_eq!(outcome.result, Ok(BackendEnd::Completed));
}
