//! A program ends with the host that started it, however the host ends.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;
use windlass_process::{Confinement, Records, adopt_orphans, end_leftovers};
use windlass_testkit::skipped;
use windlass_testkit::{pids_of, sleepers, unique_sleep};

use crate::chains::CHAIN;
use crate::support::{NO_PROCESSES, TestSandbox, is_supported, soon, start_time};

const HOST_ARGUMENTS: &str = "WINDLASS_TEST_HOST";

/// A child, an orphaned grandchild, and a process in a separate session; none of them exits on SIGTERM.
fn stubborn_processes(seconds: &str) -> String {
    format!("trap '' TERM; sleep {seconds} & (sleep {seconds} &); setsid sleep {seconds} &")
}

/// Not a test itself: the process that other tests kill.
#[tokio::test]
#[ignore = "started by another test"]
async fn host() {
    let Ok(arguments) = std::env::var(HOST_ARGUMENTS) else {
        return;
    };
    let (confinement, seconds, owner, records): (Confinement, String, String, PathBuf) =
        serde_json::from_str(&arguments).unwrap();
    adopt_orphans().unwrap();
    let sandbox = TestSandbox::new(confinement);
    let tree = stubborn_processes(&seconds);
    let script = format!("{tree} env -i setsid -f sleep {seconds} > /dev/null 2>&1; wait; cat");
    let (mut program, _) = sandbox.script(&script);
    program.sandbox.owner = Some(owner);
    program.sandbox.records = Some(Records::open(records).unwrap());
    let mut running = program.start().await.unwrap();
    let end = running.end().await;
    panic!("the program ended: {end:?}");
}

/// A separate process that runs stubborn processes and a daemon.
struct StubbornHost {
    process: Child,
    seconds: String,
    records: TempDir,
}

impl StubbornHost {
    fn start(confinement: Confinement, owner: &str) -> Self {
        let (seconds, records) = (unique_sleep(), tempfile::tempdir().unwrap());
        let arguments = serde_json::json!([confinement, seconds, owner, records.path()]);
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host::host", "--ignored"])
            .env(HOST_ARGUMENTS, arguments.to_string())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        soon("all processes run", || sleepers(&seconds).len() == 4);
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
            let mut lines = pids
                .iter()
                .map(|pid| format!("{pid} {}\n", start_time(*pid)));
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
    pub(crate) fn start(confinement: Confinement) -> Self {
        let root = tempfile::tempdir().unwrap();
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "host::chain_host", "--ignored"])
            .env(
                HOST_ARGUMENTS,
                serde_json::json!([confinement, root.path()]).to_string(),
            )
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
    let Ok(arguments) = std::env::var(HOST_ARGUMENTS) else {
        return;
    };
    let (confinement, root): (Confinement, PathBuf) = serde_json::from_str(&arguments).unwrap();
    adopt_orphans().unwrap();
    let (program, _) = TestSandbox::at(confinement, root).script(&format!("{CHAIN} cat"));
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
fn bubblewrap_ends_all_processes_with_a_killed_host() {
    if !is_supported(Confinement::Bubblewrap) {
        return;
    }
    let mut host = StubbornHost::start(Confinement::Bubblewrap, "test");
    host.kill();
    soon("no process is left", || sleepers(&host.seconds).is_empty());
}

/// Since version 6.12, the kernel can confine signals to a Landlock domain.
fn kernel_confines_signals() -> bool {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    let mut numbers = release
        .split(['.', '-'])
        .map_while(|part| part.parse::<u32>().ok());
    (numbers.next(), numbers.next()) >= (Some(6), Some(12))
}

#[test]
fn landlock_ends_all_processes_with_a_killed_host_and_no_others() {
    if !is_supported(Confinement::Landlock) {
        return;
    }
    if !kernel_confines_signals() {
        skipped(
            "a daemon under landlock goes with a killed host",
            "the kernel is older than 6.12",
        );
        return;
    }
    let mut other = StubbornHost::start(Confinement::Landlock, "test");
    let mut host = StubbornHost::start(Confinement::Landlock, "test");
    host.kill();
    soon("no process is left", || sleepers(&host.seconds).is_empty());
    assert_eq!(
        sleepers(&other.seconds).len(),
        4,
        "another host's processes continue"
    );
    other.kill();
    soon("no process is left", || sleepers(&other.seconds).is_empty());
}

#[test]
fn unconfined_processes_end_with_a_killed_host_and_daemons_at_the_next_start() {
    let mut host = StubbornHost::start(Confinement::Unconfined, "test").recorded();
    host.kill();
    soon("the group is gone", || sleepers(&host.seconds).len() == 1);
    let left = Records::open(host.records.path()).unwrap().end_leftovers();
    let left = left.unwrap();
    assert_eq!((left.ended, left.all_ended), (1, true), "{left:?}");
    assert_eq!(sleepers(&host.seconds), NO_PROCESSES);
    assert_eq!(recorded(host.records.path()), "", "the record is deleted");
}

/// Kills the guard of a host's program, so that nothing ends the program.
fn kill_guard(owner: &str) {
    let guard = pids_of(|command| {
        let text = String::from_utf8_lossy(command);
        text.contains("windlass-guard") && text.contains(&format!("WINDLASS_CALL={owner}."))
    });
    assert_eq!(guard.len(), 1);
    let killed = Command::new("kill")
        .arg("-KILL")
        .arg(guard[0].to_string())
        .status();
    assert!(killed.unwrap().success());
    // The guard is a child of the host, which reaps it later: it has no command line any more.
    soon("the guard is gone", || {
        !pids_of(|_| true).contains(&guard[0]) || {
            fs::read(format!("/proc/{}/cmdline", guard[0])).is_ok_and(|line| line.is_empty())
        }
    });
}

#[test]
fn program_dies_with_host_and_guard_and_the_next_start_ends_the_rest() {
    for confinement in [Confinement::Landlock, Confinement::Unconfined] {
        if !is_supported(confinement) {
            continue;
        }
        let owner = format!("test-{}-{}", std::process::id(), confinement.name());
        let mut host = StubbornHost::start(confinement, &owner).recorded();
        kill_guard(&owner);
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
        assert_eq!(sleepers(&host.seconds).len(), 4, "{confinement:?}");
        // The mark finds all processes except the daemon, which has none.
        assert_eq!(end_leftovers("another-owner"), 0);
        assert!(end_leftovers(&owner) >= 3, "{confinement:?}");
        assert_eq!(sleepers(&host.seconds).len(), 1, "{confinement:?}");
        let records = Records::open(host.records.path()).unwrap();
        let left = records.end_leftovers().unwrap();
        // The count includes killed processes that are not reaped yet; one of the sleeping processes was still alive.
        assert!(
            left.ended >= 1 && left.all_ended,
            "{confinement:?}: {left:?}"
        );
        assert_eq!(sleepers(&host.seconds), NO_PROCESSES, "{confinement:?}");
    }
}
