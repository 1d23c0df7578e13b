//! A chain of forks, each an orphan in a separate session, ends with its program and with the host.

use std::fs::File;
use std::path::Path;
use std::time::Duration;

use rustix::fs::{FlockOperation, flock};
use windlass_process::{Confinement, ShutdownStep};
use windlass_testkit::skipped;

use crate::host::ChainHost;
use crate::support::{LONG, TestSandbox, sandboxes, soon};

/// Starts a chain that holds a lock on the file `held`, which every process inherits: the lock is free when no process is left. The chain ends after
/// two minutes, so that a failed test leaves nothing.
pub(crate) const CHAIN: &str = r#"
perl -MPOSIX -e '
  open(HELD, ">", "held") and flock(HELD, 2) or die; open(UP, ">", "up") or die;
  my $end = time + 120;
  while (time < $end) { my $pid = fork; POSIX::_exit(0) if $pid; POSIX::setsid() if defined $pid; }
' < /dev/null > /dev/null 2>&1 &
until [ -e up ]; do :; done
"#;

fn can_start_chain() -> bool {
    let has_perl = Path::new("/usr/bin/perl").exists();
    if !has_perl {
        skipped("a chain of forks", "there is no perl");
    }
    has_perl
}

pub(crate) fn is_gone(root: &Path) -> bool {
    let held = File::open(root.join("held")).unwrap();
    flock(&held, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// The sandboxes that end a chain on this machine.
fn sandboxes_that_end_chains() -> Vec<TestSandbox> {
    let mut all_sandboxes = sandboxes();
    all_sandboxes.retain(|sandbox| can_start_chain() && ends_chains(sandbox.confinement));
    all_sandboxes
}

fn ends_chains(confinement: Confinement) -> bool {
    let ends = confinement.ends_every_process();
    if !ends {
        let what = format!("a chain of forks in {confinement:?}");
        skipped(&what, "this machine cannot end one");
    }
    ends
}

#[tokio::test]
async fn a_chain_ends_with_its_program() {
    for sandbox in sandboxes_that_end_chains() {
        let end = sandbox.run(CHAIN).await;
        assert!(end.status.unwrap().success(), "{:?}", sandbox.confinement);
        assert!(
            is_gone(&sandbox.root()) && end.all_ended,
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn a_chain_in_a_separate_user_namespace_ends_with_its_program() {
    for sandbox in sandboxes_that_end_chains() {
        let chain = CHAIN.replace("perl -M", "unshare --user perl -M");
        let probe = sandbox.run("unshare --user true").await;
        if !probe.status.unwrap().success() {
            skipped(
                "a chain in namespaces",
                "they cannot be made in the sandbox",
            );
            continue;
        }
        let end = sandbox.run(&chain).await;
        assert!(end.status.unwrap().success(), "{:?}", sandbox.confinement);
        assert!(
            is_gone(&sandbox.root()) && end.all_ended,
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn a_chain_ends_when_its_program_times_out() {
    for sandbox in sandboxes_that_end_chains() {
        let (mut program, _) = sandbox.script(&format!("{CHAIN} trap '' TERM; cat"));
        program.time = Some(Duration::from_millis(500));
        let mut running = program.start().await.unwrap();
        soon("the chain runs", || sandbox.root().join("up").exists());
        let end = running.end().await.unwrap();
        assert!(
            is_gone(&sandbox.root()) && end.all_ended,
            "{:?}",
            sandbox.confinement
        );
    }
}

#[tokio::test]
async fn a_chain_ends_when_its_program_is_stopped() {
    for sandbox in sandboxes_that_end_chains() {
        let (mut program, errors) = sandbox.script(&format!("{CHAIN} echo up; cat"));
        program.shutdown.0 = vec![(ShutdownStep::Terminate, LONG)];
        let mut running = crate::support::up(program, &errors).await;
        running.stop();
        let end = running.end().await.unwrap();
        assert!(
            is_gone(&sandbox.root()) && end.all_ended,
            "{:?}",
            sandbox.confinement
        );
    }
}

#[test]
fn a_chain_ends_with_a_killed_host() {
    for confinement in [Confinement::Bubblewrap, Confinement::Landlock] {
        if crate::support::is_supported(confinement)
            && can_start_chain()
            && ends_chains(confinement)
        {
            let mut host = ChainHost::start(confinement);
            host.kill();
            soon("the chain is gone", || is_gone(host.root()));
        }
    }
}
