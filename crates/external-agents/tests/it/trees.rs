//! No process of an agent's tree is left when its exit is reported.

use tokio::sync::mpsc;
use windlass_core::backend::{BackendErrorKind, BackendEvent, BackendStatus};
use windlass_process::{Confinement, adopt_orphans};
use windlass_testkit::unique_sleep;

use crate::support::{BOTH, NO_PROCESSES, StubFixture, StubProtocol, processes_with, prompt};

/// All kinds of confinement that this machine supports.
fn fixtures(protocol: StubProtocol) -> Vec<StubFixture> {
    // Without a sandbox, a process that leaves its group and session is found because it is reparented to us.
    let _ = adopt_orphans();
    let sandboxes = [Confinement::Bubblewrap, Confinement::Landlock].into_iter();
    let mut fixtures: Vec<_> = sandboxes
        .filter_map(|confinement| StubFixture::confined(protocol, confinement))
        .collect();
    fixtures.push(StubFixture::new(protocol));
    fixtures
}

#[tokio::test(flavor = "multi_thread")]
async fn no_process_remains_of_a_closed_or_dead_agent() {
    for protocol in BOTH {
        for fixture in fixtures(protocol) {
            for (start, last) in [
                ("", "hang"),
                ("ignore", "hang"),
                ("ignore", "stall"),
                ("", "die"),
                ("", "exit 0"),
            ] {
                let seconds = unique_sleep();
                let session = fixture.open(start).await;
                let (events, mut received) = mpsc::channel(16);
                let orders = format!("fork {seconds}; say up; {last}");
                let closing = async {
                    while let Some(event) = received.recv().await {
                        if matches!(event, BackendEvent::Text { .. })
                            && last != "die"
                            && last != "exit 0"
                        {
                            break;
                        }
                    }
                    session.close().await
                };
                let (outcome, exit) = tokio::join!(session.prompt(&orders, events), closing);
                let case = format!("{protocol:?} {start} {last}: {outcome:?}");
                assert!(exit.is_whole, "{case}");
                assert!(outcome.result.is_err(), "{case}");
                if last == "hang" || last == "stall" {
                    assert_eq!(
                        outcome.error_kind(),
                        Some(BackendErrorKind::Cancelled),
                        "{case}"
                    );
                    assert_eq!(session.status(), BackendStatus::Cancelled, "{case}");
                }
                assert_eq!(processes_with(&seconds), NO_PROCESSES, "{case}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_session_ends_its_process() {
    let fixture = StubFixture::new(StubProtocol::Claude);
    let seconds = unique_sleep();
    let session = fixture.open("").await;
    let (outcome, _) = prompt(session.as_ref(), &format!("fork {seconds}; say up")).await;
    assert!(outcome.result.is_ok());
    // The second of them may not have called `exec` yet.
    while processes_with(&seconds).len() != 2 {
        tokio::task::yield_now().await;
    }
    drop(session);
    while processes_with(&seconds) != NO_PROCESSES {
        tokio::task::yield_now().await;
    }
}
