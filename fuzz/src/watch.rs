//! The process that watches: what no panic shows is seen from outside.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, ExitCode, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use windlass_fuzz::targets::Target;

use crate::child::{input, told};
use crate::options::Options;

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// How a child ended that found something.
enum Fault {
    /// A target panicked; the child has said where.
    Panic,
    /// The system or an abort ended it: the stack or the memory was used up, and the last line says which.
    Signal(i32),
    /// One input took too long.
    Hang,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panic => write!(f, "a panic"),
            Self::Signal(signal) => write!(f, "ended by signal {signal}"),
            Self::Hang => write!(f, "a hang"),
        }
    }
}

/// Runs each target in a process of its own, until one finds something.
pub(crate) fn run(options: &Options) -> io::Result<ExitCode> {
    for target in &options.targets {
        eprintln!("{}: seed {}, {}", target.name, options.seed, options.budget);
        let place = tempfile::tempfile()?;
        if let Err(fault) = watch(start(target, options, &place)?, options, &place)? {
            report(target, options.seed, &fault, told(&place));
            return Ok(ExitCode::FAILURE);
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn start(target: &Target, options: &Options, place: &File) -> io::Result<Child> {
    Command::new(std::env::current_exe()?)
        .arg("--child")
        .args(options.arguments_for(target))
        .stdin(Stdio::null())
        .stdout(place.try_clone()?)
        .spawn()
}

/// Waits for the end of a child, which is near when it stays at one input for too long.
fn watch(mut child: Child, options: &Options, place: &File) -> io::Result<Result<(), Fault>> {
    let (mut at, mut since) = (None, Instant::now());
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(outcome(status));
        }
        let now_at = told(place);
        if now_at != at {
            (at, since) = (now_at, Instant::now());
        } else if since.elapsed() > Duration::from_secs(options.input_seconds) {
            child.kill()?;
            child.wait()?;
            return Ok(Err(Fault::Hang));
        }
        thread::sleep(LOOK_EVERY);
    }
}

fn outcome(status: ExitStatus) -> Result<(), Fault> {
    match status.signal() {
        Some(signal) => Err(Fault::Signal(signal)),
        None if status.success() => Ok(()),
        None => Err(Fault::Panic),
    }
}

fn report(target: &Target, seed: u64, fault: &Fault, iteration: Option<u64>) {
    let name = target.name;
    let Some(iteration) = iteration else {
        eprintln!("finding: target {name}, seed {seed}, before the first iteration: {fault}");
        return;
    };
    eprintln!("finding: target {name}, seed {seed}, iteration {iteration}: {fault}");
    eprintln!("bytes: {:?}", input(target, seed, iteration));
    eprintln!("repeat: cargo xtask fuzz {name} --seed {seed} --first {iteration} --iterations 1");
}
