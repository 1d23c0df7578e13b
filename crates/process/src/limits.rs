//! Limits that the kernel holds a program to, and the signal that it gets when we die. Both are set by a shell that then
//! becomes the program, so that they hold from its first moment on, and nothing has to run between fork and exec. It also closes what the
//! host itself was started with: an open directory would lead out of every sandbox.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::confine::Confinement;

/// The shell that sets them. It reads no word of the caller's.
const SHELL: &str = "/bin/sh";
/// The one that can close every open file; the other can only close those with a number below 10.
const CLOSING_SHELL: &str = "/bin/bash";
/// Closes all open files but the first three.
const CLOSE: &str = "for n in /proc/self/fd/*; do n=${n##*/}; case $n in [012]) ;; *) eval \"exec $n>&-\" ;; esac; done; ";
const CLOSE_FEW: &str = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ";
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
    let mut shell = SHELL;
    if inherits_open_files() {
        let can_close = Path::new(CLOSING_SHELL).exists();
        script.push_str(if can_close { CLOSE } else { CLOSE_FEW });
        shell = if can_close { CLOSING_SHELL } else { SHELL };
    }
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
    vec![shell.to_owned(), "-c".to_owned(), script]
}

/// Tells whether this process was started with open files that its programs would have too. Those that it opens itself are closed when it
/// starts one, so it is looked at once.
#[cfg(target_os = "linux")]
fn inherits_open_files() -> bool {
    static INHERITS: OnceLock<bool> = OnceLock::new();
    /// As the kernel writes it.
    const CLOSED_ON_START: u32 = 0o2_000_000;
    let stays = |number: &str| {
        let known = match std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")) {
            Ok(known) => known,
            // It was closed meanwhile. What cannot be read may be anything.
            Err(error) => return error.kind() != std::io::ErrorKind::NotFound,
        };
        let flags = known.lines().find_map(|line| line.strip_prefix("flags:"));
        let flags = flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok());
        flags.is_none_or(|flags| flags & CLOSED_ON_START == 0)
    };
    *INHERITS.get_or_init(|| {
        let Ok(open) = std::fs::read_dir("/proc/self/fd") else {
            return true;
        };
        { open }.any(|file| {
            let Ok(file) = file else {
                return true;
            };
            let name = file.file_name();
            let number = name.to_str().unwrap_or_default();
            !["0", "1", "2"].contains(&number) && stays(number)
        })
    })
}

/// Nobody tells which they are.
#[cfg(not(target_os = "linux"))]
fn inherits_open_files() -> bool {
    false
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
