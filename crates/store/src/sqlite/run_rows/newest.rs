//! Rows that are newer than their table.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::journal::turn_runs::RunRow;
use crate::runs::{KeptRun, RunFilter};

/// What lists show of a run.
pub(crate) trait Listed: Clone {
    fn position(&self) -> u64;
    fn stream(&self) -> u64;
    fn is_wanted(&self, filter: &RunFilter) -> bool;
}

impl Listed for RunRow {
    fn position(&self) -> u64 {
        self.position
    }
    fn stream(&self) -> u64 {
        self.stream
    }
    fn is_wanted(&self, filter: &RunFilter) -> bool {
        self.is_wanted(filter)
    }
}

impl Listed for KeptRun {
    fn position(&self) -> u64 {
        self.position
    }
    fn stream(&self) -> u64 {
        self.stream
    }
    fn is_wanted(&self, filter: &RunFilter) -> bool {
        filter.wants(self.position, &self.summary.agent_id, self.summary.status)
    }
}

/// What a commit does to the newest rows.
#[derive(Debug)]
pub(super) enum News<R> {
    /// A run is like this now.
    Row(R),
    /// A stream has none any more that the table does not have.
    Gone(u64),
}

/// The newest rows by their positions.
pub(crate) type Rows<R> = BTreeMap<u64, R>;

/// Brings rows up to date; tells whether one went.
pub(super) fn apply<R: Listed>(rows: &mut Rows<R>, news: News<R>) -> bool {
    match news {
        News::Row(row) => {
            rows.insert(row.position(), row);
            false
        }
        News::Gone(stream) => {
            let before = rows.len();
            rows.retain(|_, row| row.stream() != stream);
            rows.len() < before
        }
    }
}

/// What the writer and those who list share.
#[derive(Debug)]
pub(crate) struct NewestRuns<R>(Mutex<Shared<R>>);

#[derive(Debug)]
struct Shared<R> {
    rows: Rows<R>,
    /// Raised when a row goes, so that a reader notices when the table and the rows do not belong together.
    generation: u64,
}

/// What a list takes from here.
pub(super) struct Selection<R> {
    pub(super) wanted: Vec<R>,
    /// What the table says about these is no longer so.
    pub(super) positions: HashSet<u64>,
}

impl<R: Listed> Selection<R> {
    pub(super) fn of(rows: &Rows<R>, filter: &RunFilter, limit: usize) -> Self {
        let newest_first = rows.values().rev();
        let wanted = newest_first.filter(|row| row.is_wanted(filter));
        Self {
            wanted: wanted.take(limit).cloned().collect(),
            positions: rows.keys().copied().collect(),
        }
    }
}

impl<R: Listed> NewestRuns<R> {
    pub(super) fn new(rows: Rows<R>) -> Self {
        Self(Mutex::new(Shared {
            rows,
            generation: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Shared<R>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn select(&self, filter: &RunFilter, limit: usize) -> (Selection<R>, u64) {
        let shared = self.lock();
        let selection = Selection::of(&shared.rows, filter, limit);
        (selection, shared.generation)
    }

    /// Finds the newest row that is asked for.
    pub(crate) fn find(&self, is_it: impl Fn(&R) -> bool) -> (Option<R>, u64) {
        let shared = self.lock();
        let mut newest_first = shared.rows.values().rev();
        let found = newest_first.find(|row| is_it(row)).cloned();
        (found, shared.generation)
    }

    pub(crate) fn at(&self, position: u64) -> Option<R> {
        self.lock().rows.get(&position).cloned()
    }

    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    pub(super) fn len(&self) -> usize {
        self.lock().rows.len()
    }

    /// Returns the rows that are asked for.
    pub(super) fn rows(&self, is_one: impl Fn(&R) -> bool) -> Rows<R> {
        let shared = self.lock();
        let rows = shared.rows.iter().filter(|(_, row)| is_one(row));
        rows.map(|(position, row)| (*position, row.clone()))
            .collect()
    }

    /// Takes over what a commit has made durable.
    pub(super) fn publish(&self, news: impl Iterator<Item = News<R>>) {
        let mut shared = self.lock();
        for news in news {
            if apply(&mut shared.rows, news) {
                shared.generation += 1;
            }
        }
    }

    /// Forgets all rows: the table has them.
    pub(super) fn clear(&self) {
        let mut shared = self.lock();
        shared.rows.clear();
        shared.generation += 1;
    }
}
