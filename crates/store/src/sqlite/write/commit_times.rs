//! The choice of the thread that commits.
//!
//! A hand-over to another thread and back takes about as long as a sync on a quick disk. So a caller without competitors commits on its own thread,
//! as long as that is no longer than a task may block.

use std::time::Duration;

/// Commits that take longer are slow.
const QUICK: Duration = Duration::from_micros(500);

/// The maximum duration that one commit adds to the mean: a single slow commit has no effect, one in six has.
const SLOW: Duration = QUICK.saturating_mul(8);

/// A caller that waited this long may have to wait again, for example for another program that locks the database.
const STANDSTILL: Duration = QUICK.saturating_mul(40);

/// The number of commits in the mean.
const COUNTED: u32 = 16;

/// The duration of recent commits.
#[derive(Debug)]
pub(crate) struct CommitTimes {
    /// The number of jobs in the last group.
    group: usize,
    /// An exponentially weighted mean.
    mean: Duration,
}

impl Default for CommitTimes {
    /// The speed of the disk is unknown.
    fn default() -> Self {
        Self {
            group: 0,
            mean: SLOW,
        }
    }
}

impl CommitTimes {
    /// Treats the disk as quick.
    #[cfg(test)]
    pub(crate) fn quick() -> Self {
        Self {
            group: 0,
            mean: Duration::ZERO,
        }
    }

    pub(crate) fn note_group(&mut self, jobs: usize) {
        self.group = jobs;
    }

    pub(crate) fn note_commit(&mut self, time: Duration) {
        self.mean = if time < STANDSTILL {
            (self.mean * (COUNTED - 1) + time.min(SLOW)) / COUNTED
        } else {
            SLOW
        };
    }

    /// Returns whether jobs come one at a time, and commits are quick.
    pub(crate) fn is_quick(&self) -> bool {
        self.group <= 1 && self.mean <= QUICK
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(commits: u32, time: Duration) -> CommitTimes {
        let mut commit_times = CommitTimes::default();
        (0..commits).for_each(|_| commit_times.note_commit(time));
        commit_times
    }

    #[test]
    fn lone_caller_commits_after_enough_quick_commits() {
        let mut commit_times = after(COUNTED, QUICK / 5);
        assert!(!commit_times.is_quick());
        (0..COUNTED * 2).for_each(|_| commit_times.note_commit(QUICK / 5));
        assert!(commit_times.is_quick());
        commit_times.note_group(2);
        assert!(!commit_times.is_quick(), "others wait");
        commit_times.note_group(1);
        assert!(commit_times.is_quick());
    }

    #[test]
    fn frequent_slow_commits_use_the_thread() {
        let mut commit_times = after(COUNTED * 4, QUICK / 5);
        commit_times.note_commit(STANDSTILL - QUICK);
        assert!(commit_times.is_quick());
        for _ in 0..COUNTED {
            commit_times.note_commit(QUICK * 10);
            (0..5).for_each(|_| commit_times.note_commit(QUICK / 5));
        }
        assert!(!commit_times.is_quick(), "one in six is slow");
        assert!(!after(COUNTED * 8, QUICK * 2).is_quick());
    }

    #[test]
    fn one_standstill_uses_the_thread() {
        let mut commit_times = after(COUNTED * 4, QUICK / 5);
        commit_times.note_commit(STANDSTILL);
        assert!(!commit_times.is_quick());
        (0..COUNTED).for_each(|_| commit_times.note_commit(QUICK / 5));
        assert!(!commit_times.is_quick());
    }
}
