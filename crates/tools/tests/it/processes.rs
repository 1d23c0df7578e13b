//! The process tree of a command ends with it, however it ends.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use windlass_testkit::{pids_of, sleepers, unique_sleep};
use windlass_tools::{Confinement, Policy, end_leftovers};

use crate::support::{TestWorkspace, sandboxes, soon, ways};

/// A child, an orphaned grandchild, and a process in a separate session; none of them exits on SIGTERM.
fn start_stubborn_processes(seconds: &str) -> String {
    format!(
        "trap '' TERM; sleep {seconds} & (sleep {seconds} &); setsid sleep {seconds} & echo up; wait"
    )
}

fn is_gone(pid: u32) -> bool {
    match fs::read_to_string(format!("/proc/{pid}/stat")) {
        Err(_) => true,
        // A zombie is dead; init reaps it.
        Ok(stat) => stat
            .rsplit(')')
            .next()
            .unwrap()
            .trim_start()
            .starts_with('Z'),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_call_leaves_no_process() {
    for way in ways() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let (tool, context) = (workspace.tool("shell"), workspace.context());
        let seconds = unique_sleep();
        let arguments = json!({ "command": start_stubborn_processes(&seconds) });
        let call =
            tokio::spawn(async move { tool.execute_with_context(arguments, &context).await });
        soon("the family is there", || sleepers(&seconds).len() == 3);
        let pids = sleepers(&seconds);
        call.abort();
        soon("the family is gone", || {
            pids.iter().all(|pid| is_gone(*pid))
        });
        assert!(sleepers(&seconds).is_empty(), "{way:?}");
    }
}

#[tokio::test]
async fn timed_out_call_leaves_no_process() {
    for way in ways() {
        let mut workspace = TestWorkspace::confined(way, Policy::default());
        workspace.settings.grace = Duration::from_millis(100);
        let seconds = unique_sleep();
        let command = start_stubborn_processes(&seconds);
        let arguments = json!({ "command": command, "timeout_ms": 1000 });
        let error = workspace.call("shell", arguments).await.unwrap_err();
        assert!(
            error.contains("did not end within 1000 ms"),
            "{way:?}: {error}"
        );
        assert!(error.ends_with("up\n"), "{way:?}: {error}");
        soon("the family is gone", || sleepers(&seconds).is_empty());
    }
}

#[tokio::test]
async fn child_processes_end_with_their_command() {
    for way in ways() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let seconds = unique_sleep();
        let leave = format!("sleep {seconds} & setsid sleep {seconds} & echo left");
        let ran = workspace.shell(&leave).await.unwrap();
        assert_eq!(
            (&ran["exit_code"], &ran["output"]),
            (&json!(0), &json!("left\n")),
            "{way:?}"
        );
        soon("no process is left", || sleepers(&seconds).is_empty());
    }
}

