//! The parent process, which detects hangs and signals of the child.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use windlass_fuzz::targets::FuzzTarget;

use crate::child::{input, read_progress};
use crate::options::Options;

const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The finding of a child.
enum ChildFailure {
    /// A target panicked; the child has printed the location.
    Panic,
    /// The system or an abort ended it: the stack or the memory was exhausted, and the last line shows which.
    Signal(i32),
    /// One input took too long.
    Hang,
}

impl fmt::Display for ChildFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic => write!(f, "a panic"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Hang => write!(f, "a hang"),
        }
    }
}

/// Runs each target in its own process, until a finding.
pub(crate) fn run(options: &Options) -> io::Result<ExitCode> {
    for target in &options.targets {
        eprintln!("{}: seed {}, {}", target.name, options.seed, options.limit);
        let progress = tempfile::tempfile()?;
        if let Err(fault) = watch(start(target, options, &progress)?, options, &progress)? {
            report(target, options.seed, &fault, read_progress(&progress));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn start(target: &FuzzTarget, options: &Options, progress: &File) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("--child")
        .args(options.arguments_for(target))
        .stdin(Stdio::null())
        .stdout(progress.try_clone()?)
        .spawn()
}

/// Waits for the end of a child; ends it if one input takes too long.
fn watch(
    mut child: Child,
    options: &Options,
    progress: &File,
) -> io::Result<Result<(), ChildFailure>> {
    let (mut at, mut since) = (None, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(outcome(status));
        }
        let now_at = read_progress(progress);
        if now_at != at {
            (at, since) = (now_at, Instant::now());
        } else if since.elapsed() > Duration::from_secs(options.input_seconds) {
            child.kill()?;
            child.wait()?;
            return Ok(Err(ChildFailure::Hang));
        }
        thread::sleep(POLL_INTERVAL);
    }
}

fn outcome(status: ExitStatus) -> Result<(), ChildFailure> {
    match status.signal() {
        Some(signal) => Err(ChildFailure::Signal(signal)),
        None if status.success() => Ok(()),
        None => Err(ChildFailure::Panic),
    }
}

fn report(target: &FuzzTarget, seed: u64, fault: &ChildFailure, iteration: Option<u64>) {
    let name = target.name;
    let Some(iteration) = iteration else {
        eprintln!("finding: target {name}, seed {seed}, before the first iteration: {fault}");
        return;
    };
    eprintln!("finding: target {name}, seed {seed}, iteration {iteration}: {fault}");
    eprintln!("bytes: {:?}", input(target, seed, iteration));
    eprintln!("repeat: cargo xtask fuzz {name} --seed {seed} --first {iteration} --iterations 1");
}
