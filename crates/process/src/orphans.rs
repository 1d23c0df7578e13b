//! Processes that lost their parent and came to us.
//!
//! A program without a sandbox can leave its group, its session and its variables behind; all that is left is that it
//! descends from us. A host that calls [`adopt_orphans`] becomes the parent of such processes when their own is gone. Which
//! call an orphan came from the system does not tell, but it tells when it was born: what was born while only one call was at
//! work is that one's, and else it goes with the last of those that were.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};

use crate::processes::{Member, Table};

static ADOPTS: AtomicBool = AtomicBool::new(false);
/// Whoever starts a program reads, and who looks for orphans writes: a child that is not in the list yet is no orphan.
static GATE: RwLock<()> = RwLock::new(());
static STARTED: Mutex<Option<HashMap<i32, Start>>> = Mutex::new(None);

/// What is known of a child that we started.
#[derive(Debug, Clone, Copy)]
enum Start {
    /// Orphans may come from it that were born no earlier than it.
    Of(u64),
    /// None come from it.
    Childless,
}

/// Makes this process the parent of all orphans that descend from it (a *child subreaper*), and ends those that programs
/// started by this crate leave.
///
/// It is for hosts that start programs by this crate alone: a child of ours in a process group of its own that
/// this crate did not start is taken for an orphan. It lasts as long as the process. Elsewhere than on Linux it is refused.
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
pub(crate) enum Brood {
    Possible,
    /// It is a sandbox that keeps its orphans, or has no children.
    Never,
}

/// A child that we started. Drop it when the child is reaped, not before.
pub(crate) struct Known {
    pid: i32,
    start: Option<u64>,
}

/// Starts a program so that it is never taken for an orphan.
pub(crate) fn spawn(command: &mut Command, brood: Brood) -> io::Result<(Child, Known)> {
    let _gate = GATE.read().unwrap_or_else(PoisonError::into_inner);
    let child = command.spawn()?;
    Ok(remember(child, brood))
}

/// Starts a program that inherits open files. Nobody else is started meanwhile, who would inherit them too.
pub(crate) fn spawn_inheriting(
    command: &mut Command,
    brood: Brood,
    inherited: &[OwnedFd],
) -> io::Result<(Child, Known)> {
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
    Ok(remember(child?, brood))
}

fn remember(child: Child, brood: Brood) -> (Child, Known) {
    let pid = i32::try_from(child.id()).unwrap_or_default();
    let birth = Pid::from_raw(pid).and_then(Member::birth);
    // Where that is not told, any orphan may be its.
    let start = (brood == Brood::Possible).then(|| birth.unwrap_or(0));
    let known = start.map_or(Start::Childless, Start::Of);
    started().get_or_insert_default().insert(pid, known);
    (child, Known { pid, start })
}

impl Drop for Known {
    fn drop(&mut self) {
        if let Some(started) = started().as_mut() {
            started.remove(&self.pid);
        }
    }
}

impl Known {
    /// Ends the orphans that only this child can have left, and buries the dead ones. Tells whether all are gone.
    pub(crate) fn end_orphans(&self) -> bool {
        if !ADOPTS.load(Ordering::Acquire) {
            return true;
        }
        let is_whole = match self.start {
            Some(since) => crate::kill::kill_all(|| self.orphans(since)),
            None => true,
        };
        bury();
        is_whole
    }

    /// Returns the orphans, as of now, that only this child can have left, with what descends from them.
    pub(crate) fn orphans(&self, since: u64) -> Vec<Member> {
        if !ADOPTS.load(Ordering::Acquire) {
            return Vec::new();
        }
        let _gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
        let table = Table::read();
        let known = started().clone().unwrap_or_default();
        let may_be_of_another = |member: &Member| {
            let mut others = known.iter().filter(|(pid, _)| **pid != self.pid);
            others.any(|(_, start)| matches!(start, Start::Of(start) if *start <= member.start))
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
        self.start
    }
}

/// Takes note of dead orphans, so that the system forgets them.
fn bury() {
    let _gate = GATE.write().unwrap_or_else(PoisonError::into_inner);
    let known = started().clone().unwrap_or_default();
    for (member, is_dead) in Table::read().children_elsewhere() {
        if is_dead && !known.contains_key(&member.number()) {
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
            let _ = waitid(WaitId::Pid(member.pid), options);
        }
    }
}

fn started() -> MutexGuard<'static, Option<HashMap<i32, Start>>> {
    STARTED.lock().unwrap_or_else(PoisonError::into_inner)
}
