//! Killing processes until none is left.

use std::time::Duration;

use rustix::process::Signal;

use crate::processes::{Member, Table};

/// Maximum number of rounds in which remaining processes are searched.
const ROUNDS: usize = 200;
/// First and longest pause between two rounds. Most killed processes disappear at once, and the end of a command is reported only after the last
/// round.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Polls the condition with growing pauses. Returns whether it became true.
fn poll_until(mut condition: impl FnMut() -> bool) -> bool {
    let mut pause = FIRST_PAUSE;
    for _ in 0..ROUNDS {
        if condition() {
            return true;
        }
        std::thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
    false
}

/// Kills the processes that `find` returns until there are none; a process that starts meanwhile is found in the next round. Returns whether none is
/// left.
pub(crate) fn kill_all(mut find: impl FnMut() -> Vec<Member>) -> bool {
    poll_until(|| {
        let left = find();
        for member in &left {
            member.signal(Signal::KILL);
        }
        left.is_empty()
    })
}

/// Waits until the kernel has emptied all sandboxes started no earlier than `since` whose outer process is gone. Once the init of a sandbox is dead,
/// all its processes are.
pub(crate) fn wait_for_sandboxes(since: u64) -> bool {
    poll_until(|| !Table::read().has_lost_sandbox(since))
}

/// Kills processes that an earlier process of the same owner left running. They are identified by the environment variable that marks the programs of
/// a [`Program::owner`](crate::Program::owner).
///
/// Programs normally end with the process that started them. This covers the rare case in which they could not be ended, such as when the host and
/// all its guard processes were killed at once. Call it at startup, when no other process of that owner can be running. Returns the number of
/// processes found. Without `/proc` it finds none. [`Records`](crate::Records) finds processes that removed the variable.
pub fn end_leftovers(owner: &str) -> usize {
    let prefix = format!("{owner}.");
    let find = || {
        let table = Table::read();
        let marked = table.marked(|mark| mark.starts_with(&prefix));
        table.with_descendants(marked)
    };
    let count = find().len();
    if !kill_all(find) {
        tracing::warn!(
            owner,
            "processes of a previous process are still running after SIGKILL"
        );
    }
    count
}
