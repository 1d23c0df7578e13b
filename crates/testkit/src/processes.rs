//! Queries of this machine's processes, for tests that no process is left behind.

use std::fs;
use std::sync::atomic::{AtomicU32, Ordering};

/// A number of seconds that only one test sleeps, so that its processes can be identified.
pub fn unique_sleep() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = NEXT.fetch_add(1, Ordering::Relaxed);
    format!("86400.{:07}{next:03}", std::process::id())
}

/// Returns the live processes whose command line matches; none if the system has no `/proc`.
pub fn pids_of(is_match: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid: &u32| {
        let command = fs::read(format!("/proc/{pid}/cmdline"));
        command.is_ok_and(|command| is_match(&command))
    })
    .collect()
}

/// Returns the processes that sleep for this long.
pub fn sleepers(seconds: &str) -> Vec<u32> {
    let wanted = format!("sleep\0{seconds}\0");
    pids_of(|command| command == wanted.as_bytes())
}
