//! Every example runs, and prints what is written beside this file. `WINDLASS_BLESS=1` writes it anew.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

macro_rules! examples {
    ($($(#[$condition:meta])* $name:ident,)*) => {
        $(
            $(#[$condition])*
            #[test]
            fn $name() {
                check(stringify!($name));
            }
        )*
        /// The examples that are checked, whatever features are on.
        const NAMES: &[&str] = &[$(stringify!($name)),*];
    };
}

examples! {
    #[cfg(feature = "sqlite")]
    after_a_crash,
    approval,
    cancel_and_resume,
    client_side_tool,
    closure_tool,
    hello,
    #[cfg(feature = "real-disk")]
    real_disk,
    streaming,
    #[cfg(feature = "typed-tools")]
    typed_output,
}

#[test]
fn every_example_is_checked() {
    let files = std::fs::read_dir(package().join("examples")).unwrap();
    let mut found: Vec<_> = files
        .map(|file| file.unwrap().path())
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    found.sort();
    assert_eq!(found, NAMES);
}

fn check(name: &str) {
    let Output {
        status,
        stdout,
        stderr,
    } = run(name);
    let stderr = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{name} failed ({status}):\n{stderr}");
    let printed = String::from_utf8(stdout).unwrap();
    let path = package().join(format!("tests/it/examples/{name}.txt"));
    if std::env::var_os("WINDLASS_BLESS").is_some() {
        std::fs::write(&path, &printed).unwrap();
    }
    let expected = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(
        printed,
        expected,
        "{name} prints something else than {}; if it should, run again with WINDLASS_BLESS=1",
        path.display()
    );
}

/// Runs the program that cargo built together with this one; where there is none, lets cargo build it.
fn run(name: &str) -> Output {
    let this = std::env::current_exe().unwrap();
    let profile = this.parent().and_then(Path::parent).unwrap();
    let program = profile
        .join("examples")
        .join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    let mut command = if program.is_file() {
        Command::new(program)
    } else {
        let mut cargo = Command::new(env!("CARGO"));
        cargo
            .args(["run", "--quiet", "--all-features", "--example", name])
            .current_dir(package());
        cargo
    };
    command.output().unwrap()
}

fn package() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}
