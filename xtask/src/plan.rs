//! Plans: steps as data, and their execution.

use std::time::{Duration, Instant};

use crate::command;
use crate::error::XtaskError;
use crate::tally::Tally;
use crate::terminal::{bold, green, red};

/// A step of a plan.
pub(crate) enum PlanStep {
    /// A cargo command that succeeds or fails.
    Cargo(&'static [&'static str]),
    /// A cargo command under one environment variable.
    CargoWith((&'static str, &'static str), &'static [&'static str]),
    /// A cargo command that runs tests, whose results are summed.
    Tests(&'static [&'static str]),
    /// A function with its title. It may add test results and report skipped parts.
    Own(&'static str, fn(&mut Tally) -> Result<(), XtaskError>),
}

/// The effect of a failed step on later ones.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnFailure {
    /// They still run, so that one run reports everything.
    GoOn,
    /// They are skipped, so that the first problem is fixed first.
    Stop,
}

impl PlanStep {
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

    fn run(&self, tally: &mut Tally) -> Result<(), XtaskError> {
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
pub(crate) fn run(steps: &[PlanStep], on_failure: OnFailure) -> Result<(), XtaskError> {
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
                if !matches!(failure, XtaskError::Shown) {
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
        Err(XtaskError::Shown)
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
            (PlanStep::Cargo(&["fmt", "--check"]), "cargo fmt --check"),
            (PlanStep::Tests(&["test"]), "cargo test"),
            (
                PlanStep::CargoWith(("F", "-D x"), &["doc"]),
                "F=\"-D x\" cargo doc",
            ),
            (
                PlanStep::Own("cargo xtask slim", |_| Ok(())),
                "cargo xtask slim",
            ),
        ] {
            assert_eq!(step.title(), title);
        }
    }

    #[test]
    fn failed_step_fails_the_plan() {
        let fails = || PlanStep::Own("fails", |_| Err(XtaskError::Shown));
        let works = || PlanStep::Own("works", |_| Ok(()));
        for on_failure in [OnFailure::GoOn, OnFailure::Stop] {
            assert!(run(&[works()], on_failure).is_ok());
            assert!(run(&[fails(), works()], on_failure).is_err());
        }
    }
}