#[tokio::test]
async fn a16_detached_daemon_ends_with_the_call() {
    for way in sandboxes() {
        let workspace = TestWorkspace::confined(way, Policy::default());
        let seconds = unique_sleep();
        let daemon = format!("env -i setsid -f sh -c ': > up; exec sleep {seconds}' > /dev/null");
        let leave = format!("{daemon}; until [ -e up ]; do sleep 0.01; done");
        let ran = workspace.shell(&leave).await.unwrap();
        assert_eq!(ran["exit_code"], 0, "{way:?}: {ran}");
        assert!(sleepers(&seconds).is_empty(), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn cancelled_command_may_exit_during_the_grace_period() {
    for way in ways() {
        let mut workspace = TestWorkspace::confined(way, Policy::default());
        workspace.settings.grace = Duration::from_secs(60);
        let command = "trap 'echo bye > said; exit 0' TERM; : > up; while :; do sleep 0.05; done";
        let (tool, context) = (workspace.tool("shell"), workspace.context());
        let arguments = json!({ "command": command });
        let call =
            tokio::spawn(async move { tool.execute_with_context(arguments, &context).await });
        soon("the command runs", || workspace.root().join("up").exists());
        call.abort();
        let said = workspace.root().join("said");
        soon("the command said goodbye", || {
            fs::read_to_string(&said).is_ok_and(|said| said == "bye\n")
        });
    }
}

const INNER_TEST: &str = "WINDLASS_TEST_HOST";

/// Not a test itself: the process that other tests kill.
#[tokio::test]
#[ignore = "started by another test"]
async fn host() {
    let Ok(error) = std::env::var(INNER_TEST) else {
        return;
    };
    let (way, seconds, owner): (Confinement, String, String) =
        serde_json::from_str(&error).unwrap();
    let mut workspace = TestWorkspace::confined(way, Policy::default());
    workspace.settings.scratch = std::env::temp_dir();
    workspace.settings.owner = Some(owner);
    let ran = workspace.shell(&start_stubborn_processes(&seconds)).await;
    panic!("the command ended: {ran:?}");
}

/// A separate process that runs a family of stubborn processes.
struct HostProcess {
    process: Child,
    seconds: String,
    temporary: TempDir,
}

impl HostProcess {
    fn start(way: Confinement, owner: &str) -> Self {
        let (seconds, temporary) = (unique_sleep(), tempfile::tempdir().unwrap());
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::host", "--ignored"])
            .env(INNER_TEST, json!([way, seconds, owner]).to_string())
            .env("TMPDIR", temporary.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        soon("the family is there", || sleepers(&seconds).len() == 3);
        Self {
            process,
            seconds,
            temporary,
        }
    }

    /// Kills only the process; returns the PIDs of its sleeping descendants.
    fn kill(&mut self) -> Vec<u32> {
        let pids = sleepers(&self.seconds);
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        pids
    }
}

#[test]
fn killed_host_leaves_no_process_and_no_temporary_files() {
    for way in ways() {
        let mut host = HostProcess::start(way, "test");
        let pids = host.kill();
        soon("the family is gone", || {
            pids.iter().all(|pid| is_gone(*pid))
        });
        soon("its temporary files are gone", || {
            let left = fs::read_dir(host.temporary.path()).unwrap().flatten();
            let mut names = left.map(|entry| entry.file_name());
            !names.any(|name| name.to_string_lossy().starts_with("windlass-"))
        });
    }
}

#[test]
fn leftovers_are_ended_only_by_their_owner() {
    let way = Confinement::Unconfined;
    let owner = format!("test-{}", std::process::id());
    let mut host = HostProcess::start(way, &owner);
    // The guard process is killed first, so that nothing ends the command.
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
    soon("the command is unsupervised", || is_gone(watcher[0]));
    let pids = host.kill();
    assert_eq!(end_leftovers("another-owner"), 0);
    assert!(
        pids.iter().all(|pid| !is_gone(*pid)),
        "they are still there"
    );
    assert!(end_leftovers(&owner) >= pids.len());
    soon("the leftovers are gone", || {
        pids.iter().all(|pid| is_gone(*pid))
    });
    assert_eq!(end_leftovers(&owner), 0);
}

#[tokio::test]
async fn memory_of_a_command_is_limited() {
    for way in ways() {
        let mut workspace = TestWorkspace::confined(way, Policy::default());
        workspace.settings.max_memory_bytes = Some(64 * 1024 * 1024);
        workspace.settings.max_processes = Some(321);
        // `tail` buffers everything, because it cannot know where the end begins.
        let hungry = "head -c 300000000 /dev/zero | tail -c 300000000 | wc -c";
        let ran = workspace.shell(hungry).await.unwrap();
        assert_ne!(ran["output"], "300000000\n", "{way:?}: {ran}");
        let ran = workspace.shell("ulimit -d; ulimit -u").await.unwrap();
        let output = ran["output"].as_str().unwrap();
        let limits: Vec<&str> = output.lines().collect();
        assert_eq!(limits[0], "65536", "{way:?}");
        let is_counted = way == Confinement::Bubblewrap;
        assert_eq!(limits[1] == "321", is_counted, "{way:?}: {output}");
        // The command cannot raise the limit again.
        let ran = workspace.shell("ulimit -d unlimited").await.unwrap();
        if !rustix::process::geteuid().is_root() {
            assert_ne!(ran["exit_code"], 0, "{way:?}: {ran}");
        }

        workspace.settings.max_memory_bytes = None;
        workspace.settings.max_processes = None;
        let ran = workspace.shell("echo 'it''s' \"$0\" $#").await.unwrap();
        let plain = ran["output"].clone();
        workspace.settings.max_memory_bytes = Some(1 << 33);
        let ran = workspace.shell("echo 'it''s' \"$0\" $#").await.unwrap();
        assert_eq!(ran["output"], plain, "the command sees no difference");
        let ran = workspace
            .shell("head -c 3000000 /dev/zero | wc -c; exit 7")
            .await;
        let ran = ran.unwrap();
        assert_eq!(
            (&ran["exit_code"], &ran["output"]),
            (&7.into(), &"3000000\n".into())
        );
    }
}
