//! Who makes a commit.
//!
//! To hand a job to another thread and to hear from it takes about as long as a sync does on a quick disk. So a caller who is
//! alone makes its commit itself, as long as that takes no longer than other things that a task does between two waits.

use std::time::Duration;

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
}
