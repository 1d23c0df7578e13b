//! The sum of the results of test binaries, and the skipped parts.

use std::collections::BTreeSet;
use std::fmt;

/// Prefix of a line that reports a skipped test or step.
const SKIPPED: &str = "SKIPPED: ";

/// Numbers of passed and failed tests, and the skipped parts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    /// Skipped parts with their reasons. A set, because several tests may report the same part.
    pub(crate) skipped: BTreeSet<String>,
}

impl Tally {
    /// Adds the result in a line of a test binary; other lines are ignored.
    pub(crate) fn add_line(&mut self, line: &str) {
        if let Some((passed, failed)) = result_in(line) {
            self.passed += passed;
            self.failed += failed;
        } else if let Some((_, what)) = line.split_once(SKIPPED) {
            // The test harness may have started the line with the name of the test.
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

/// Parses a line such as `test result: ok. 3 passed; 0 failed; …`.
fn result_in(line: &str) -> Option<(u64, u64)> {
    let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
    let mut counts = counts.split("; ");
    let passed = counts.next()?.strip_suffix(" passed")?.parse().ok()?;
    let failed = counts.next()?.strip_suffix(" failed")?.parse().ok()?;
    Some((passed, failed))
}

/// One line per skipped part, and the counts as the last line.
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
