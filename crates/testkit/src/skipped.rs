//! Reports of skipped tests.

use std::io::Write;

/// Reports that a test, or a part of it, did not run on this machine, as a separate line `SKIPPED: <what>: <why>`.
///
/// The line bypasses the output capture of the test harness, so that skipped tests are always visible and counted.
pub fn skipped(what: &str, why: &str) {
    let line = format!("\nSKIPPED: {what}: {why}\n");
    // One write, so that the lines of several tests do not mix.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
