//! Starting programs: cargo above all.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::failure::Failure;
use crate::tally::Tally;

/// The cargo that started this program, at the root of the workspace.
pub(crate) fn cargo() -> Command {
    let program = std::env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"));
    let mut command = Command::new(program);
    command.current_dir(root());
    command
}

/// The root of the workspace.
pub(crate) fn root() -> PathBuf {
    // Cargo tells where the package is now; the place it was compiled in is only the second guess.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let mut path = PathBuf::from(package);
    path.pop();
    path
}

/// Runs a program whose output goes straight to ours.
pub(crate) fn run(mut command: Command) -> Result<(), Failure> {
    let status = command.status().map_err(|e| cannot("start", &command, e))?;
    status.success().then_some(()).ok_or(Failure::Shown)
}

/// Tells whether a program can be run at all, without showing what it prints.
pub(crate) fn works(mut command: Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a program and returns what it prints on stdout.
pub(crate) fn read(mut command: Command) -> Result<String, Failure> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| cannot("start", &command, e))?;
    if !output.status.success() {
        return Err(Failure::Shown);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs tests: passes their output on line by line and adds their results to `tally`, also when they fail.
pub(crate) fn run_tests(mut command: Command, tally: &mut Tally) -> Result<(), Failure> {
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|e| cannot("start", &command, e))?;
    let passed_on = match child.stdout.take() {
        Some(output) => pass_on(BufReader::new(output), &mut std::io::stdout().lock(), tally),
        None => Ok(()),
    };
    let status = child.wait().map_err(|e| cannot("wait for", &command, e))?;
    passed_on.map_err(|e| cannot("read", &command, e))?;
    status.success().then_some(()).ok_or(Failure::Shown)
}

fn pass_on(mut from: impl BufRead, to: &mut impl Write, tally: &mut Tally) -> std::io::Result<()> {
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        if let Some(result) = Tally::of_line(&String::from_utf8_lossy(&line)) {
            *tally += result;
        }
        line.clear();
    }
    Ok(())
}

fn cannot(verb: &str, command: &Command, source: std::io::Error) -> Failure {
    Failure::Io {
        doing: format!("{verb} `{}`", command.get_program().display()),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_output_passes_unchanged_while_it_is_summed() {
        let output =
            b"caf\xe9\ntest result: ok. 1 passed; 0 failed; 0 ignored\nno newline at the end";
        let (mut seen, mut tally) = (Vec::new(), Tally::default());
        pass_on(&output[..], &mut seen, &mut tally).unwrap();
        assert_eq!(seen, output);
        assert_eq!(
            tally,
            Tally {
                passed: 1,
                failed: 0
            }
        );
    }
}
