//! Resource limits of a program, and the signal it receives when the host dies. A shell sets both and then executes the program, so they are in force
//! from its first instruction and no code runs between fork and exec. The shell also closes the files that the host inherited: an open directory
//! would be a way out of every sandbox.

use std::fmt::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use crate::confine::Confinement;

/// The shell that sets them. It interprets no text from the caller.
const SHELL: &str = "/bin/sh";
/// A shell that can close every open file; `/bin/sh` can only close descriptors below 10.
const CLOSING_SHELL: &str = "/bin/bash";
/// Closes all open files except the first three.
const CLOSE: &str = "for n in /proc/self/fd/*; do n=${n##*/}; case $n in [012]) ;; *) eval \"exec $n>&-\" ;; esac; done; ";
const CLOSE_BELOW_10: &str = "exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; ";
/// The program that sets a death signal. The version in BusyBox cannot.
const SETPRIV: &str = "/usr/bin/setpriv";

/// Resource limits of a program, enforced by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ResourceLimits {
    /// Maximum data memory of each process in bytes; `None` means no limit.
    pub max_memory_bytes: Option<u64>,
    /// Maximum number of processes and threads at once; `None` means the system's limit. Enforced only in bubblewrap: elsewhere the kernel would
    /// count all processes of the user.
    pub max_processes: Option<u64>,
}

/// Returns the words that precede the program and its arguments.
pub(crate) fn wrapper_arguments(limits: ResourceLimits, confinement: Confinement) -> Vec<String> {
    let mut script = String::new();
    let mut shell = SHELL;
    if inherits_open_files() {
        let can_close = Path::new(CLOSING_SHELL).exists();
        script.push_str(if can_close { CLOSE } else { CLOSE_BELOW_10 });
        shell = if can_close { CLOSING_SHELL } else { SHELL };
    }
    if let Some(bytes) = limits.max_memory_bytes {
        let kilobytes = (bytes / 1024).max(1);
        // Limits used memory, not reserved address space, of which programs request terabytes.
        let _ = write!(script, "ulimit -d {kilobytes} 2>/dev/null; ");
    }
    let is_sandbox = confinement == Confinement::Bubblewrap;
    if let Some(count) = limits.max_processes.filter(|_| is_sandbox) {
        // Shells use different option letters for this limit.
        let _ = write!(
            script,
            "ulimit -u {count} 2>/dev/null || ulimit -p {count} 2>/dev/null; "
        );
    }
    let has_death_signal = !is_sandbox && can_set_death_signal();
    if script.is_empty() && !has_death_signal {
        return Vec::new();
    }
    if has_death_signal {
        let _ = write!(script, "exec {SETPRIV} --pdeathsig KILL -- \"$0\" \"$@\"");
    } else {
        script.push_str("exec \"$0\" \"$@\"")
    }
    vec![shell.to_owned(), "-c".to_owned(), script]
}

/// Returns whether this process inherited open files that its programs would inherit too. Files that it opens itself are closed on exec, so checking
/// once is sufficient.
#[cfg(target_os = "linux")]
fn inherits_open_files() -> bool {
    static INHERITS: OnceLock<bool> = OnceLock::new();
    /// `O_CLOEXEC` as `/proc` prints it.
    const CLOSED_ON_START: u32 = 0o2_000_000;
    let is_inherited = |number: &str| {
        let known = match std::fs::read_to_string(format!("/proc/self/fdinfo/{number}")) {
            Ok(known) => known,
            // A missing file was closed meanwhile. Any other error counts as an open file.
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
            !["0", "1", "2"].contains(&number) && is_inherited(number)
        })
    })
}

/// There is no way to list open files without `/proc`.
#[cfg(not(target_os = "linux"))]
fn inherits_open_files() -> bool {
    false
}

/// Returns whether a program can be made to die with the thread that started it. Bubblewrap does this without help.
pub(crate) fn can_set_death_signal() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    *CAN.get_or_init(|| {
        let status = Path::new(SETPRIV).exists().then(|| {
            Command::new(SETPRIV)
                .args(["--pdeathsig", "KILL", "--", SHELL, "-c", ":"])
                .env_clear()
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status()
        });
        matches!(status, Some(Ok(status)) if status.success())
    })
}
