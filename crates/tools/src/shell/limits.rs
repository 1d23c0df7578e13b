//! Limits that the kernel holds a command to. They are set by a shell that then becomes the command, so that they hold
//! from its first moment on, and nothing has to run between fork and exec.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use super::ShellSettings;
use super::confine::Confinement;

/// Adds what a command runs to the program that confines it.
pub(super) fn add_command(
    command: &mut Command,
    settings: &ShellSettings,
    confinement: Confinement,
    text: &str,
) {
    let mut limits = limits(settings, confinement);
    if limits.is_empty() {
        command.arg("-c").arg(text);
        return;
    }
    limits.push_str("exec \"$0\" -c \"$1\"");
    command.arg("-c").arg(limits);
    command.arg(&settings.shell).arg(text);
}

/// Adds a program to the one that confines it; its own arguments are still to be added.
pub(super) fn add_program(
    command: &mut Command,
    settings: &ShellSettings,
    confinement: Confinement,
    program: &Path,
) {
    let mut limits = limits(settings, confinement);
    limits.push_str("exec \"$0\" \"$@\"");
    command.arg("-c").arg(limits).arg(program);
}

fn limits(settings: &ShellSettings, confinement: Confinement) -> String {
    let mut limits = String::new();
    if let Some(bytes) = settings.max_memory_bytes {
        let kilobytes = (bytes / 1024).max(1);
        // What is only reserved does not count, which programs do by the terabyte.
        let _ = write!(limits, "ulimit -d {kilobytes} 2>/dev/null; ");
    }
    let processes = settings.max_processes;
    if let Some(count) = processes.filter(|_| confinement == Confinement::Bubblewrap) {
        // Shells do not agree on the letter.
        let _ = write!(
            limits,
            "ulimit -u {count} 2>/dev/null || ulimit -p {count} 2>/dev/null; "
        );
    }
    limits
}
