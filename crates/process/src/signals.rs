//! Signal dispositions that a program inherits.
//!
//! A child inherits ignored signals, and a shell cannot reset them: under a host that a script started in the background, programs would ignore
//! SIGINT. Handled signals are reset to their defaults in a child. The host therefore installs an empty handler for each signal that it ignores.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Ensures that programs started from now on ignore none of the signals that request an exit.
pub(crate) fn reset_for_children() -> io::Result<()> {
    let Some(ignored) = ignored() else {
        return Ok(());
    };
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        if ignored & (1 << (signal - 1)) != 0 {
            signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))?;
        }
    }
    Ok(())
}

/// Returns the set of ignored signals; `None` if the kernel does not report it.
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}
