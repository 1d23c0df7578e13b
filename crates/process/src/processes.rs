//! Processes of the machine, as listed in `/proc`. On systems without it, no process is found.

use std::collections::HashSet;
use std::fs;

use rustix::process::{Pid, Signal};
#[cfg(target_os = "linux")]
use rustix::process::{PidfdFlags, pidfd_open, pidfd_send_signal};

/// The variable that marks the processes of one call.
pub const MARK: &str = "WINDLASS_CALL";

/// A process, identified by PID and start time so that a reused PID is not mistaken for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: Pid,
    pub(crate) group: i32,
    pub(crate) start: u64,
}

impl Member {
    /// Returns the process with this PID if it is alive.
    pub(crate) fn find(pid: Pid) -> Option<Self> {
        let stat = Stat::read(pid).filter(|stat| !stat.is_dead)?;
        Some(stat.member())
    }

    /// Returns the start time of the process with this PID, even if it is a zombie.
    pub(crate) fn birth(pid: Pid) -> Option<u64> {
        Stat::read(pid).map(|stat| stat.start)
    }

    /// Returns the process with this PID if it is a child of `parent` and the init of a PID namespace.
    #[cfg(target_os = "linux")]
    pub(crate) fn init_below(pid: Pid, parent: Pid) -> Option<Self> {
        let stat = Stat::read(pid)?;
        let is_sandbox_init = stat.parent == number(parent) && stat.is_init();
        is_sandbox_init.then(|| stat.member())
    }

    pub(crate) fn number(&self) -> i32 {
        number(self.pid)
    }

    pub(crate) fn is_in_group_of(&self, leader: Pid) -> bool {
        self.group == number(leader)
    }

    pub(crate) fn is_alive(&self) -> bool {
        Self::find(self.pid).is_some_and(|now| now.start == self.start)
    }

    /// Signals this process and no other: the handle is opened before the identity is checked.
    pub(crate) fn signal(&self, signal: Signal) {
        #[cfg(target_os = "linux")]
        if let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty())
            && Stat::read(self.pid).is_some_and(|stat| stat.start == self.start)
        {
            let _ = pidfd_send_signal(handle, signal);
        }
        #[cfg(not(target_os = "linux"))]
        let _ = signal;
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
    is_bubblewrap: bool,
}

impl Stat {
    fn read(pid: Pid) -> Option<Self> {
        let text = fs::read(format!("/proc/{}/stat", number(pid))).ok()?;
        // The program's name is in parentheses and can contain any characters.
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
            is_bubblewrap: text.get(..=end)?.ends_with(b"(bwrap)"),
        })
    }

    fn member(&self) -> Member {
        Member {
            pid: self.pid,
            group: self.group,
            start: self.start,
        }
    }

    /// Returns whether it is the first process of a PID namespace below ours.
    fn is_init(&self) -> bool {
        let status = fs::read_to_string(format!("/proc/{}/status", number(self.pid)));
        let status = status.unwrap_or_default();
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:"));
        numbers.is_some_and(|numbers| {
            let numbers: Vec<_> = numbers.split_ascii_whitespace().collect();
            numbers.len() > 1 && numbers.last() == Some(&"1")
        })
    }

    fn has_mark(&self, matches: &impl Fn(&str) -> bool) -> bool {
        let path = format!("/proc/{}/environ", number(self.pid));
        let Ok(variables) = fs::read(path) else {
            return false;
        };
        let value = |variable: &[u8]| {
            let text = std::str::from_utf8(variable).ok()?;
            let value = text.strip_prefix(MARK)?.strip_prefix('=')?;
            Some(matches(value))
        };
        variables
            .split(|byte| *byte == 0)
            .any(|variable| value(variable) == Some(true))
    }
}

/// A snapshot of all processes except our own.
pub(crate) struct Table {
    own: i32,
    stats: Vec<Stat>,
}

impl Table {
    pub(crate) fn read() -> Self {
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
        let others = entries.filter_map(|entry| {
            let pid = entry.file_name().to_str()?.parse().ok()?;
            Pid::from_raw(pid).filter(|_| pid != own)
        });
        let stats = others.filter_map(Stat::read).collect();
        Self { own, stats }
    }

    /// Returns the living processes.
    pub(crate) fn living(&self) -> Vec<Member> {
        let living = self.stats.iter().filter(|stat| !stat.is_dead);
        living.map(Stat::member).collect()
    }

    /// Returns the processes whose mark satisfies `matches`.
    pub(crate) fn marked(&self, matches: impl Fn(&str) -> bool) -> HashSet<i32> {
        let marked = self.stats.iter().filter(|stat| stat.has_mark(&matches));
        marked.map(|stat| number(stat.pid)).collect()
    }

    /// Returns the processes of a group, including its leader.
    pub(crate) fn group(&self, leader: Pid) -> HashSet<i32> {
        let leader = number(leader);
        let numbers = self.stats.iter();
        let numbers = numbers.filter(|stat| stat.group == leader || number(stat.pid) == leader);
        numbers.map(|stat| number(stat.pid)).collect()
    }

    /// Returns the living processes among these and their descendants.
    pub(crate) fn with_descendants(&self, mut found: HashSet<i32>) -> Vec<Member> {
        // Repeats until no child is added, because the table is not sorted by descent.
        loop {
            let before = found.len();
            let born = self
                .stats
                .iter()
                .filter(|stat| found.contains(&stat.parent));
            let born: Vec<_> = born.map(|stat| number(stat.pid)).collect();
            found.extend(born);
            if found.len() == before {
                break;
            }
        }
        let mut living = self.living();
        living.retain(|member| found.contains(&member.number()));
        living
    }

    /// Returns whether there is a bubblewrap sandbox, started no earlier than `since`, whose outer process is gone while its init is still
    /// exiting. Such an init has no variables any more, so its owner cannot be determined.
    pub(crate) fn has_lost_sandbox(&self, since: u64) -> bool {
        let is_sandbox = |pid: i32| {
            let mut stats = self.stats.iter();
            stats.any(|stat| number(stat.pid) == pid && stat.is_bubblewrap && !stat.is_dead)
        };
        let lost = self.stats.iter().filter(|stat| {
            stat.is_bubblewrap && !stat.is_dead && stat.start >= since && !is_sandbox(stat.parent)
        });
        lost.into_iter().any(Stat::is_init)
    }

    /// Returns our children outside our own process group, each with whether it is dead.
    pub(crate) fn children_elsewhere(&self) -> Vec<(Member, bool)> {
        let own_group = rustix::process::getpgrp();
        let children = self.stats.iter().filter(|stat| stat.parent == self.own);
        let elsewhere = children.filter(|stat| stat.group != number(own_group));
        elsewhere
            .map(|stat| (stat.member(), stat.is_dead))
            .collect()
    }
}
