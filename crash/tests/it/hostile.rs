//! A hostile model neither escapes its sandbox nor delays other sessions.

use std::process::Command;

#[test]
fn a_hostile_model_breaks_nothing() {
    let trial = Command::new(env!("CARGO_BIN_EXE_windlass-crash"))
        .args(["hostile", "--seconds", "15", "--seed", "20261117"])
        .output()
        .unwrap();
    let (said, trouble) = (
        String::from_utf8_lossy(&trial.stdout),
        String::from_utf8_lossy(&trial.stderr),
    );
    assert!(trial.status.success(), "{said}\n{trouble}");
}

#[test]
fn a_command_escapes_from_neither_sandbox() {
    for sandbox in ["bubblewrap", "landlock"] {
        let trial = Command::new(env!("CARGO_BIN_EXE_windlass-crash"))
            .args(["hostile", "--escapes-only", "--sandbox", sandbox])
            .status()
            .unwrap();
        assert!(trial.success(), "{sandbox}");
    }
}
