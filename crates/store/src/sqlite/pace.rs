//! Who makes a commit, and when the log is written back.
//!
//! To hand a job to another thread and to hear from it takes about as long as a sync does on a quick disk. So a caller who is
//! alone makes its commit itself, as long as that takes no longer than other things that a task does between two waits.

use std::time::Duration;

use super::connect::CHECKPOINT_PAGES;

/// A commit that takes longer is slow.
const QUICK: Duration = Duration::from_micros(500);

/// How many commits the thread makes after a slow one.
const DETOURS: u32 = 32;

/// How the last commits went.
#[derive(Debug)]
pub(crate) struct Pace {
    /// How many jobs came together.
    group: usize,
    /// How many more commits the thread makes.
    detours: u32,
}

impl Default for Pace {
    /// Nothing is known of the disk yet.
    fn default() -> Self {
        Self {
            group: 0,
            detours: DETOURS,
        }
    }
}

impl Pace {
    /// Takes the disk for quick.
    #[cfg(test)]
    pub(crate) fn quick() -> Self {
        Self {
            group: 0,
            detours: 0,
        }
    }

    pub(crate) fn note_group(&mut self, jobs: usize) {
        self.group = jobs;
    }

    pub(crate) fn note_commit(&mut self, time: Duration) {
        self.detours = match time > QUICK {
            true => DETOURS,
            false => self.detours.saturating_sub(1),
        };
    }

    /// Tells whether jobs come one at a time, and are soon done.
    pub(crate) fn is_quick(&self) -> bool {
        self.group <= 1 && self.detours == 0
    }
}

/// The write-ahead log. How long it is only SQLite knows, so what is counted is jobs.
#[derive(Debug)]
pub(crate) struct Log {
    jobs: u64,
    /// How many fill it.
    due: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self { jobs: 0, due: 512 }
    }
}

impl Log {
    pub(crate) fn note_jobs(&mut self, jobs: usize) {
        self.jobs += jobs as u64;
    }

    pub(crate) fn is_due(&self) -> bool {
        self.jobs >= self.due
    }

    /// Notes that the log was written back, and learns how many jobs fill it.
    pub(crate) fn note_written_back(&mut self, pages: u32) {
        let jobs_that_fill_it = self.jobs * u64::from(CHECKPOINT_PAGES) / u64::from(pages.max(1));
        self.due = jobs_that_fill_it.clamp(16, self.due * 2);
        self.jobs = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(commits: u32, time: Duration) -> Pace {
        let mut pace = Pace::default();
        (0..commits).for_each(|_| pace.note_commit(time));
        pace
    }

    #[test]
    fn a_caller_who_is_alone_writes_once_the_disk_has_shown_to_be_quick() {
        let mut pace = after(DETOURS - 1, QUICK);
        assert!(!pace.is_quick());
        pace.note_commit(QUICK);
        assert!(pace.is_quick());
        pace.note_group(2);
        assert!(!pace.is_quick(), "others wait");
        pace.note_group(1);
        assert!(pace.is_quick());
    }

    #[test]
    fn a_slow_commit_sends_the_next_ones_to_the_thread() {
        let mut pace = after(DETOURS, QUICK);
        pace.note_commit(QUICK * 2);
        assert!(!pace.is_quick());
        assert!(!after(DETOURS * 2, QUICK * 2).is_quick());
    }

    #[test]
    fn the_log_learns_how_many_jobs_fill_it() {
        let mut log = Log::default();
        log.note_jobs(512);
        assert!(log.is_due());
        log.note_written_back(CHECKPOINT_PAGES / 2);
        log.note_jobs(1023);
        assert!(!log.is_due());
        log.note_jobs(1);
        assert!(log.is_due());
        log.note_written_back(CHECKPOINT_PAGES * 4);
        log.note_jobs(256);
        assert!(log.is_due(), "it was four times too long");
    }
}
