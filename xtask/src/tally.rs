//! The sum of the results that test binaries print, and the names of what could not run on this machine.

use std::collections::BTreeSet;
use std::fmt;

/// How a line begins that names a test or a step which this machine cannot run.
const SKIPPED: &str = "SKIPPED: ";

/// How many tests passed and failed, and what was skipped.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Each with its reason. A set, because a part that many tests need is named by each of them.
    pub(crate) skipped: BTreeSet<String>,
}

impl Tally {
    /// Adds what a line of a test binary tells; most lines tell nothing.
    pub(crate) fn add_line(&mut self, line: &str) {
        if let Some((passed, failed)) = result_in(line) {
            self.passed += passed;
            self.failed += failed;
        } else if let Some((_, what)) = line.split_once(SKIPPED) {
            // The test harness may have begun the line with the name of the test.
            self.skipped.insert(what.trim().to_owned());
        }
    }

    /// Counts a step that cannot run here as skipped.
    pub(crate) fn skip(&mut self, what: &str) {
        println!("{SKIPPED}{what}");
        self.skipped.insert(what.to_owned());
    }

    /// Adds another sum.
    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped.extend(other.skipped);
    }
}

/// Reads a line such as `test result: ok. 3 passed; 0 failed; …`.
fn result_in(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = counts.split("; ");
    let passed = counts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = counts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

/// One line for each thing that was skipped, and the counts as the last line.
impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for what in &self.skipped {
            writeln!(f, "{SKIPPED}{what}")?;
        }
        write!(f, "{} passed, {} failed", self.passed, self.failed)?;
        match self.skipped.len() {
            0 => Ok(()),
            count => write!(f, ", {count} skipped"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(output: &str) -> Tally {
        let mut sum = Tally::default();
        output.lines().for_each(|line| sum.add_line(line));
        sum
    }

    #[test]
    fn results_are_summed_and_skipped_tests_listed_once() {
        let output = "\
running 3 tests
test a ... ok
SKIPPED: shell::b: bubblewrap does not work on this machine
test c ... SKIPPED: c: there is no python3
SKIPPED: shell::b: bubblewrap does not work on this machine
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

   Doc-tests windlass_core
test result: FAILED. 40 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s
";
        assert_eq!(
            sum(output).to_string(),
            "\
SKIPPED: c: there is no python3
SKIPPED: shell::b: bubblewrap does not work on this machine
43 passed, 2 failed, 2 skipped"
        );
    }

    #[test]
    fn other_lines_are_ignored() {
        for line in [
            "",
            "test result: ok",
            "test result: ok. many passed; 0 failed",
            "test result: ok. 3 failed; 0 passed",
            "  test result: ok. 3 passed; 0 failed; 0 ignored",
            "test test_result ... ok",
            "test what_is_SKIPPED_is_named ... ok",
        ] {
            assert_eq!(sum(line), Tally::default(), "{line}");
        }
        assert_eq!(Tally::default().to_string(), "0 passed, 0 failed");
    }
}
