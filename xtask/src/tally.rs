//! The sum of the results that test binaries print.

use std::fmt;
use std::ops::AddAssign;

/// How many tests passed and failed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
}

impl Tally {
    /// Reads a line such as `test result: ok. 3 passed; 0 failed; …`; any other line is `None`.
    pub(crate) fn of_line(line: &str) -> Option<Self> {
        let (_, counts) = line.strip_prefix("test result: ")?.split_once(". ")?;
        let mut counts = counts.split("; ");
        Some(Self {
            passed: counts.next()?.strip_suffix(" passed")?.parse().ok()?,
            failed: counts.next()?.strip_suffix(" failed")?.parse().ok()?,
        })
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed", self.passed, self.failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(output: &str) -> Tally {
        let mut sum = Tally::default();
        for tally in output.lines().filter_map(Tally::of_line) {
            sum += tally;
        }
        sum
    }

    #[test]
    fn results_of_all_binaries_are_summed() {
        let output = "\
running 3 tests
test a ... ok
test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.01s

   Doc-tests windlass_core
test result: FAILED. 40 passed; 2 failed; 1 ignored; 0 measured; 0 filtered out; finished in 1.20s
";
        assert_eq!(
            sum(output),
            Tally {
                passed: 43,
                failed: 2
            }
        );
        assert_eq!(sum(output).to_string(), "43 passed, 2 failed");
    }

    #[test]
    fn other_lines_count_nothing() {
        for line in [
            "",
            "test result: ok",
            "test result: ok. many passed; 0 failed",
            "test result: ok. 3 failed; 0 passed",
            "  test result: ok. 3 passed; 0 failed; 0 ignored",
            "test test_result ... ok",
        ] {
            assert_eq!(Tally::of_line(line), None, "{line}");
        }
    }
}
