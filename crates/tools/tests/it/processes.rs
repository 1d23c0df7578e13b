//! The process tree of a command ends with it, however it ends.

use std::fs;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use windlass_testkit::{pids_of, sleepers, unique_sleep};
use windlass_tools::{Confinement, Policy, end_leftovers};

use crate::support::{Place, sandboxes, soon, ways};

/// A child, an orphaned grandchild, and a process in a separate session; none of them exits on SIGTERM.
fn stubborn_family(seconds: &str) -> String {
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
async fn a_cancelled_call_leaves_no_process() {
    for way in ways() {
        let place = Place::confined(way, Policy::default());
        let (tool, context) = (place.tool("shell"), place.context());
        let seconds = unique_sleep();
        let arguments = json!({ "command": stubborn_family(&seconds) });
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
async fn a_call_whose_time_is_over_leaves_no_process() {
    for way in ways() {
        let mut place = Place::confined(way, Policy::default());
        place.settings.grace = Duration::from_millis(100);
        let seconds = unique_sleep();
        let command = stubborn_family(&seconds);
        let arguments = json!({ "command": command, "timeout_ms": 1000 });
        let told = place.call("shell", arguments).await.unwrap_err();
        assert!(
            told.contains("did not end within 1000 ms"),
            "{way:?}: {told}"
        );
        assert!(told.ends_with("up\n"), "{way:?}: {told}");
        soon("the family is gone", || sleepers(&seconds).is_empty());
    }
}

#[tokio::test]
async fn what_a_command_leaves_in_the_background_ends_with_it() {
    for way in ways() {
        let place = Place::confined(way, Policy::default());
        let seconds = unique_sleep();
        let leave = format!("sleep {seconds} & setsid sleep {seconds} & echo left");
        let ran = place.shell(&leave).await.unwrap();
        assert_eq!(
            (&ran["exit_code"], &ran["output"]),
            (&json!(0), &json!("left\n")),
            "{way:?}"
        );
        soon("nobody is left", || sleepers(&seconds).is_empty());
    }
}

#[tokio::test]
async fn a16_a_daemon_without_parent_group_session_and_variables_ends_with_the_call() {
    for way in sandboxes() {
        let place = Place::confined(way, Policy::default());
        let seconds = unique_sleep();
        let daemon = format!("env -i setsid -f sh -c ': > up; exec sleep {seconds}' > /dev/null");
        let leave = format!("{daemon}; until [ -e up ]; do sleep 0.01; done");
        let ran = place.shell(&leave).await.unwrap();
        assert_eq!(ran["exit_code"], 0, "{way:?}: {ran}");
        assert!(sleepers(&seconds).is_empty(), "{way:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancelled_command_may_end_by_itself_first() {
    for way in ways() {
        let mut place = Place::confined(way, Policy::default());
        place.settings.grace = Duration::from_secs(60);
        let command = "trap 'echo bye > said; exit 0' TERM; : > up; while :; do sleep 0.05; done";
        let (tool, context) = (place.tool("shell"), place.context());
        let arguments = json!({ "command": command });
        let call =
            tokio::spawn(async move { tool.execute_with_context(arguments, &context).await });
        soon("the command runs", || place.root().join("up").exists());
        call.abort();
        let said = place.root().join("said");
        soon("the command said goodbye", || {
            fs::read_to_string(&said).is_ok_and(|said| said == "bye\n")
        });
    }
}

const TOLD: &str = "WINDLASS_TEST_HOST";

/// Not a test itself: the process that other tests kill.
#[tokio::test]
#[ignore = "started by another test"]
async fn host() {
    let Ok(told) = std::env::var(TOLD) else {
        return;
    };
    let (way, seconds, owner): (Confinement, String, String) = serde_json::from_str(&told).unwrap();
    let mut place = Place::confined(way, Policy::default());
    place.settings.scratch = std::env::temp_dir();
    place.settings.owner = Some(owner);
    let ran = place.shell(&stubborn_family(&seconds)).await;
    panic!("the command ended: {ran:?}");
}

/// A separate process that runs a family of stubborn processes.
struct Host {
    process: Child,
    seconds: String,
    temporary: TempDir,
}

impl Host {
    fn start(way: Confinement, owner: &str) -> Self {
        let (seconds, temporary) = (unique_sleep(), tempfile::tempdir().unwrap());
        let process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "processes::host", "--ignored"])
            .env(TOLD, json!([way, seconds, owner]).to_string())
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
fn a_killed_host_leaves_no_process_and_no_temporary_files() {
    for way in ways() {
        let mut host = Host::start(way, "test");
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
fn what_an_earlier_life_left_is_ended_by_its_owner_and_by_no_other() {
    let way = Confinement::Unconfined;
    let owner = format!("test-{}", std::process::id());
    let mut host = Host::start(way, &owner);
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
    soon("nobody looks after the command", || is_gone(watcher[0]));
    let pids = host.kill();
    assert_eq!(end_leftovers("somebody-else"), 0);
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
async fn a_command_cannot_use_more_memory_than_it_may() {
    for way in ways() {
        let mut place = Place::confined(way, Policy::default());
        place.settings.max_memory_bytes = Some(64 * 1024 * 1024);
        place.settings.max_processes = Some(321);
        // `tail` buffers everything, because it cannot know where the end begins.
        let hungry = "head -c 300000000 /dev/zero | tail -c 300000000 | wc -c";
        let ran = place.shell(hungry).await.unwrap();
        assert_ne!(ran["output"], "300000000\n", "{way:?}: {ran}");
        let ran = place.shell("ulimit -d; ulimit -u").await.unwrap();
        let output = ran["output"].as_str().unwrap();
        let limits: Vec<&str> = output.lines().collect();
        assert_eq!(limits[0], "65536", "{way:?}");
        let is_counted = way == Confinement::Bubblewrap;
        assert_eq!(limits[1] == "321", is_counted, "{way:?}: {output}");
        // The command cannot raise the limit again.
        let ran = place.shell("ulimit -d unlimited").await.unwrap();
        if !rustix::process::geteuid().is_root() {
            assert_ne!(ran["exit_code"], 0, "{way:?}: {ran}");
        }

        place.settings.max_memory_bytes = None;
        place.settings.max_processes = None;
        let ran = place.shell("echo 'it''s' \"$0\" $#").await.unwrap();
        let plain = ran["output"].clone();
        place.settings.max_memory_bytes = Some(1 << 33);
        let ran = place.shell("echo 'it''s' \"$0\" $#").await.unwrap();
        assert_eq!(ran["output"], plain, "the command sees no difference");
        let ran = place
            .shell("head -c 3000000 /dev/zero | wc -c; exit 7")
            .await;
        let ran = ran.unwrap();
        assert_eq!(
            (&ran["exit_code"], &ran["output"]),
            (&7.into(), &"3000000\n".into())
        );
    }
}
