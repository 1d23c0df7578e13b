//! Processes that lost their parent and were reparented to this process.
//!
//! A program without a sandbox can leave its group, its session and its variables; only its descent from this process remains. A host that calls
//! [`adopt_orphans`] becomes the parent of such processes when their own parent is gone. The system does not report which call an orphan came from,
//! but it reports the start time. An orphan that started while only one call was running belongs to that call; otherwise it is killed with the last
//! of the calls that were running.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::processes::{Member, Table};

static ADOPTS: AtomicBool = AtomicBool::new(false);
/// Held for reading while a program is started and for writing while orphans are searched: a child that is not in the list yet is not an orphan.
static GATE: RwLock<()> = RwLock::new(());
static STARTED: Mutex<Option<HashMap<i32, Entry>>> = Mutex::new(None);

/// A child in the list. Its PID alone does not identify it: the system may reuse the PID once the child is reaped, which happens before the entry is
/// removed.
#[derive(Debug, Clone, Copy)]
struct Entry {
    id: u64,
    /// Start time of the child, which is that of its oldest possible orphan; `None` if it leaves none.
    start: Option<u64>,
}

/// Makes this process the parent of all orphans that descend from it (a *child subreaper*), and kills the orphans of programs started by this crate.
///
/// Use it only in hosts that start programs through this crate alone: any other child in a separate process group is treated as an orphan. The
/// setting lasts as long as the process. Returns an error on systems other than Linux.
pub fn adopt_orphans() -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        let own = i32::try_from(std::process::id()).ok();
        rustix::process::set_child_subreaper(own.and_then(Pid::from_raw))?;
        ADOPTS.store(true, Ordering::Release);
        Ok(())
    }
    #[cfg(not(target_os = "linux"))]
    Err(io::ErrorKind::Unsupported.into())
}

/// Whether orphans can come from a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OrphanRisk {
    Possible,
    /// The child is a sandbox that adopts its own orphans, or it has no children.
    Never,
}

/// The registration of a child that this process started. Drop it when the child has been reaped, not before.
pub(crate) struct ChildRegistration {
    pid: i32,
    entry: Entry,
}

/// Starts a program and registers it, so that it is never treated as an orphan.
pub(crate) fn spawn(
    command: &mut Command,
    risk: OrphanRisk,
) -> io::Result<(Child, ChildRegistration)> {
    let _gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    Ok(register(child, risk))
}

/// Starts a program that inherits open files. No other program starts meanwhile, because it would inherit them too.
pub(crate) fn spawn_inheriting(
    command: &mut Command,
    risk: OrphanRisk,
    inherited: &[OwnedFd],
) -> io::Result<(Child, ChildRegistration)> {
    let _gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
    let set = |flags| {
        inherited
            .iter()
            .try_for_each(|file| fcntl_setfd(file, flags))
    };
    let opened = set(FdFlags::empty());
    let child = opened
        .map_err(io::Error::from)
        .and_then(|()| command.spawn());
    set(FdFlags::CLOEXEC)?;
    Ok(register(child?, risk))
}

fn register(child: Child, risk: OrphanRisk) -> (Child, ChildRegistration) {
    let pid = i32::try_from(child.id()).unwrap_or_default();
    let birth = Pid::from_raw(pid).and_then(Member::birth);
    // If the start time is unknown, any orphan may belong to this child.
    let start = (risk == OrphanRisk::Possible).then(|| birth.unwrap_or(0));
    (child, ChildRegistration::new(pid, start))
}

impl Drop for ChildRegistration {
    fn drop(&mut self) {
        if let Some(started) = started().as_mut()
            && started
                .get(&self.pid)
                .is_some_and(|entry| entry.id == self.entry.id)
        {
            started.remove(&self.pid);
        }
    }
}

impl ChildRegistration {
    fn new(pid: i32, start: Option<u64>) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let id = NEXT.fetch_add(1, Ordering::Relaxed);
        let entry = Entry { id, start };
        started().get_or_insert_default().insert(pid, entry);
        Self { pid, entry }
    }

    /// Kills the orphans that only this child can have left, and reaps the dead ones. Returns whether all are gone.
    pub(crate) fn end_orphans(&self) -> bool {
        if !ADOPTS.load(Ordering::Acquire) {
            return true;
        }
        let all_ended = match self.entry.start {
            Some(since) => crate::kill::kill_all(|| self.orphans(since)),
            None => true,
        };
        reap_dead_orphans();
        all_ended
    }

    /// Returns the current orphans that only this child can have left, with their descendants.
    pub(crate) fn orphans(&self, since: u64) -> Vec<Member> {
        if !ADOPTS.load(Ordering::Acquire) {
            return Vec::new();
        }
        let _gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
        let table = Table::read();
        let known = started().clone().unwrap_or_default();
        let may_be_of_another = |member: &Member| {
            let mut others = known.iter().filter(|(pid, _)| **pid != self.pid);
            others.any(|(_, entry)| entry.start.is_some_and(|start| start <= member.start))
        };
        let children = table.children_elsewhere().into_iter();
        let orphans = children.filter(|(member, is_dead)| {
            !is_dead
                && member.start >= since
                && !known.contains_key(&member.number())
                && !may_be_of_another(member)
        });
        let orphans = orphans.map(|(member, _)| member.number()).collect();
        table.with_descendants(orphans)
    }

    pub(crate) fn since(&self) -> Option<u64> {
        self.entry.start
    }
}

/// Reaps dead orphans.
fn reap_dead_orphans() {
    let _gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
    let known = started().clone().unwrap_or_default();
    for (member, is_dead) in Table::read().children_elsewhere() {
        if is_dead && !known.contains_key(&member.number()) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let _ = waitid(WaitId::Pid(member.pid), options);
        }
    }
}

fn started() -> MutexGuard<'static, Option<HashMap<i32, Entry>>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reaped_child_does_not_remove_the_entry_of_a_new_child_with_its_pid() {
        // No process has this PID: it is above every limit of the kernel.
        let pid = 1 << 22;
        let reaped = ChildRegistration::new(pid, Some(1));
        let new = ChildRegistration::new(pid, Some(2));
        drop(reaped);
        let has_entry = || started().as_ref().unwrap().contains_key(&pid);
        assert!(has_entry(), "the new child would be treated as an orphan");
        drop(new);
        assert!(!has_entry());
    }
}
