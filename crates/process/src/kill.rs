//! Killing until nobody is left.

use std::time::Duration;

use rustix::process::Signal;

use crate::processes::{Member, Table};

/// How often what is left is looked for.
const ROUNDS: usize = 200;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);

/// Kills who is found until nobody is; what is born meanwhile is found in the next round. Tells whether that came about.
pub(crate) fn kill_all(mut find: impl FnMut() -> Vec<Member>) -> bool {
    for _ in 0..ROUNDS {
        let left = find();
        if left.is_empty() {
            return true;
        }
        for member in left {
            member.signal(Signal::KILL);
        }
        std::thread::sleep(BETWEEN_ROUNDS);
    }
    false
}

/// Waits until the kernel has emptied the sandboxes, no older than this, whose outer process is gone. When the init of one is
/// dead, so is everybody in it.
pub(crate) fn wait_for_sandboxes(since: u64) -> bool {
    for _ in 0..ROUNDS {
        if !Table::read().has_lost_sandbox(since) {
            return true;
        }
        std::thread::sleep(BETWEEN_ROUNDS);
    }
    false
}

/// Ends what an earlier process of the same owner left running, as [`Program::owner`](crate::Program::owner) names it, by the
/// variable that its programs were given.
///
/// Programs end with the process that started them; this is for the rare case that they could not be ended then, such as when
/// everything that looked after them was killed at once. Call it at the start, when no other process of that owner can be
/// alive. Returns how many processes there were. Without `/proc` there is nothing to find them by. What has thrown the variable
/// away is found by [`Records`](crate::Records).
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
            "processes of an earlier life are still there after SIGKILL"
        );
    }
    count
}
