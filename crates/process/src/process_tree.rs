//! The processes of a program: the one that was started and all its descendants.
//!
//! They are found by their group, by descent and by a variable that only they have. In addition, each method of confinement has an identification
//! that no process can remove. In bubblewrap, all descend from the sandbox's init and die with it. Under Landlock, the rules identify the confined
//! processes. Without a sandbox, orphans are reparented to the host if it adopts them. Without `/proc`, only the group is known.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::confine::Domain;
use crate::kill::{kill_all, wait_for_sandboxes};
use crate::orphans::ChildRegistration;
use crate::processes::{Member, Table};
use crate::sandbox_init::SandboxInit;

pub(crate) struct ProcessTree {
    /// The process that was started; its group has the same ID. It is not reaped while this value is used, so the ID cannot be reused.
    pub(crate) leader: Pid,
    pub(crate) mark: String,
    /// Whether the leader is a sandbox whose end also ends everything in it.
    pub(crate) leader_is_sandbox: bool,
    /// The sandbox's init, once it is known.
    pub(crate) init: Arc<OnceLock<SandboxInit>>,
    pub(crate) domain: Option<Domain>,
    pub(crate) registration: ChildRegistration,
    /// Processes seen so far that may still be alive: if a parent dies first, descent no longer finds its children.
    pub(crate) seen: Vec<Member>,
}

impl ProcessTree {
    /// Sends a signal that requests an exit to all processes. A sandbox itself is spared: without it, the others could not exit on their own.
    pub(crate) fn signal_all(&mut self, signal: Signal) {
        if !self.leader_is_sandbox {
            let _ = kill_process_group(self.leader, signal);
        }
        // Some programs exit less gracefully on a second SIGTERM, and the group has already received one.
        for member in self.members() {
            if !member.is_in_group_of(self.leader) {
                member.signal(signal);
            }
        }
    }

    /// Kills all processes; those that start meanwhile are found in the next round. Returns whether none is left.
    pub(crate) fn kill(&mut self) -> bool {
        // Records the members now: the sandbox's processes can be found by descent only while the leader lives.
        self.members();
        // Until the leader has created its group, only its PID works.
        let _ = kill_process(self.leader, Signal::KILL);
        let _ = kill_process_group(self.leader, Signal::KILL);
        self.find_and_kill()
    }

    /// Kills the remaining processes after the leader's exit. Returns whether none is left.
    pub(crate) fn sweep(&mut self) -> bool {
        let is_ended = self.init.get().is_some_and(SandboxInit::end);
        is_ended || self.find_and_kill()
    }

    fn find_and_kill(&mut self) -> bool {
        self.domain.iter().for_each(Domain::kill);
        let all_ended = kill_all(|| self.members());
        let is_empty = match (self.leader_is_sandbox, Member::birth(self.leader)) {
            (true, Some(since)) => wait_for_sandboxes(since),
            _ => true,
        };
        let all_ended = self.registration.end_orphans() && all_ended && is_empty;
        if !all_ended {
            tracing::warn!(leader = ?self.leader, "processes of a command are still running after SIGKILL");
        }
        all_ended
    }

    /// Returns the current processes, including orphans that can belong to no other program.
    pub(crate) fn members_and_orphans(&mut self) -> Vec<Member> {
        let mut all = self.members();
        let orphans = self
            .registration
            .since()
            .map(|since| self.registration.orphans(since));
        for orphan in orphans.unwrap_or_default() {
            if !all.contains(&orphan) {
                all.push(orphan);
            }
        }
        all
    }

    fn members(&mut self) -> Vec<Member> {
        let table = Table::read();
        let mut close: HashSet<i32> = table.group(self.leader);
        close.extend(table.marked(|mark| mark == self.mark));
        if let Some(domain) = &self.domain {
            close.extend(domain.members_inside(&table.living()));
        }
        let mut found = table.with_descendants(close);
        self.seen
            .retain(|seen| !found.contains(seen) && seen.is_alive());
        found.append(&mut self.seen);
        self.seen.clone_from(&found);
        found
    }
}
