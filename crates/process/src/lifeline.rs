//! Ends a program when the host's process dies.
//!
//! A sandbox of bubblewrap does that itself. Elsewhere a small process holds the reading end of a pipe whose writing end is
//! ours: when we are gone, however that came about, it reads the end of the pipe and kills the program's processes.
//!
//! Under landlock it lives in a domain of its own around that of the program: it may signal everybody in there and nobody
//! else, and they may not signal it. So whom it can signal is the program's, whatever became of its processes.

use std::io::{PipeWriter, Write, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

use crate::error::ProcessError;
use crate::launch::pid_of;
use crate::orphans::{self, Brood, Known};
use crate::processes::MARK;

/// The first line is the group to kill; the second never comes. Those that left the group are found by their mark. What
/// they had for temporary files goes too.
///
/// In a domain, one signal goes to every process that can be signalled, so that no chain of forks escapes it. It is sent only if
/// two rules of the kernel were seen to be enforced: the host, alive and of the same user, could neither be signalled nor
/// inspected.
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

/// Whether the thread that starts a lifeline is in a domain of landlock that keeps its signals inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Around {
    Nothing,
    Domain,
}

/// A process that kills a program if we cannot.
pub(crate) struct Lifeline {
    watcher: Child,
    line: PipeWriter,
    _known: Known,
}

impl Lifeline {
    /// Starts the watcher; it has to be there before the program is.
    pub(crate) fn start(
        mark: &str,
        scratch: Option<&Path>,
        around: Around,
    ) -> Result<Self, ProcessError> {
        use std::os::unix::process::CommandExt;

        let (reader, line) = pipe().map_err(ProcessError::io("make a pipe"))?;
        let mut command = Command::new("/bin/sh");
        command
            .args(["-c", WATCH, "windlass-lifeline"])
            .arg(format!("{MARK}={mark}"))
            .arg(match around {
                Around::Nothing => "nothing",
                Around::Domain => "domain",
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
        let (watcher, known) = orphans::spawn(&mut command, Brood::Never)
            .map_err(ProcessError::io("start the watcher of the command"))?;
        Ok(Self {
            watcher,
            line,
            _known: known,
        })
    }

    pub(crate) fn pid(&self) -> Option<Pid> {
        pid_of(&self.watcher)
    }

    /// Tells the watcher whom to kill.
    pub(crate) fn watch(&mut self, group: u32) {
        // If the watcher is gone there is nobody to tell; the program is still ended by us.
        let _ = writeln!(self.line, "{group}");
    }
}

impl Drop for Lifeline {
    fn drop(&mut self) {
        // It must not read the end of the pipe: by then the group's number may mean others.
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}
