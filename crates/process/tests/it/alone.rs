//! Runs tests in a separate process.

use std::process::Command;

/// Runs one ignored test of this binary in a separate process.
pub(crate) fn alone(name: &str) {
    let ran = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--ignored", "--nocapture"])
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    let complained = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{output}\n{complained}");
    assert!(
        output.contains("1 passed"),
        "there is no test {name}: {output}"
    );
}
