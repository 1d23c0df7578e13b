//! The processes in the Landlock domain of one program.
//!
//! Landlock lets a thread signal and inspect only processes in its own domain or in a nested one, and no process can leave its domain. A thread of
//! this process in the program's domain therefore finds all its processes, however they try to hide. It can kill all of them with one system call.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::{Pid, Signal, kill_process_group, test_kill_process};

use crate::processes::Member;

/// A thread in the domain of a program. The thread ends when this is dropped.
pub(crate) struct Domain {
    requests: Sender<Request>,
}

enum Request {
    Find {
        members: Vec<Member>,
        found: Sender<HashSet<i32>>,
    },
    Kill {
        done: Sender<()>,
    },
}

impl Domain {
    /// Starts a thread in the domain of the calling thread. `outsider` is a live process of the same user outside the domain.
    pub(crate) fn for_current_thread(outsider: Option<Pid>) -> io::Result<Self> {
        let (requests, inbox) = channel::<Request>();
        let thread = thread::Builder::new().name("windlass-domain".to_owned());
        thread.spawn(move || {
            // Tested rather than inferred from the kernel's version: on a kernel that does not confine signals, a signal to all processes would end
            // everything the user runs.
            let confines_signals =
                outsider.is_some_and(|pid| test_kill_process(pid) == Err(rustix::io::Errno::PERM));
            for request in inbox {
                match request {
                    Request::Find { members, found } => {
                        let inside = members
                            .iter()
                            .filter(|member| is_inside(member, confines_signals));
                        let _ = found.send(inside.map(Member::number).collect());
                    }
                    Request::Kill { done } => {
                        if confines_signals {
                            kill_everything();
                        }
                        let _ = done.send(());
                    }
                }
            }
        })?;
        Ok(Self { requests })
    }

    /// Returns the processes of `members` that are in the domain.
    pub(crate) fn members_inside(&self, members: &[Member]) -> HashSet<i32> {
        let (found, answer) = channel();
        let members = members.to_vec();
        let _ = self.requests.send(Request::Find { members, found });
        answer.recv().unwrap_or_default()
    }

    /// Kills all processes in the domain. Does nothing if the kernel does not confine signals.
    pub(crate) fn kill(&self) {
        let (done, answer) = channel();
        let _ = self.requests.send(Request::Kill { done });
        let _ = answer.recv();
    }
}

/// `kill(-1, SIGKILL)` signals every process that the calling thread may signal, except its own. The kernel delivers it to all of them before any can
/// fork, so no chain of forks escapes it.
fn kill_everything() {
    let _ = kill_process_group(Pid::INIT, Signal::KILL);
}

fn is_inside(member: &Member, confines_signals: bool) -> bool {
    if confines_signals {
        return test_kill_process(member.pid).is_ok();
    }
    // Older kernels confine only inspection. A process that forbids every inspection of itself is then not found.
    std::fs::read_link(format!("/proc/{}/exe", member.number())).is_ok()
}
