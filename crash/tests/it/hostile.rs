//! A hostile model neither escapes its sandbox nor delays other sessions.

use std::process::Command;

#[test]
fn hostile_model_does_no_harm() {
    let trial = Command::new(env!("CARGO_BIN_EXE_windlass-crash"))
        .args(["hostile", "--seconds", "15", "--seed", "20261117"])
        .output()
        .unwrap();
    let (output, errors) = (
        String::from_utf8_lossy(&trial.stdout),
        String::from_utf8_lossy(&trial.stderr),
    );
    assert!(trial.status.success(), "{output}\n{errors}");
}

#[test]
fn no_command_escapes_its_sandbox() {
    for sandbox in ["bubblewrap", "landlock"] {
        let trial = Command::new(env!("CARGO_BIN_EXE_windlass-crash"))
            .args(["hostile", "--escapes-only", "--sandbox", sandbox])
            .status()
            .unwrap();
        assert!(trial.success(), "{sandbox}");
    }
}
