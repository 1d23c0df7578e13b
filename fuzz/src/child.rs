//! The child process, which runs the targets within limits of memory and stack.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::panic::catch_unwind;
use std::process::ExitCode;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, setrlimit};
use windlass_fuzz::prng::SplitMix64;
use windlass_fuzz::targets::FuzzTarget;

use crate::options::{Options, RunLimit};

/// Stack size of the daemon's threads.
const STACK_BYTES: usize = 2 * 1024 * 1024;

/// Memory limit of the child.
const MEMORY_BYTES: u64 = 2 * 1024 * 1024 * 1024;

const REPORT_EVERY: Duration = Duration::from_secs(5);

/// Runs the target of `options`; fails if it panics. Other failures end the process.
pub(crate) fn run(options: Options) -> io::Result<ExitCode> {
    let memory = Rlimit {
        current: Some(MEMORY_BYTES),
        maximum: Some(MEMORY_BYTES),
    };
    setrlimit(Resource::As, memory)?;
    let progress = ProgressFile(File::from(io::stdout().as_fd().try_clone_to_owned()?));
    let run = move || {
        let mut targets = options.targets.iter();
        targets.all(|target| fuzz(target, &options, &progress))
    };
    let thread = thread::Builder::new().stack_size(STACK_BYTES).spawn(run)?;
    Ok(match thread.join() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) | Err(_) => ExitCode::FAILURE,
    })
}

/// The child's progress, for the parent: the first bytes of a shared file. A write costs one system call and no wake-up.
struct ProgressFile(File);

impl ProgressFile {
    fn write(&self, iteration: u64) {
        // If it fails, the parent reports the finding without an iteration.
        let _ = self.0.write_all_at(&iteration.to_le_bytes(), 0);
    }
}

/// Reads the number of the child's current input; `None` before the first.
pub(crate) fn read_progress(progress: &File) -> Option<u64> {
    let mut bytes = [0; 8];
    progress.read_exact_at(&mut bytes, 0).ok()?;
    Some(u64::from_le_bytes(bytes))
}

fn fuzz(target: &FuzzTarget, options: &Options, progress: &ProgressFile) -> bool {
    let begin = Instant::now();
    let mut reported = begin;
    let mut iteration = options.first;
    loop {
        let is_over = match options.limit {
            RunLimit::Iterations(count) => iteration >= options.first.saturating_add(count),
            RunLimit::Seconds(seconds) => begin.elapsed() >= Duration::from_secs(seconds),
        };
        let done = iteration - options.first;
        if is_over {
            eprintln!("{}: {done} iterations, no finding", target.name);
            return true;
        }
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            eprintln!("{}: {done} iterations", target.name);
        }
        progress.write(iteration);
        let bytes = input(target, options.seed, iteration);
        if catch_unwind(|| (target.run)(&bytes)).is_err() {
            return false;
        }
        iteration += 1;
    }
}

/// Returns the bytes of one iteration.
pub(crate) fn input(target: &FuzzTarget, seed: u64, iteration: u64) -> Vec<u8> {
    SplitMix64::of_iteration(seed, iteration).bytes(target.longest_input)
}
