//! Checks that the resource usage of a process levels off: a table of each metric over time, and a verdict.

use std::fmt;
use std::time::Duration;

use crate::usage::Usage;

/// How many rows the table has.
const ROWS: usize = 12;

/// Maximum ratio of the last third's median to the middle third's. Linear growth gives 1.67; a level series gives 1, apart from noise.
const GROWTH: f64 = 1.15;

/// The log is checkpointed in the background at 8 MiB. If it has grown fourfold meanwhile, because the disk is busy, the next commit does it. A file
/// up to this size is in use, and only a longer one indicates growth.
const LOG_IN_USE: u64 = 34 * 1024 * 1024;

/// A log of this size is checkpointed at once.
const LOG_WRITTEN_BACK: u64 = 8 * 1024 * 1024;

/// Descriptors that fluctuate with the work in progress.
const DESCRIPTORS_IN_USE: u64 = 128;

/// One figure over time.
struct Series {
    name: &'static str,
    of: fn(&Usage) -> u64,
    /// Growth up to this value is ignored; for memory, the test sets it.
    free: u64,
    /// Step size of its growth, so that one more step is not significant.
    step: u64,
    /// The displayed unit.
    unit: f64,
}

const MEGABYTE: f64 = 1e6;

/// Returns all metrics; the process may grow up to `warm` bytes until it is warm.
fn series(warm: u64) -> [Series; 4] {
    let [log, disk, descriptors] = OTHER_METRICS;
    let memory = Series {
        name: "resident set (MB)",
        of: |usage| usage.resident,
        free: warm,
        step: 0,
        unit: MEGABYTE,
    };
    [memory, log, disk, descriptors]
}

const OTHER_METRICS: [Series; 3] = [
    Series {
        name: "write-ahead log (MB)",
        of: |usage| usage.log,
        free: LOG_IN_USE,
        step: 0,
        unit: MEGABYTE,
    },
    Series {
        name: "disk (MB)",
        of: |usage| usage.disk,
        free: 0,
        step: LOG_WRITTEN_BACK,
        unit: MEGABYTE,
    },
    Series {
        name: "descriptors",
        of: |usage| usage.descriptors,
        free: DESCRIPTORS_IN_USE,
        step: 0,
        unit: 1.0,
    },
];

impl Series {
    /// The medians of the middle third and of the last.
    fn thirds(&self, samples: &[Usage]) -> (u64, u64) {
        let third = samples.len() / 3;
        let (before, last) = samples.split_at(samples.len() - third);
        let middle = &before[before.len() - third..];
        (self.median(middle), self.median(last))
    }

    fn median(&self, samples: &[Usage]) -> u64 {
        let mut values: Vec<u64> = samples.iter().map(self.of).collect();
        values.sort_unstable();
        values.get(values.len() / 2).copied().unwrap_or(0)
    }

    fn levels_off(&self, samples: &[Usage]) -> bool {
        let (middle, last) = self.thirds(samples);
        let is_chance = last as f64 <= middle as f64 * GROWTH || last <= middle + self.step;
        last <= self.free || is_chance
    }

    fn shown(&self, value: u64) -> f64 {
        value as f64 / self.unit
    }
}

/// Returns an error with the metrics that still grow at the end. The process may use up to `warm` bytes until it is warm.
pub(crate) fn verdict(samples: &[Usage], warm: u64) -> Result<(), String> {
    let growing: Vec<_> = series(warm)
        .iter()
        .filter(|series| !series.levels_off(samples))
        .map(|series| series.name)
        .collect();
    match growing.as_slice() {
        [] => Ok(()),
        names => Err(format!("still growing at the end: {}", names.join(", "))),
    }
}

/// The samples of a time as a table, and a line for each figure.
pub(crate) struct UsageTable<'a> {
    pub(crate) length: Duration,
    pub(crate) samples: &'a [Usage],
    pub(crate) warm: u64,
}

impl fmt::Display for UsageTable<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = series(self.warm);
        write!(f, "{:>8}", "seconds")?;
        for series in &all {
            write!(f, " {:>21}", series.name)?;
        }
        writeln!(f, "   (largest of each span)")?;
        let per_row = self.samples.len().div_ceil(ROWS).max(1);
        for (n, row) in self.samples.chunks(per_row).enumerate() {
            let largest = row.iter().copied().fold(Usage::default(), Usage::max);
            let share = ((n * per_row + row.len()) as f64) / self.samples.len() as f64;
            write!(f, "{:>8.0}", self.length.as_secs_f64() * share)?;
            for series in &all {
                write!(f, " {:>21.1}", series.shown((series.of)(&largest)))?;
            }
            writeln!(f)?;
        }
        for series in &all {
            let (middle, last) = series.thirds(self.samples);
            let verdict = if series.levels_off(self.samples) {
                "levels off"
            } else {
                "GROWS"
            };
            writeln!(
                f,
                "{}: median of the middle third {:.1}, of the last {:.1}: {verdict}",
                series.name,
                series.shown(middle),
                series.shown(last)
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1024 * 1024;

    fn check(usage: impl Fn(u64) -> Usage, expected: Result<(), &str>) {
        let samples: Vec<_> = (0..60).map(usage).collect();
        assert_eq!(verdict(&samples, 0), expected.map_err(str::to_owned));
    }

    #[test]
    fn memory_may_grow_until_the_process_is_warm() {
        let samples = |resident: fn(u64) -> u64| -> Vec<Usage> {
            let usage = |n| Usage {
                resident: resident(n) * MIB,
                ..Usage::default()
            };
            (0..60).map(usage).collect()
        };
        let grows = Err("still growing at the end: resident set (MB)".to_owned());
        let (warm, to) = (100 * MIB, samples(|n| 20 + n));
        assert_eq!(verdict(&to, warm), Ok(()));
        assert_eq!(verdict(&to, 0), grows);
        assert_eq!(verdict(&samples(|n| 40 + 2 * n), warm), grows);
        assert_eq!(verdict(&samples(|n| 40 + n.min(30)), 0), Ok(()));
    }

    #[test]
    fn metric_that_still_grows_is_reported() {
        let check = |disk: fn(u64) -> u64, expected| {
            let usage = |n| Usage {
                disk: disk(n) * MIB,
                ..Usage::default()
            };
            check(usage, expected);
        };
        check(|_| 100, Ok(()));
        check(|n| n.min(30) * 100, Ok(()));
        check(|n| 1000 + n, Ok(()));
        check(|n| if n == 50 { 900 } else { 100 }, Ok(()));
        let grows = Err("still growing at the end: disk (MB)");
        check(|n| n * 100, grows);
        check(|n| 1000 + 15 * n, grows);
        check(|n| if n < 40 { 100 } else { 120 }, grows);
        // One log more than before.
        check(|n| if n < 40 { 21 } else { 26 }, Ok(()));
        check(|n| if n < 40 { 21 } else { 30 }, grows);
    }

    #[test]
    fn log_may_grow_before_a_checkpoint() {
        let check = |log: fn(u64) -> u64, expected| {
            let usage = |n| Usage {
                log: log(n),
                ..Usage::default()
            };
            check(usage, expected);
        };
        check(|n| n * MIB / 2, Ok(()));
        check(|n| if n < 40 { 11 * MIB } else { 32 * MIB }, Ok(()));
        check(
            |n| n * MIB,
            Err("still growing at the end: write-ahead log (MB)"),
        );
    }

    #[test]
    fn leaked_descriptors_are_reported() {
        let usage = |n| Usage {
            descriptors: 40 + 4 * n,
            ..Usage::default()
        };
        check(usage, Err("still growing at the end: descriptors"));
    }
}
