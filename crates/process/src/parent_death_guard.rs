//! Kills a program when the host's process dies.
//!
//! Bubblewrap does that itself. For other programs, a small process holds the reading end of a pipe whose writing end is ours. When the host dies for
//! any reason, the guard reads the end of the pipe and kills the program's processes.
//!
//! Under Landlock the guard runs in a domain around that of the program: it may signal only the processes in there, and they may not signal it. Every
//! process it can signal therefore belongs to the program.

use std::io::{PipeWriter, Write, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

use crate::error::ProcessError;
use crate::launch::pid_of;
use crate::orphans::{self, ChildRegistration, OrphanRisk};
use crate::processes::MARK;

/// The first line is the process group to kill; the second line never comes. Processes that left the group are found by their mark. The directory for
/// temporary files is removed too.
///
/// In a domain, one signal goes to every process that can be signalled, so that no chain of forks escapes it. It is sent only after a check that the
/// kernel enforces two rules: the host, alive and of the same user, can neither be signalled nor inspected.
const WATCH: &str = r#"
in_domain=
if [ "$2" = domain ] && [ "$PPID" = "$3" ] && ! kill -0 "$PPID" 2>/dev/null && [ ! -e "/proc/$PPID/exe" ] && [ -d "/proc/$PPID" ]
then in_domain=yes; fi
read -r group
read -r _
[ -n "$in_domain" ] && kill -s KILL -- -1
[ -n "$group" ] && kill -KILL -- "-$group"
grep -lsaF -- "$1" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do kill -KILL "$pid"; done
[ -n "$4" ] && rm -rf -- "$4"
"#;

/// Whether the thread that starts a guard is in a Landlock domain that confines signals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GuardScope {
    Unscoped,
    Domain,
}

/// A process that kills a program if the host cannot.
pub(crate) struct ParentDeathGuard {
    guard: Child,
    line: PipeWriter,
    _registration: ChildRegistration,
}

impl ParentDeathGuard {
    /// Starts the guard process, which must exist before the program does.
    pub(crate) fn start(
        mark: &str,
        scratch: Option<&Path>,
        scope: GuardScope,
    ) -> Result<Self, ProcessError> {
        use std::os::unix::process::CommandExt;

        let (reader, line) = pipe().map_err(ProcessError::io("make a pipe"))?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WATCH, "windlass-guard"])
            .arg(format!("{MARK}={mark}"))
            .arg(match scope {
                GuardScope::Unscoped => "nothing",
                GuardScope::Domain => "domain",
            })
            .arg(std::process::id().to_string())
            .args(scratch)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .process_group(0)
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let (guard, registration) = orphans::spawn(&mut command, OrphanRisk::Never)
            .map_err(ProcessError::io("start the guard of the command"))?;
        Ok(Self {
            guard,
            line,
            _registration: registration,
        })
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        pid_of(&self.guard)
    }

    /// Sends the guard the process group to kill.
    pub(crate) fn watch(&mut self, group: u32) {
        // If the guard is gone, the host can still end the program.
        let _ = writeln!(self.line, "{group}");
    }
}

impl Drop for ParentDeathGuard {
    fn drop(&mut self) {
        // The guard must not read the end of the pipe, because the group's ID may have been reused by then.
        let _ = self.guard.kill();
        let _ = self.guard.wait();
    }
}
