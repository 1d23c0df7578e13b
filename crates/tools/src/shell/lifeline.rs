//! Ends a command when the host's process dies.
//!
//! A sandbox of bubblewrap does that itself. Elsewhere a small process holds the reading end of a pipe whose writing end is
//! ours: when we are gone, however that came about, it reads the end of the pipe and kills the command's processes.

use std::io::{PipeWriter, Write, pipe};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use super::error::ShellError;
use super::processes::MARK;

/// The first line is the group to kill; the second never comes. Those that left the group are found by their mark. What
/// they had for temporary files goes too.
const WATCH: &str = r#"
read -r group
read -r _
[ -n "$group" ] && kill -KILL -- "-$group"
grep -lsaF -- "$1" /proc/[0-9]*/environ | while IFS=/ read -r _ _ pid _; do kill -KILL "$pid"; done
[ -n "$2" ] && rm -rf -- "$2"
"#;

/// A process that kills a command if we cannot.
pub(super) struct Lifeline {
    watcher: Child,
    line: PipeWriter,
}

impl Lifeline {
    /// Starts the watcher; it has to be there before the command is.
    pub(super) fn start(mark: &str, scratch: Option<&Path>) -> Result<Self, ShellError> {
        use std::os::unix::process::CommandExt;

        let (reader, line) = pipe().map_err(ShellError::io("make a pipe"))?;
        let watcher = Command::new("/bin/sh")
            .args(["-c", WATCH, "windlass-lifeline"])
            .arg(format!("{MARK}={mark}"))
            .args(scratch)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .current_dir("/")
            .process_group(0)
            .stdin(reader)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .map_err(ShellError::io("start the watcher of the command"))?;
        Ok(Self { watcher, line })
    }

    /// Tells the watcher whom to kill.
    pub(super) fn watch(&mut self, group: u32) {
        // If the watcher is gone there is nobody to tell; the command is still ended by us.
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
