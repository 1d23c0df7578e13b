//! What a soak came to: the series as a small table, and whether each has levelled off.

use std::fmt;
use std::time::Duration;

use super::sessions::Counts;
use super::usage::Usage;

/// How many rows the table has.
const ROWS: usize = 12;

/// The median of the last third may be so many times the median of the middle third. What grows with the time that has
/// gone by has 1.67 there; what has levelled off has 1, but for chance.
const GROWTH: f64 = 1.15;

/// A log is written back when it has 8 MiB, aside; when it has become four times as long meanwhile, because others keep the disk
/// busy, the next commit does it. A file up to this size is in use, and only a longer one says something about growth.
const LOG_IN_USE: u64 = 34 * 1024 * 1024;

/// What a soak came to.
#[derive(Debug, Clone)]
pub struct Summary {
    /// What chose.
    pub seed: u64,
    /// How long it took.
    pub length: Duration,
    /// What the sessions did.
    pub counts: Counts,
    /// How many records retention removed.
    pub pruned: u64,
    /// What the process took up, in order.
    pub samples: Vec<Usage>,
}

/// One series of a soak.
struct Series {
    name: &'static str,
    of: fn(&Usage) -> u64,
    /// Up to here it may grow as it likes.
    free: u64,
}

const SERIES: [Series; 3] = [
    Series {
        name: "resident set",
        of: |usage| usage.resident,
        free: 0,
    },
    Series {
        name: "write-ahead log",
        of: |usage| usage.log,
        free: LOG_IN_USE,
    },
    Series {
        name: "disk",
        of: |usage| usage.disk,
        free: 0,
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
        last <= self.free || last as f64 <= middle as f64 * GROWTH
    }
}

impl Summary {
    /// Says which series still grows.
    pub fn verdict(&self) -> Result<(), String> {
        if self.counts.turns == 0 {
            return Err("no turn has ended".to_owned());
        }
        let growing: Vec<_> = SERIES
            .iter()
            .filter(|series| !series.levels_off(&self.samples))
            .map(|series| series.name)
            .collect();
        match growing.as_slice() {
            [] => Ok(()),
            names => Err(format!("still growing at the end: {}", names.join(", "))),
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let megabytes = |bytes: u64| bytes as f64 / 1e6;
        writeln!(
            f,
            "{:>8} {:>14} {:>17} {:>10}   (MB, largest of each span)",
            "seconds", "resident set", "write-ahead log", "disk"
        )?;
        let per_row = self.samples.len().div_ceil(ROWS).max(1);
        for (n, row) in self.samples.chunks(per_row).enumerate() {
            let largest = row.iter().copied().fold(Usage::default(), Usage::max);
            let share = ((n * per_row + row.len()) as f64) / self.samples.len() as f64;
            writeln!(
                f,
                "{:>8.0} {:>14.1} {:>17.1} {:>10.1}",
                self.length.as_secs_f64() * share,
                megabytes(largest.resident),
                megabytes(largest.log),
                megabytes(largest.disk)
            )?;
        }
        for series in &SERIES {
            let (middle, last) = series.thirds(&self.samples);
            let says = match series.levels_off(&self.samples) {
                true => "levels off",
                false => "GROWS",
            };
            writeln!(
                f,
                "{}: median of the middle third {:.1} MB, of the last {:.1} MB: {says}",
                series.name,
                megabytes(middle),
                megabytes(last)
            )?;
        }
        let Counts {
            came,
            removed,
            turns,
        } = self.counts;
        write!(
            f,
            "seed {}: {came} sessions came, {removed} were removed, {turns} turns ended, {} records pruned",
            self.seed, self.pruned
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(usage: impl Fn(u64) -> Usage, expected: Result<(), &str>) {
        let summary = Summary {
            seed: 1,
            length: Duration::from_secs(1),
            counts: Counts {
                turns: 1,
                ..Counts::default()
            },
            pruned: 0,
            samples: (0..60).map(usage).collect(),
        };
        assert_eq!(summary.verdict(), expected.map_err(str::to_owned));
    }

    #[test]
    fn what_grows_to_the_end_is_named() {
        let check = |disk: fn(u64) -> u64, expected| {
            let usage = |n| Usage {
                disk: disk(n),
                ..Usage::default()
            };
            check(usage, expected);
        };
        check(|_| 100, Ok(()));
        check(|n| n.min(30) * 100, Ok(()));
        check(|n| 1000 + n, Ok(()));
        check(|n| if n == 50 { 900 } else { 100 }, Ok(()));
        let grows = Err("still growing at the end: disk");
        check(|n| n * 100, grows);
        check(|n| 1000 + 15 * n, grows);
        check(|n| if n < 40 { 100 } else { 120 }, grows);
    }

    #[test]
    fn a_log_may_fill_before_it_is_written_back() {
        const MIB: u64 = 1024 * 1024;
        let check = |log: fn(u64) -> u64, expected| {
            let usage = |n| Usage {
                log: log(n),
                ..Usage::default()
            };
            check(usage, expected);
        };
        check(|n| n * MIB / 2, Ok(()));
        check(|n| if n < 40 { 11 * MIB } else { 32 * MIB }, Ok(()));
        let grows = Err("still growing at the end: write-ahead log");
        check(|n| n * MIB, grows);
    }
}
