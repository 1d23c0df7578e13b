//! `windlass-fuzz`: throws seeded random bytes at the targets until the time or the count is used up.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a program: help goes to stdout, progress and findings to stderr"
)]

mod options;

use std::panic::catch_unwind;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use options::{Budget, HELP, Options, Request};
use windlass_fuzz::prng::SplitMix64;
use windlass_fuzz::targets::Target;

const REPORT_EVERY: Duration = Duration::from_secs(5);

/// An input that broke something.
struct Finding {
    iteration: u64,
    bytes: Vec<u8>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match options::parse(&arguments) {
        Ok(Request::Help) => {
            print!("{HELP}");
            ExitCode::SUCCESS
        }
        Ok(Request::Run(options)) => run(&options),
        Err(wrong) => {
            eprintln!("error: {wrong}\nTry `windlass-fuzz --help`.");
            ExitCode::from(2)
        }
    }
}

fn run(options: &Options) -> ExitCode {
    for target in &options.targets {
        eprintln!("{}: seed {}, {}", target.name, options.seed, options.budget);
        if let Err(finding) = fuzz(target, options) {
            report(target, options.seed, &finding);
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}

fn fuzz(target: &Target, options: &Options) -> Result<(), Finding> {
    let begin = Instant::now();
    let mut reported = begin;
    let mut iteration = options.first;
    loop {
        let is_over = match options.budget {
            Budget::Iterations(count) => iteration >= options.first.saturating_add(count),
            Budget::Seconds(seconds) => begin.elapsed() >= Duration::from_secs(seconds),
        };
        if is_over {
            eprintln!(
                "{}: {} iterations, no finding",
                target.name,
                iteration - options.first
            );
            return Ok(());
        }
        let bytes = SplitMix64::of_iteration(options.seed, iteration).bytes(target.longest_input);
        if catch_unwind(|| (target.run)(&bytes)).is_err() {
            return Err(Finding { iteration, bytes });
        }
        iteration += 1;
        if reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            eprintln!("{}: {} iterations", target.name, iteration - options.first);
        }
    }
}

fn report(target: &Target, seed: u64, finding: &Finding) {
    let (name, iteration) = (target.name, finding.iteration);
    eprintln!("finding: target {name}, seed {seed}, iteration {iteration}");
    eprintln!("bytes: {:?}", finding.bytes);
    eprintln!("repeat: cargo xtask fuzz {name} --seed {seed} --first {iteration} --iterations 1");
}
