//! The processes of a command: the one that was started and everything that came of it.
//!
//! They are found by their group, by descent and by a variable that only they have, so that one that left its group or
//! lost its parents is found too. Where there is no `/proc`, the group is all that is known.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

/// The variable that marks the processes of one call.
pub(super) const MARK: &str = "WINDLASS_CALL";
/// How often what is left is looked for.
const ROUNDS: usize = 200;
const BETWEEN_ROUNDS: Duration = Duration::from_millis(5);

/// The processes of a command.
pub(super) struct Family {
    /// The process that was started; its group has the same number. It is not reaped while this is used, so the number
    /// cannot come to mean another.
    leader: Pid,
    mark: String,
    /// Whether the leader is a sandbox that takes everything with it when it goes.
    leader_is_sandbox: bool,
}

impl Family {
    pub(super) fn new(leader: Pid, mark: &str, leader_is_sandbox: bool) -> Self {
        Self {
            leader,
            mark: format!("{MARK}={mark}"),
            leader_is_sandbox,
        }
    }

    /// Asks everybody to end. A sandbox itself is spared: without it, the others could not end by themselves.
    pub(super) fn terminate(&self) {
        if !self.leader_is_sandbox {
            let _ = kill_process_group(self.leader, Signal::TERM);
        }
        // A second SIGTERM means more haste to some programs: the group has had its own.
        for member in self.members() {
            if !member.is_in_group_of(self.leader) {
                member.signal(Signal::TERM);
            }
        }
    }

    /// Ends everybody. What is born meanwhile is found in the next round.
    pub(super) fn kill(&self) {
        // Before it has made its own group, only its own number works.
        let _ = kill_process(self.leader, Signal::KILL);
        let _ = kill_process_group(self.leader, Signal::KILL);
        for _ in 0..ROUNDS {
            let left = self.members();
            if left.is_empty() {
                return;
            }
            for member in left {
                member.signal(Signal::KILL);
            }
            std::thread::sleep(BETWEEN_ROUNDS);
        }
        tracing::warn!(leader = ?self.leader, "processes of a command are still there after SIGKILL");
    }

    /// Ends what a command left behind that ended by itself.
    pub(super) fn sweep(&self) {
        // The kernel has emptied a sandbox by now.
        if !self.leader_is_sandbox {
            self.kill();
        }
    }

    #[cfg(target_os = "linux")]
    fn members(&self) -> Vec<proc::Member> {
        proc::members(self.leader, &self.mark)
    }

    #[cfg(not(target_os = "linux"))]
    fn members(&self) -> Vec<proc::Member> {
        let _ = &self.mark;
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
mod proc {
    //! Processes as `/proc` shows them.

    use std::collections::HashSet;
    use std::fs;

    use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

    /// A process, named so that another with the same number is not taken for it.
    pub(super) struct Member {
        pid: Pid,
        group: i32,
        start: u64,
    }

    impl Member {
        pub(super) fn is_in_group_of(&self, leader: Pid) -> bool {
            self.group == leader.as_raw_nonzero().get()
        }

        /// Sends a signal to this process and no other: the handle is taken first, and then looked at.
        pub(super) fn signal(&self, signal: Signal) {
            let Ok(handle) = pidfd_open(self.pid, PidfdFlags::empty()) else {
                return;
            };
            if Stat::of(self.pid).is_some_and(|stat| stat.start == self.start) {
                let _ = pidfd_send_signal(handle, signal);
            }
        }
    }

    struct Stat {
        pid: Pid,
        parent: i32,
        group: i32,
        session: i32,
        start: u64,
        is_dead: bool,
    }

    impl Stat {
        fn of(pid: Pid) -> Option<Self> {
            let text = fs::read(format!("/proc/{}/stat", pid.as_raw_nonzero())).ok()?;
            // The name of the program is in brackets and may hold anything.
            let end = text.iter().rposition(|byte| *byte == b')')?;
            let rest = std::str::from_utf8(text.get(end + 1..)?).ok()?;
            let mut fields = rest.split_ascii_whitespace();
            let state = fields.next()?;
            let mut number = || fields.next()?.parse::<i32>().ok();
            let (parent, group, session) = (number()?, number()?, number()?);
            Some(Self {
                pid,
                parent,
                group,
                session,
                start: fields.nth(15)?.parse().ok()?,
                is_dead: matches!(state, "Z" | "X"),
            })
        }

        fn is_marked(&self, mark: &str) -> bool {
            let path = format!("/proc/{}/environ", self.pid.as_raw_nonzero());
            let has = |bytes: Vec<u8>| bytes.split(|byte| *byte == 0).any(|v| v == mark.as_bytes());
            fs::read(path).is_ok_and(has)
        }
    }

    /// Returns the living processes of a family.
    pub(super) fn members(leader: Pid, mark: &str) -> Vec<Member> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = entries.flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            Pid::from_raw(number)
        });
        let all: Vec<Stat> = pids.filter_map(Stat::of).collect();
        let number = leader.as_raw_nonzero().get();
        let own = i32::try_from(std::process::id()).unwrap_or_default();
        let is_close = |stat: &Stat| {
            [stat.pid.as_raw_nonzero().get(), stat.group, stat.session].contains(&number)
                || stat.is_marked(mark)
        };
        let others = || {
            all.iter()
                .filter(|stat| stat.pid.as_raw_nonzero().get() != own)
        };
        let mut found: HashSet<i32> = others()
            .filter(|stat| is_close(stat))
            .map(|stat| stat.pid.as_raw_nonzero().get())
            .collect();
        // Children of children, however they are ordered.
        loop {
            let before = found.len();
            let born = others().filter(|stat| found.contains(&stat.parent));
            let born: Vec<_> = born.map(|stat| stat.pid.as_raw_nonzero().get()).collect();
            found.extend(born);
            if found.len() == before {
                break;
            }
        }
        all.iter()
            .filter(|stat| !stat.is_dead && found.contains(&stat.pid.as_raw_nonzero().get()))
            .map(|stat| Member {
                pid: stat.pid,
                group: stat.group,
                start: stat.start,
            })
            .collect()
    }
}

#[cfg(not(target_os = "linux"))]
mod proc {
    //! Where there is no `/proc`, nobody is found one by one.

    use rustix::process::{Pid, Signal};

    pub(super) struct Member;

    impl Member {
        pub(super) fn is_in_group_of(&self, _leader: Pid) -> bool {
            true
        }

        pub(super) fn signal(&self, _signal: Signal) {}
    }
}
