//! Who is under the rules of one program.
//!
//! Landlock lets a thread signal and look into those processes alone that are under the same rules or under more. No process can
//! leave its rules. So a thread of ours under the program's rules can tell who belongs to it, whatever they have done to
//! hide it.

use std::collections::HashSet;
use std::io;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::test_kill_process;

use super::landlock::signals_stay_inside;
use crate::processes::Member;

/// A thread under the rules of a program. It ends when this is dropped.
pub(crate) struct Domain {
    ask: Sender<Question>,
}

struct Question {
    members: Vec<Member>,
    answer: Sender<HashSet<i32>>,
}

impl Domain {
    /// Starts a thread under the rules of the calling one.
    pub(crate) fn of_this_thread() -> io::Result<Self> {
        let (ask, questions) = channel::<Question>();
        let named = thread::Builder::new().name("windlass-domain".to_owned());
        named.spawn(move || {
            for Question { members, answer } in questions {
                let held = members.iter().filter(|member| is_inside(member));
                let _ = answer.send(held.map(Member::number).collect());
            }
        })?;
        Ok(Self { ask })
    }

    /// Returns those of these processes that are under the rules.
    pub(crate) fn holds(&self, members: &[Member]) -> HashSet<i32> {
        let (answer, told) = channel();
        let members = members.to_vec();
        let _ = self.ask.send(Question { members, answer });
        told.recv().unwrap_or_default()
    }
}

fn is_inside(member: &Member) -> bool {
    match signals_stay_inside() {
        true => test_kill_process(member.pid).is_ok(),
        // Older kernels keep only looks inside. One that forbids all looks into it is then not found.
        false => std::fs::read_link(format!("/proc/{}/exe", member.number())).is_ok(),
    }
}
