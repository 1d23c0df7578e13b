//! Processes of the machine that are ours to end.

use std::time::Duration;

use rustix::process::Signal;

#[cfg(target_os = "linux")]
pub(super) use proc::{Member, members};
#[cfg(not(target_os = "linux"))]
pub(super) use unknown::{Member, members};

/// The variable that marks the processes of one call.
pub(super) const MARK: &str = "WINDLASS_CALL";
/// How often what is left is looked for.
const ROUNDS: usize = 200;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);

/// Kills who is found until nobody is; what is born meanwhile is found in the next round. Tells whether that came about.
pub(super) fn kill_all(find: impl Fn() -> Vec<Member>) -> bool {
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

/// Ends what an earlier process of the same owner left running, as [`ShellSettings::owner`](super::ShellSettings::owner) names it.
///
/// Commands end with the process that started them; this is for the rare case that they could not be ended then, such as when
/// everything that looked after them was killed at once. Call it at the start, when no other process of that owner can be
/// alive. Returns how many processes there were. Without `/proc` there is nothing to find them by.
pub fn end_leftovers(owner: &str) -> usize {
    let prefix = format!("{owner}.");
    let find = || members(None, |mark| mark.starts_with(&prefix));
    let count = find().len();
    if !kill_all(find) {
        tracing::warn!(
            owner,
            "processes of an earlier life are still there after SIGKILL"
        );
    }
    count
}

#[cfg(target_os = "linux")]
mod proc {
    //! Processes as `/proc` shows them.

    use std::collections::HashSet;
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    use super::MARK;

    /// A process, named so that another with the same number is not taken for it.
    pub(in super::super) struct Member {
        pid: Pid,
        group: i32,
        start: u64,
    }

    impl Member {
        pub(in super::super) fn is_in_group_of(&self, leader: Pid) -> bool {
            self.group == number(leader)
        }

        /// Sends a signal to this process and no other: the handle is taken first, and then looked at.
        pub(in super::super) fn signal(&self, signal: Signal) {
            let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty()) else {
                return;
            };
            if Stat::of(self.pid).is_some_and(|stat| stat.start == self.start) {
                let _ = pidfd_send_signal(handle, signal);
            }
        }
    }

    fn number(pid: Pid) -> i32 {
        pid.as_raw_nonzero().get()
    }

    struct Stat {
        pid: Pid,
        parent: i32,
        group: i32,
        start: u64,
        is_dead: bool,
    }

    impl Stat {
        fn of(pid: Pid) -> Option<Self> {
            let text = fs::read(format!("/proc/{}/stat", number(pid))).ok()?;
            // The name of the program is in brackets and may hold anything.
            let end = text.iter().rposition(|byte| *byte == b')')?;
            let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
            let mut fields = rest.split_ascii_whitespace();
            let state = fields.next()?;
            let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
            Some(Self {
                pid,
                parent,
                group,
                start: fields.nth(16)?.parse().ok()?,
                is_dead: matches!(state, "Z" | "X"),
            })
        }

        fn has_mark(&self, is_meant: &impl Fn(&str) -> bool) -> bool {
            let path = format!("/proc/{}/environ", number(self.pid));
            let Ok(variables) = fs::read(path) else {
                return false;
            };
            let value = |variable: &[u8]| {
                let text = std::str::from_utf8(variable).ok()?;
                let value = text.strip_prefix(MARK)?.strip_prefix('=')?;
                Some(is_meant(value))
            };
            variables
                .split(|byte| *byte == 0)
                .any(|variable| value(variable) == Some(true))
        }
    }

    /// Returns the living processes that are in a leader's group, or have a mark that is meant, or descend from those.
    pub(in super::super) fn members(
        leader: Option<Pid>,
        is_meant: impl Fn(&str) -> bool,
    ) -> Vec<Member> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let others = entries.flatten().filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Pid::from_raw(pid).filter(|_| pid != own)
        });
        let others: Vec<Stat> = others.filter_map(Stat::of).collect();
        let is_close = |stat: &&Stat| {
            leader.is_some_and(|leader| leader == stat.pid || number(leader) == stat.group)
                || stat.has_mark(&is_meant)
        };
        let close = others.iter().filter(is_close);
        let mut found: HashSet<i32> = close.map(|stat| number(stat.pid)).collect();
        // Children of children, however they are ordered.
        loop {
            let before = found.len();
            let born = others.iter().filter(|stat| found.contains(&stat.parent));
            let born: Vec<_> = born.map(|stat| number(stat.pid)).collect();
            found.extend(born);
            if found.len() == before {
                break;
            }
        }
        let alive = others
            .iter()
            .filter(|stat| !stat.is_dead && found.contains(&number(stat.pid)));
        let member = |stat: &Stat| Member {
            pid: stat.pid,
            group: stat.group,
            start: stat.start,
        };
        alive.map(member).collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod unknown {
    //! Where there is no `/proc`, nobody is found one by one.

    use rustix::process::{Pid, Signal};

    pub(in super::super) struct Member;

    impl Member {
        pub(in super::super) fn is_in_group_of(&self, _leader: Pid) -> bool {
            true
        }
        pub(in super::super) fn signal(&self, _signal: Signal) {}
    }

    pub(in super::super) fn members(
        _leader: Option<Pid>,
        _is_meant: impl Fn(&str) -> bool,
    ) -> Vec<Member> {
        Vec::new()
    }
}
