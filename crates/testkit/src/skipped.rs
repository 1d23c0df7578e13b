//! What is not tested on this machine.

use std::io::Write;

/// Says that a test, or a part of it, did not run here and why, as a line `SKIPPED: <what>: <why>` of its own.
///
/// It goes past the test harness, which would keep it for itself: what is not tested must be seen, and is counted.
pub fn skipped(what: &str, why: &str) {
    let line = format!("\nSKIPPED: {what}: {why}\n");
    // One write, so that the lines of several tests do not mix.
    let _ = std::io::stderr().write_all(line.as_bytes());
}
