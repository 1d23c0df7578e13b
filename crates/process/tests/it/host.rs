//! A program ends with the host that started it, however the host ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use windlass_process::{Confinement, Records, adopt_orphans, end_leftovers};
use windlass_testkit::skipped;
use windlass_testkit::{pids_of, sleepers, unique_sleep};

use crate::chains::CHAIN;
use crate::support::{NOBODY, World, birth, is_here, soon};

const TOLD: &str = "WINDLASS_TEST_HOST";

/// A child, an orphaned grandchild, and a process in a separate session; none of them exits on SIGTERM.
fn stubborn_family(seconds: &str) -> String {
    format!("trap '' TERM; sleep {seconds} & (sleep {seconds} &); setsid sleep {seconds} &")
}

/// Not a test itself: the process that other tests kill.
#[tokio::test]
#[ignore = "started by another test"]
async fn host() {
    let Ok(told) = std::env::var(TOLD) else {
        return;
    };
    let (way, seconds, owner, records): (Confinement, String, String, PathBuf) =
        serde_json::from_str(&told).unwrap();
    adopt_orphans().unwrap();
    let world = World::of(way);
    let tree = stubborn_family(&seconds);
    let script = format!("{tree} env -i setsid -f sleep {seconds} > /dev/null 2>&1; wait; cat");
    let (mut program, _) = world.script(&script);
    program.sandbox.owner = Some(owner);
    program.sandbox.records = Some(Records::open(records).unwrap());
    let mut running = program.start().await.unwrap();
    let end = running.end().await;
    panic!("the program ended: {end:?}");
}

/// A separate process that runs a family of stubborn processes and a daemon.
struct Host {
    process: Child,
    seconds: String,
    records: TempDir,
}

