//! The processes of a command: the one that was started and everything that came of it.
//!
//! They are found by their group, by descent and by a variable that only they have, so that one that left its group or
//! lost its parents is found too. Where there is no `/proc`, the group is all that is known.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::processes::{Member, kill_all, members};

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
            mark: mark.to_owned(),
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
        if !kill_all(|| self.members()) {
            tracing::warn!(leader = ?self.leader, "processes of a command are still there after SIGKILL");
        }
    }

    /// Ends what a command left behind that ended by itself.
    pub(super) fn sweep(&self) {
        // The kernel has emptied a sandbox by now.
        if !self.leader_is_sandbox {
            self.kill();
        }
    }

    fn members(&self) -> Vec<Member> {
        members(Some(self.leader), |mark| mark == self.mark)
    }
}
