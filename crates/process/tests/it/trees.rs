//! No process of a program is left when its end is reported, however they try to escape.

use windlass_process::{Confinement, adopt_orphans};
use windlass_testkit::{sleepers, unique_sleep};

use crate::alone::alone;
use crate::support::{NO_PROCESSES, TestSandbox, all_sandboxes, sandboxes, soon};

/// Leaves processes that have no parent, group, session or variable of the program: with `setsid -f`, and with two forks. It exits when they are
/// running.
fn daemonising(seconds: &str) -> String {
    format!(
        "env -i setsid -f /bin/sh -c ': > one; exec sleep {seconds}' > /dev/null 2>&1
         ( ( env -i setsid /bin/sh -c ': > two; sleep {seconds} & exec sleep {seconds}' < /dev/null > /dev/null 2>&1 & ) & )
         until [ -e one ] && [ -e two ]; do sleep 0.01; done"
    )
}

async fn check_daemons_are_gone(sandbox: &TestSandbox) {
    let seconds = unique_sleep();
    let end = sandbox.run(&daemonising(&seconds)).await;
    assert!(end.status.unwrap().success(), "{:?}", sandbox.confinement);
    assert!(end.all_ended, "{:?}", sandbox.confinement);
    // Without waiting: the end is reported only when no process is left.
    assert_eq!(
        sleepers(&seconds),
        NO_PROCESSES,
        "{:?}",
        sandbox.confinement
    );
    // The same for a program that is stopped.
    let seconds = unique_sleep();
    for name in ["one", "two"] {
        std::fs::remove_file(sandbox.root().join(name)).unwrap();
    }
    let script = format!("{}; echo up; exec sleep {seconds}", daemonising(&seconds));
    let mut running = sandbox.start_up(&script).await;
    soon("all sleep", || sleepers(&seconds).len() == 4);
    running.stop();
    assert!(
        running.end().await.unwrap().all_ended,
        "{:?}",
        sandbox.confinement
    );
    assert_eq!(
        sleepers(&seconds),
        NO_PROCESSES,
        "{:?}",
        sandbox.confinement
    );
}

#[tokio::test]
async fn daemons_are_gone_with_the_sandbox() {
    for sandbox in sandboxes() {
        check_daemons_are_gone(&sandbox).await;
    }
}

#[test]
fn daemons_are_gone_without_a_sandbox_if_the_host_adopts_orphans() {
    alone("trees::in_a_host_that_adopts_orphans");
}

/// In a separate process: orphans could belong to any concurrent call.
#[tokio::test]
#[ignore = "started by another test"]
async fn in_a_host_that_adopts_orphans() {
    adopt_orphans().unwrap();
    check_daemons_are_gone(&TestSandbox::new(Confinement::Unconfined)).await;
    let zombies = std::process::Command::new("ps")
        .args(["--no-headers", "-o", "stat", "--ppid"])
        .arg(std::process::id().to_string())
        .output()
        .unwrap();
    let zombies = String::from_utf8(zombies.stdout).unwrap();
    assert!(!zombies.contains('Z'), "{zombies}");
}

#[test]
fn orphan_of_unknown_origin_outlives_a_single_call() {
    alone("trees::in_a_host_with_two_calls");
}

#[tokio::test]
#[ignore = "started by another test"]
async fn in_a_host_with_two_calls() {
    adopt_orphans().unwrap();
    let (first, second) = (
        TestSandbox::new(Confinement::Unconfined),
        TestSandbox::new(Confinement::Unconfined),
    );
    let seconds = unique_sleep();
    let mut early = first.start_up("echo up; cat > /dev/null").await;
    let script = format!("{}; echo up; cat > /dev/null", daemonising(&seconds));
    let mut late = second.start_up(&script).await;
    soon("all sleep", || sleepers(&seconds).len() == 3);
    early.stop();
    assert!(early.end().await.unwrap().all_ended);
    assert_eq!(
        sleepers(&seconds).len(),
        3,
        "they may belong to the other call"
    );
    // A call that began later cannot have left them.
    first.run("exit 0").await;
    assert_eq!(sleepers(&seconds).len(), 3);
    late.stop();
    assert!(late.end().await.unwrap().all_ended);
    assert_eq!(sleepers(&seconds), NO_PROCESSES);
}

#[tokio::test]
async fn fork_storm_is_ended_completely() {
    for sandbox in all_sandboxes() {
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
        let mut running = sandbox.start_up(&script).await;
        soon("many sleep", || sleepers(&seconds).len() >= 200);
        running.stop();
        let end = running.end().await.unwrap();
        assert!(end.all_ended, "{:?}", sandbox.confinement);
        assert_eq!(
            sleepers(&seconds),
            NO_PROCESSES,
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn concurrent_program_is_not_affected() {
    for sandbox in all_sandboxes() {
        let (mine, others) = (unique_sleep(), unique_sleep());
        let mut other = sandbox
            .start_up(&format!("setsid sleep {others} & echo up; wait"))
            .await;
        soon("the process sleeps", || sleepers(&others).len() == 1);
        let ran = sandbox.run(&format!("setsid sleep {mine} & exit 0")).await;
        assert!(ran.all_ended);
        assert_eq!(sleepers(&mine), NO_PROCESSES, "{:?}", sandbox.confinement);
        assert_eq!(sleepers(&others).len(), 1, "{:?}", sandbox.confinement);
        other.stop();
        assert!(other.end().await.unwrap().all_ended);
    }
}