impl Host {
    fn start(way: Confinement, owner: &str) -> Self {
        let (seconds, records) = (unique_sleep(), tempfile::tempdir().unwrap());
        let told = serde_json::json!([way, seconds, owner, records.path()]);
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host::host", "--ignored"])
            .env(TOLD, told.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        soon("the family is there", || sleepers(&seconds).len() == 4);
        Self {
            process,
            seconds,
            records,
        }
    }

    /// Waits until all processes are recorded: a process that starts just before a kill is not.
    fn recorded(self) -> Self {
        soon("all are recorded", || {
            let recorded = recorded(self.records.path());
            let pids = sleepers(&self.seconds);
            let mut lines = pids.iter().map(|pid| format!("{pid} {}\n", birth(*pid)));
            lines.all(|line| recorded.contains(&line))
        });
        self
    }

    /// Kills only the process.
    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// A separate process that runs a chain of forks.
pub(crate) struct ChainHost {
    process: Child,
    root: TempDir,
}

impl ChainHost {
    pub(crate) fn start(way: Confinement) -> Self {
        let root = tempfile::tempdir().unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host::chain_host", "--ignored"])
            .env(TOLD, serde_json::json!([way, root.path()]).to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        soon("the chain is there", || root.path().join("up").exists());
        Self { process, root }
    }

    pub(crate) fn root(&self) -> &Path {
        self.root.path()
    }

    pub(crate) fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

/// Not a test itself: the process that another test kills.
#[tokio::test]
#[ignore = "started by another test"]
async fn chain_host() {
    let Ok(told) = std::env::var(TOLD) else {
        return;
    };
    let (way, root): (Confinement, PathBuf) = serde_json::from_str(&told).unwrap();
    adopt_orphans().unwrap();
    let (program, _) = World::at(way, root).script(&format!("{CHAIN} cat"));
    let mut running = program.start().await.unwrap();
    let end = running.end().await;
    panic!("the program ended: {end:?}");
}

fn recorded(directory: &Path) -> String {
    let files = fs::read_dir(directory).unwrap().flatten();
    files
        .filter_map(|file| fs::read_to_string(file.path()).ok())
        .collect()
}

#[test]
fn in_bubblewrap_everybody_goes_with_a_killed_host() {
    if !is_here(Confinement::Bubblewrap) {
        return;
    }
    let mut host = Host::start(Confinement::Bubblewrap, "test");
    host.kill();
    soon("nobody is left", || sleepers(&host.seconds).is_empty());
}

/// Since version 6.12, the kernel can confine signals to a Landlock domain.
fn keeps_signals_inside() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[test]
fn under_landlock_everybody_goes_with_a_killed_host_and_nobody_else() {
    if !is_here(Confinement::Landlock) {
        return;
    }
    if !keeps_signals_inside() {
        skipped(
            "a daemon under landlock goes with a killed host",
            "the kernel is older than 6.12",
        );
        return;
    }
    let mut beside = Host::start(Confinement::Landlock, "test");
    let mut host = Host::start(Confinement::Landlock, "test");
    host.kill();
    soon("nobody is left", || sleepers(&host.seconds).is_empty());
    assert_eq!(
        sleepers(&beside.seconds).len(),
        4,
        "those of another host stay"
    );
    beside.kill();
    soon("nobody is left", || sleepers(&beside.seconds).is_empty());
}

#[test]
fn without_a_sandbox_the_family_goes_with_a_killed_host_and_a_daemon_at_the_next_start() {
    let mut host = Host::start(Confinement::Unconfined, "test").recorded();
    host.kill();
    soon("the family is gone", || sleepers(&host.seconds).len() == 1);
    let left = Records::open(host.records.path()).unwrap().end_leftovers();
    let left = left.unwrap();
    assert_eq!((left.ended, left.is_whole), (1, true), "{left:?}");
    assert_eq!(sleepers(&host.seconds), NOBODY);
    assert_eq!(recorded(host.records.path()), "", "and it is forgotten");
}

/// Kills the guard of a host's program, so that nothing ends the program.
fn kill_watcher(owner: &str) {
    let watcher = pids_of(|command| {
        let text = String::from_utf8_lossy(command);
        text.contains("windlass-guard") && text.contains(&format!("WINDLASS_CALL={owner}."))
    });
    assert_eq!(watcher.len(), 1);
    let killed = Command::new("kill")
        .arg("-KILL")
        .arg(watcher[0].to_string())
        .status();
    assert!(killed.unwrap().success());
    // The guard is a child of the host, which reaps it later: it has no command line any more.
    soon("nobody looks after the program", || {
        !pids_of(|_| true).contains(&watcher[0]) || {
            fs::read(format!("/proc/{}/cmdline", watcher[0])).is_ok_and(|line| line.is_empty())
        }
    });
}

#[test]
fn where_all_are_killed_who_look_after_it_the_program_itself_dies_and_the_next_start_ends_the_rest()
{
    for way in [Confinement::Landlock, Confinement::Unconfined] {
        if !is_here(way) {
            continue;
        }
        let owner = format!("test-{}-{}", std::process::id(), way.name());
        let mut host = Host::start(way, &owner).recorded();
        kill_watcher(&owner);
        let leader = pids_of(|command| {
            let text = String::from_utf8_lossy(command);
            text.starts_with("/bin/sh\0-c\0trap") && text.contains(&host.seconds)
        });
        assert!(!leader.is_empty());
        host.kill();
        if Path::new("/usr/bin/setpriv").exists() {
            soon("the program has died", || {
                leader.iter().all(|pid| !pids_of(|_| true).contains(pid))
            });
        } else {
            skipped("a program dies with the host", "there is no setpriv");
        }
        assert_eq!(sleepers(&host.seconds).len(), 4, "{way:?}");
        // The mark finds all processes except the daemon, which has none.
        assert_eq!(end_leftovers("somebody-else"), 0);
        assert!(end_leftovers(&owner) >= 3, "{way:?}");
        assert_eq!(sleepers(&host.seconds).len(), 1, "{way:?}");
        let records = Records::open(host.records.path()).unwrap();
        let left = records.end_leftovers().unwrap();
        // The count includes killed processes that are not reaped yet; one of the sleeping processes was still alive.
        assert!(left.ended >= 1 && left.is_whole, "{way:?}: {left:?}");
        assert_eq!(sleepers(&host.seconds), NOBODY, "{way:?}");
    }
}
