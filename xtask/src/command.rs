//! Starting programs, mainly cargo.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};

use crate::error::XtaskError;
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
    // Cargo sets the package's current path; the compile-time path is only a fallback.
    let package = std::env::var_os("CARGO_MANIFEST_DIR")
        .unwrap_or_else(|| OsString::from(env!("CARGO_MANIFEST_DIR")));
    let mut path = PathBuf::from(package);
    path.pop();
    path
}

/// Runs a program with inherited output.
pub(crate) fn run(mut command: Command) -> Result<(), XtaskError> {
    let status = command.status().map_err(|e| cannot("start", &command, e))?;
    status.success().then_some(()).ok_or(XtaskError::Shown)
}

/// Runs a program and prints its output only if it fails.
pub(crate) fn run_quietly(mut command: Command) -> Result<(), XtaskError> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| cannot("start", &command, e))?;
    if output.status.success() {
        return Ok(());
    }
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(XtaskError::Shown)
}

/// Returns whether a program can be started, without printing its output.
pub(crate) fn works(mut command: Command) -> bool {
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

/// Runs a program and returns its stdout.
pub(crate) fn read(mut command: Command) -> Result<String, XtaskError> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .map_err(|e| cannot("start", &command, e))?;
    if !output.status.success() {
        return Err(XtaskError::Shown);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Runs tests: forwards their output line by line and adds their results to `tally`, also if they fail.
pub(crate) fn run_tests(mut command: Command, tally: &mut Tally) -> Result<(), XtaskError> {
    if std::io::stderr().is_terminal() {
        // Cargo writes to a pipe and cannot detect the terminal.
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| cannot("start", &command, e))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    // Tests report skipped parts on either stream.
    let passed_on = std::thread::scope(|scope| {
        let errors = scope.spawn(|| pass_on(errors, &mut std::io::stderr()));
        tally.add(pass_on(output, &mut std::io::stdout())?);
        tally.add(errors.join().unwrap_or_else(|_| Ok(Tally::default()))?);
        Ok(())
    });
    let status = child.wait().map_err(|e| cannot("wait for", &command, e))?;
    passed_on.map_err(|e| cannot("read", &command, e))?;
    status.success().then_some(()).ok_or(XtaskError::Shown)
}

fn pass_on(from: Option<impl Read>, to: &mut impl Write) -> std::io::Result<Tally> {
    let mut tally = Tally::default();
    let Some(from) = from else { return Ok(tally) };
    let mut from = BufReader::new(from);
    let mut line = Vec::new();
    while from.read_until(b'\n', &mut line)? > 0 {
        to.write_all(&line)?;
        to.flush()?;
        tally.add_line(&String::from_utf8_lossy(&line));
        line.clear();
    }
    Ok(tally)
}

fn cannot(verb: &str, command: &Command, source: std::io::Error) -> XtaskError {
    XtaskError::Io {
        doing: format!("{verb} `{}`", command.get_program().display()),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_output_is_forwarded_unchanged_and_summed() {
        let output =
            b"caf\xe9\ntest result: ok. 1 passed; 0 failed; 0 ignored\nno newline at the end";
        let mut seen = Vec::new();
        let tally = pass_on(Some(&output[..]), &mut seen).unwrap();
        assert_eq!(seen, output);
        assert_eq!(tally.to_string(), "1 passed, 0 failed");
    }
}
