//! No process of a program is left when its end is reported, however they try to escape.

use windlass_process::{Confinement, adopt_orphans};
use windlass_testkit::{sleepers, unique_sleep};

use crate::alone::alone;
use crate::support::{NOBODY, World, sandboxes, soon, worlds};

/// Leaves processes that have no parent, group, session or variable of the program: with `setsid -f`, and with two forks. It exits when they are
/// running.
fn daemonising(seconds: &str) -> String {
    format!(
        "env -i setsid -f /bin/sh -c ': > one; exec sleep {seconds}' > /dev/null 2>&1
         ( ( env -i setsid /bin/sh -c ': > two; sleep {seconds} & exec sleep {seconds}' < /dev/null > /dev/null 2>&1 & ) & )
         until [ -e one ] && [ -e two ]; do sleep 0.01; done"
    )
}

async fn check_daemons_are_gone(world: &World) {
    let seconds = unique_sleep();
    let end = world.run(&daemonising(&seconds)).await;
    assert!(end.status.unwrap().success(), "{:?}", world.way);
    assert!(end.is_whole, "{:?}", world.way);
    // Without waiting: the end is reported only when no process is left.
    assert_eq!(sleepers(&seconds), NOBODY, "{:?}", world.way);
    // The same for a program that is stopped.
    let seconds = unique_sleep();
    for name in ["one", "two"] {
        std::fs::remove_file(world.root().join(name)).unwrap();
    }
    let script = format!("{}; echo up; exec sleep {seconds}", daemonising(&seconds));
    let mut running = world.start_up(&script).await;
    soon("all sleep", || sleepers(&seconds).len() == 4);
    running.stop();
    assert!(running.end().await.unwrap().is_whole, "{:?}", world.way);
    assert_eq!(sleepers(&seconds), NOBODY, "{:?}", world.way);
}

#[tokio::test]
async fn daemons_are_gone_with_the_sandbox() {
    for world in sandboxes() {
        check_daemons_are_gone(&world).await;
    }
}

#[test]
fn daemons_are_gone_without_a_sandbox_where_the_host_adopts_orphans() {
    alone("trees::in_a_host_that_adopts_orphans");
}

/// In a separate process: orphans could belong to any concurrent call.
#[tokio::test]
#[ignore = "started by another test"]
async fn in_a_host_that_adopts_orphans() {
    adopt_orphans().unwrap();
    check_daemons_are_gone(&World::of(Confinement::Unconfined)).await;
    let zombies = std::process::Command::new("ps")
        .args(["--no-headers", "-o", "stat", "--ppid"])
        .arg(std::process::id().to_string())
        .output()
        .unwrap();
    let zombies = String::from_utf8(zombies.stdout).unwrap();
    assert!(!zombies.contains('Z'), "{zombies}");
}

#[test]
fn an_orphan_is_not_ended_with_a_call_that_it_may_not_come_from() {
    alone("trees::in_a_host_with_two_calls");
}

#[tokio::test]
#[ignore = "started by another test"]
async fn in_a_host_with_two_calls() {
    adopt_orphans().unwrap();
    let (first, second) = (
        World::of(Confinement::Unconfined),
        World::of(Confinement::Unconfined),
    );
    let seconds = unique_sleep();
    let mut early = first.start_up("echo up; cat > /dev/null").await;
    let script = format!("{}; echo up; cat > /dev/null", daemonising(&seconds));
    let mut late = second.start_up(&script).await;
    soon("all sleep", || sleepers(&seconds).len() == 3);
    early.stop();
    assert!(early.end().await.unwrap().is_whole);
    assert_eq!(sleepers(&seconds).len(), 3, "they may be the other's");
    // A call that began later cannot have left them.
    first.run("exit 0").await;
    assert_eq!(sleepers(&seconds).len(), 3);
    late.stop();
    assert!(late.end().await.unwrap().is_whole);
    assert_eq!(sleepers(&seconds), NOBODY);
}

#[tokio::test]
async fn whoever_forks_and_forks_is_ended_whole() {
    for world in worlds() {
        let seconds = unique_sleep();
        let script = format!(
            "i=0; while [ $i -lt 200 ]; do
               case $((i % 4)) in
                 0) sleep {seconds} & ;; 1) setsid sleep {seconds} & ;; 2) (sleep {seconds} &) ;; 3) (setsid sleep {seconds} &) ;;
               esac
               i=$((i + 1))
             done
             echo up; while :; do sleep {seconds} & sleep 0.02; done"
        );
        let mut running = world.start_up(&script).await;
        soon("many sleep", || sleepers(&seconds).len() >= 200);
        running.stop();
        let end = running.end().await.unwrap();
        assert!(end.is_whole, "{:?}", world.way);
        assert_eq!(sleepers(&seconds), NOBODY, "{:?}", world.way);
    }
}

#[tokio::test]
async fn what_runs_beside_is_left_alone() {
    for world in worlds() {
        let (mine, others) = (unique_sleep(), unique_sleep());
        let mut beside = world
            .start_up(&format!("setsid sleep {others} & echo up; wait"))
            .await;
        soon("it sleeps", || sleepers(&others).len() == 1);
        let ran = world.run(&format!("setsid sleep {mine} & exit 0")).await;
        assert!(ran.is_whole);
        assert_eq!(sleepers(&mine), NOBODY, "{:?}", world.way);
        assert_eq!(sleepers(&others).len(), 1, "{:?}", world.way);
        beside.stop();
        assert!(beside.end().await.unwrap().is_whole);
    }
}
