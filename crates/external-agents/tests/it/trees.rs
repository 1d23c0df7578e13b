//! No process of an agent's tree is left when its exit is reported.

use tokio::sync::mpsc;
use windlass_core::backend::{BackendErrorKind, BackendEvent, BackendStatus};
use windlass_process::{Confinement, adopt_orphans};
use windlass_testkit::unique_sleep;

use crate::support::{BOTH, NOBODY, Tongue, World, processes_with, prompt};

/// All kinds of confinement that this machine supports.
fn worlds(tongue: Tongue) -> Vec<World> {
    // Without a sandbox, a process that leaves its group and session is found because it is reparented to us.
    let _ = adopt_orphans();
    let sandboxes = [Confinement::Bubblewrap, Confinement::Landlock].into_iter();
    let mut worlds: Vec<_> = sandboxes
        .filter_map(|way| World::confined(tongue, way))
        .collect();
    worlds.push(World::new(tongue));
    worlds
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_is_left_of_an_agent_that_is_closed_or_dies() {
    for tongue in BOTH {
        for world in worlds(tongue) {
            for (start, last) in [
                ("", "hang"),
                ("ignore", "hang"),
                ("ignore", "stall"),
                ("", "die"),
                ("", "exit 0"),
            ] {
                let seconds = unique_sleep();
                let session = world.open(start).await;
                let (events, mut told) = mpsc::channel(16);
                let orders = format!("fork {seconds}; say up; {last}");
                let closing = async {
                    while let Some(event) = told.recv().await {
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
                let what = format!("{tongue:?} {start} {last}: {outcome:?}");
                assert!(exit.is_whole, "{what}");
                assert!(outcome.result.is_err(), "{what}");
                if last == "hang" || last == "stall" {
                    assert_eq!(
                        outcome.error_kind(),
                        Some(BackendErrorKind::Cancelled),
                        "{what}"
                    );
                    assert_eq!(session.status(), BackendStatus::Cancelled, "{what}");
                }
                assert_eq!(processes_with(&seconds), NOBODY, "{what}");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_is_dropped_ends_its_process() {
    let world = World::new(Tongue::Claude);
    let seconds = unique_sleep();
    let session = world.open("").await;
    let (outcome, _) = prompt(session.as_ref(), &format!("fork {seconds}; say up")).await;
    assert!(outcome.result.is_ok());
    // The second of them may not have called `exec` yet.
    while processes_with(&seconds).len() != 2 {
        tokio::task::yield_now().await;
    }
    drop(session);
    while processes_with(&seconds) != NOBODY {
        tokio::task::yield_now().await;
    }
}
