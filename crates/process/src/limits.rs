//! Limits that the kernel holds a program to, and the signal that it gets when we die. Both are set by a shell that then
//! becomes the program, so that they hold from its first moment on, and nothing has to run between fork and exec.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::confine::Confinement;

/// The shell that sets them. It reads no word of the caller's.
const SHELL: &str = "/bin/sh";
/// Sets a death signal. The one of busybox cannot.
const SETPRIV: &str = "/usr/bin/setpriv";

/// Limits that the kernel holds a program to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    /// How much memory each process may use for its data, in bytes; `None` is as much as there is.
    pub max_memory_bytes: Option<u64>,
    /// How many processes and threads there may be at once; `None` is as many as the system allows. It holds in bubblewrap
    /// alone: elsewhere the kernel would count all of the user's.
    pub max_processes: Option<u64>,
}

/// Returns the words that come before the program and its arguments.
pub(crate) fn words_before(limits: Limits, confinement: Confinement) -> Vec<String> {
    let mut script = String::new();
    if let Some(bytes) = limits.max_memory_bytes {
        let kilobytes = (bytes / 1024).max(1);
        // What is only reserved does not count, which programs do by the terabyte.
        let _ = write!(script, "ulimit -d {kilobytes} 2>/dev/null; ");
    }
    let is_sandbox = confinement == Confinement::Bubblewrap;
    if let Some(count) = limits.max_processes.filter(|_| is_sandbox) {
        // Shells do not agree on the letter.
        let _ = write!(
            script,
            "ulimit -u {count} 2>/dev/null || ulimit -p {count} 2>/dev/null; "
        );
    }
    let has_death_signal = !is_sandbox && can_set_death_signal();
    if script.is_empty() && !has_death_signal {
        return Vec::new();
    }
    match has_death_signal {
        true => {
            let _ = write!(script, "exec {SETPRIV} --pdeathsig KILL -- \"$0\" \"$@\"");
        }
        false => script.push_str("exec \"$0\" \"$@\""),
    }
    vec![SHELL.to_owned(), "-c".to_owned(), script]
}

/// Tells whether a program can be made to die with the thread that started it. A sandbox of bubblewrap does so by itself.
pub(crate) fn can_set_death_signal() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let tried = Path::new(SETPRIV).exists().then(|| {
            Command::new(SETPRIV)
                .args(["--pdeathsig", "KILL", "--", SHELL, "-c", ":"])
                .env_clear()
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
        });
        matches!(tried, Some(Ok(status)) if status.success())
    })
}
