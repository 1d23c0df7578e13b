//! The example runs offline and prints the expected output.

use std::path::{Path, PathBuf};
use std::process::Command;

#[test]
fn workspace() {
    let this = std::env::current_exe().unwrap();
    let profile = this.parent().and_then(Path::parent).unwrap();
    let program = profile.join("examples/workspace");
    let mut command = if program.is_file() {
        Command::new(program)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["run", "--quiet", "--example", "workspace"])
            .current_dir(PathBuf::from(env!("CARGO_MANIFEST_DIR")));
        cargo
    };
    let ran = command.output().unwrap();
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{errors}");
    let printed = String::from_utf8(ran.stdout).unwrap();
    assert_eq!(printed, include_str!("example.txt"), "{errors}");
}
