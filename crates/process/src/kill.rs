//! Killing until nobody is left.

use std::time::Duration;

use rustix::process::Signal;

use crate::processes::{Member, Table};

/// How often what is left is looked for.
const ROUNDS: usize = 200;
/// How long it is waited between two rounds, at first and at most: what has just been ended is mostly gone at once, and a command that has ended
/// waits for it.
const FIRST_PAUSE: Duration = Duration::from_micros(100);
const LONGEST_PAUSE: Duration = Duration::from_millis(5);

/// Asks again and again until it is so, with growing pauses. Tells whether that came about.
fn until(mut is_so: impl FnMut() -> bool) -> bool {
    let mut pause = FIRST_PAUSE;
    for _ in 0..ROUNDS {
        if is_so() {
            return true;
        }
        std::thread::sleep(pause);
        pause = LONGEST_PAUSE.min(pause * 2);
    }
    false
}

/// Kills who is found until nobody is; what is born meanwhile is found in the next round. Tells whether that came about.
pub(crate) fn kill_all(mut find: impl FnMut() -> Vec<Member>) -> bool {
    until(|| {
        let left = find();
        for member in &left {
            member.signal(Signal::KILL);
        }
        left.is_empty()
    })
}

/// Waits until the kernel has emptied the sandboxes, no older than this, whose outer process is gone. When the init of one is
/// dead, so is everybody in it.
pub(crate) fn wait_for_sandboxes(since: u64) -> bool {
    until(|| !Table::read().has_lost_sandbox(since))
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
