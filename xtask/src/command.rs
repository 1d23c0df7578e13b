//! Starting programs: cargo above all.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, IsTerminal, Read, Write};
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

/// Runs a program and shows what it prints only if it fails.
pub(crate) fn run_quietly(mut command: Command) -> Result<(), Failure> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .map_err(|e| cannot("start", &command, e))?;
    if output.status.success() {
        return Ok(());
    }
    eprint!("{}", String::from_utf8_lossy(&output.stdout));
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    Err(Failure::Shown)
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

/// Runs tests: passes their output on line by line and adds what it tells to `tally`, also when they fail.
pub(crate) fn run_tests(mut command: Command, tally: &mut Tally) -> Result<(), Failure> {
    if std::io::stderr().is_terminal() {
        // Cargo sees a pipe instead of the terminal behind it.
        command.env("CARGO_TERM_COLOR", "always");
    }
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| cannot("start", &command, e))?;
    let (output, errors) = (child.stdout.take(), child.stderr.take());
    // Tests name what they skip on either of the two.
    let passed_on = std::thread::scope(|scope| {
        let errors = scope.spawn(|| pass_on(errors, &mut std::io::stderr()));
        tally.add(pass_on(output, &mut std::io::stdout())?);
        tally.add(errors.join().unwrap_or_else(|_| Ok(Tally::default()))?);
        Ok(())
    });
    let status = child.wait().map_err(|e| cannot("wait for", &command, e))?;
    passed_on.map_err(|e| cannot("read", &command, e))?;
    status.success().then_some(()).ok_or(Failure::Shown)
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
    fn test_output_is_forwarded_unchanged_and_summed() {
        let output =
            b"caf\xe9\ntest result: ok. 1 passed; 0 failed; 0 ignored\nno newline at the end";
        let mut seen = Vec::new();
        let tally = pass_on(Some(&output[..]), &mut seen).unwrap();
        assert_eq!(seen, output);
        assert_eq!(tally.to_string(), "1 passed, 0 failed");
    }
}
