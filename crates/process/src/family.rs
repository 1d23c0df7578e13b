//! The processes of a program: the one that was started and everything that came of it.
//!
//! They are found by their group, by descent and by a variable that only they have. Beyond that each way to confine has
//! something that no process can shed: in bubblewrap all descend from the sandbox's own init, which takes them with it; under landlock
//! the rules themselves tell who is under them; without a sandbox orphans come to us, if the host adopts them. Where there
//! is no `/proc`, the group is all that is known.

use std::collections::HashSet;
use std::sync::{Arc, OnceLock};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::confine::Domain;
use crate::kill::{kill_all, wait_for_sandboxes};
use crate::orphans::Known;
use crate::processes::{Member, Table};
use crate::sandbox_init::SandboxInit;

/// The processes of a program.
pub(crate) struct Family {
    /// The process that was started; its group has the same number. It is not reaped while this is used, so the number
    /// cannot come to mean another.
    leader: Pid,
    mark: String,
    /// Whether the leader is a sandbox that takes everything with it when it goes.
    leader_is_sandbox: bool,
    /// The sandbox's own init, once it is known.
    init: Arc<OnceLock<SandboxInit>>,
    domain: Option<Domain>,
    known: Known,
    /// Who was seen and may still be alive: where a parent dies first, descent tells no more.
    seen: Vec<Member>,
}

impl Family {
    pub(crate) fn new(
        leader: Pid,
        mark: &str,
        leader_is_sandbox: bool,
        init: Arc<OnceLock<SandboxInit>>,
        domain: Option<Domain>,
        known: Known,
    ) -> Self {
        Self {
            leader,
            mark: mark.to_owned(),
            leader_is_sandbox,
            init,
            domain,
            known,
            seen: Vec::new(),
        }
    }

    /// Sends everybody a signal that asks. A sandbox itself is spared: without it, the others could not end by themselves.
    pub(crate) fn ask(&mut self, signal: Signal) {
        if !self.leader_is_sandbox {
            let _ = kill_process_group(self.leader, signal);
        }
        // A second SIGTERM means more haste to some programs: the group has had its own.
        for member in self.members() {
            if !member.is_in_group_of(self.leader) {
                member.signal(signal);
            }
        }
    }

    /// Ends everybody, and tells whether nobody is left. What is born meanwhile is found in the next round.
    pub(crate) fn kill(&mut self) -> bool {
        // While the leader lives, descent tells who is in its sandbox.
        self.members();
        // Before it has made its own group, only its own number works.
        let _ = kill_process(self.leader, Signal::KILL);
        let _ = kill_process_group(self.leader, Signal::KILL);
        self.find_and_kill()
    }

    /// Ends what is left when the leader is gone, and tells whether nobody is.
    pub(crate) fn sweep(&mut self) -> bool {
        let is_ended = self.init.get().is_some_and(SandboxInit::end);
        is_ended || self.find_and_kill()
    }

    fn find_and_kill(&mut self) -> bool {
        self.domain.iter().for_each(Domain::kill);
        let is_whole = kill_all(|| self.members());
        let is_empty = match (self.leader_is_sandbox, Member::birth(self.leader)) {
            (true, Some(since)) => wait_for_sandboxes(since),
            _ => true,
        };
        let is_whole = self.known.end_orphans() && is_whole && is_empty;
        if !is_whole {
            tracing::warn!(leader = ?self.leader, "processes of a command are still there after SIGKILL");
        }
        is_whole
    }

    /// Returns who is there now, orphans that can be nobody else's among them.
    pub(crate) fn everybody(&mut self) -> Vec<Member> {
        let mut all = self.members();
        let orphans = self.known.since().map(|since| self.known.orphans(since));
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
            close.extend(domain.holds(&table.living()));
        }
        let mut found = table.with_descendants(close);
        self.seen
            .retain(|seen| !found.contains(seen) && seen.is_alive());
        found.append(&mut self.seen);
        self.seen.clone_from(&found);
        found
    }
}
