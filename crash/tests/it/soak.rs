//! The resource usage of a runtime with changing sessions levels off.

use std::process::Command;

#[test]
fn memory_log_and_disk_level_off() {
    let soak = Command::new(env!("CARGO_BIN_EXE_windlass-crash"))
        .args(["soak", "--seconds", "45", "--seed", "20261116"])
        .output()
        .unwrap();
    let (output, errors) = (
        String::from_utf8_lossy(&soak.stdout),
        String::from_utf8_lossy(&soak.stderr),
    );
    assert!(soak.status.success(), "{output}\n{errors}");
}
