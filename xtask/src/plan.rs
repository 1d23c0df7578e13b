//! Steps as data, and the one place that runs them.

use std::time::{Duration, Instant};

use crate::command;
use crate::failure::Failure;
use crate::tally::Tally;
use crate::terminal::{bold, green, red};

/// One thing a plan does.
pub(crate) enum Step {
    /// A cargo command that succeeds or fails.
    Cargo(&'static [&'static str]),
    /// A cargo command under one environment variable.
    CargoWith((&'static str, &'static str), &'static [&'static str]),
    /// A cargo command that runs tests, whose results are summed.
    Tests(&'static [&'static str]),
    /// A check of our own under its title. It may add test results, and name what this machine cannot run.
    Own(&'static str, fn(&mut Tally) -> Result<(), Failure>),
}

/// What a failed step does to those after it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// They run all the same: one run tells everything.
    GoOn,
    /// They do not run: the first trouble is mended first.
    Stop,
}

impl Step {
    fn title(&self) -> String {
        match self {
            Self::Cargo(arguments) | Self::Tests(arguments) => {
                format!("cargo {}", arguments.join(" "))
            }
            Self::CargoWith((name, value), arguments) => {
                format!("{name}=\"{value}\" cargo {}", arguments.join(" "))
            }
            Self::Own(title, _) => (*title).to_owned(),
        }
    }

    fn run(&self, tally: &mut Tally) -> Result<(), Failure> {
        let mut cargo = command::cargo();
        match self {
            Self::Cargo(arguments) => {
                cargo.args(*arguments);
                command::run(cargo)
            }
            Self::CargoWith((name, value), arguments) => {
                cargo.args(*arguments).env(name, value);
                command::run(cargo)
            }
            Self::Tests(arguments) => {
                cargo.args(*arguments);
                command::run_tests(cargo, tally)
            }
            Self::Own(_, check) => check(tally),
        }
    }
}

/// Runs the steps in order and prints the sum of all test results as the last line.
pub(crate) fn run(steps: &[Step], on_failure: OnFailure) -> Result<(), Failure> {
    let mut tally = Tally::default();
    let mut failed = Vec::new();
    for step in steps {
        let title = step.title();
        eprintln!("{}", bold(&format!("==> {title}")));
        let start = Instant::now();
        let outcome = step.run(&mut tally);
        let took = seconds(start.elapsed());
        match outcome {
            Ok(()) => eprintln!("    {} in {took}", green("ok")),
            Err(failure) => {
                if !matches!(failure, Failure::Shown) {
                    eprintln!("    {failure}");
                }
                eprintln!("    {} after {took}", red("failed"));
                failed.push(title);
                if on_failure == OnFailure::Stop {
                    break;
                }
            }
        }
    }
    for title in &failed {
        eprintln!("{}: {title}", red("failed"));
    }
    println!("{tally}");
    if failed.is_empty() {
        Ok(())
    } else {
        Err(Failure::Shown)
    }
}

fn seconds(duration: Duration) -> String {
    format!("{:.1} s", duration.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn step_title_is_a_shell_command() {
        for (step, title) in [
            (Step::Cargo(&["fmt", "--check"]), "cargo fmt --check"),
            (Step::Tests(&["test"]), "cargo test"),
            (
                Step::CargoWith(("F", "-D x"), &["doc"]),
                "F=\"-D x\" cargo doc",
            ),
            (
                Step::Own("cargo xtask slim", |_| Ok(())),
                "cargo xtask slim",
            ),
        ] {
            assert_eq!(step.title(), title);
        }
    }

    #[test]
    fn failed_step_fails_the_plan() {
        let fails = || Step::Own("fails", |_| Err(Failure::Shown));
        let works = || Step::Own("works", |_| Ok(()));
        for on_failure in [OnFailure::GoOn, OnFailure::Stop] {
            assert!(run(&[works()], on_failure).is_ok());
            assert!(run(&[fails(), works()], on_failure).is_err());
        }
    }
}
