//! Signals as a program finds them when it starts.
//!
//! What a process ignores, its children ignore too, and a shell cannot undo it: in a host that a script started in the background, nobody would hear an
//! interrupt. What a process handles is back to its default in a child. So what the host ignores it handles from now on, by doing nothing.

use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

/// Sees to it that a program that is started from now on ignores none of the signals by which programs are asked to end.
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

/// Returns the set of ignored signals; `None` where the kernel does not tell.
fn ignored() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(set.trim(), 16).ok()
}
