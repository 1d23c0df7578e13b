//! Rows that are newer than their table.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::journal::turn_runs::RunRow;
use crate::runs::{KeptRun, RunFilter};

/// What lists show of a run.
pub(crate) trait Listed: Clone {
    fn position(&self) -> u64;
    fn stream(&self) -> u64;
    fn is_wanted(&self, filter: &RunFilter) -> bool;
    /// Returns how many bytes its texts have.
    fn size(&self) -> usize;
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
    fn size(&self) -> usize {
        self.intent.len()
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
    fn size(&self) -> usize {
        self.summary.intent.len() + self.summary.agent_id.len()
    }
}

/// What a commit does to the newest rows.
#[derive(Debug)]
pub(super) enum News<R> {
    /// A run is like this now.
    Row(Arc<R>),
    /// A stream has none any more that the table does not have.
    Gone(u64),
}

/// The newest rows by their positions.
pub(crate) type Rows<R> = BTreeMap<u64, Arc<R>>;

/// How many rows there are, and how many bytes they have.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Load {
    pub(super) rows: usize,
    pub(super) bytes: usize,
}

/// What the writer and those who list share.
#[derive(Debug)]
pub(crate) struct NewestRuns<R>(Mutex<Shared<R>>);

#[derive(Debug)]
struct Shared<R> {
    rows: Rows<R>,
    /// The size of all rows.
    bytes: usize,
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
            wanted: wanted.take(limit).map(|row| R::clone(row)).collect(),
            positions: rows.keys().copied().collect(),
        }
    }
}

impl<R: Listed> NewestRuns<R> {
    pub(super) fn new(rows: Rows<R>) -> Self {
        Self(Mutex::new(Shared {
            bytes: rows.values().map(|row| row.size()).sum(),
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
        let found = newest_first.find(|row| is_it(row));
        (found.map(|row| R::clone(row)), shared.generation)
    }

    pub(crate) fn at(&self, position: u64) -> Option<R> {
        let found = self.lock().rows.get(&position).cloned();
        found.map(Arc::unwrap_or_clone)
    }

    pub(crate) fn generation(&self) -> u64 {
        self.lock().generation
    }

    pub(super) fn load(&self) -> Load {
        let shared = self.lock();
        Load {
            rows: shared.rows.len(),
            bytes: shared.bytes,
        }
    }

    /// Returns the rows that are asked for.
    pub(super) fn rows(&self, is_one: impl Fn(&R) -> bool) -> Rows<R> {
        let shared = self.lock();
        let rows = shared.rows.iter().filter(|(_, row)| is_one(row));
        rows.map(|(position, row)| (*position, Arc::clone(row)))
            .collect()
    }

    /// Takes over what a commit has made durable.
    pub(super) fn publish(&self, news: impl Iterator<Item = News<R>>) {
        let mut shared = self.lock();
        news.for_each(|news| shared.apply(news));
    }

    /// Forgets all rows: the table has them.
    pub(super) fn clear(&self) {
        let mut shared = self.lock();
        shared.rows.clear();
        shared.bytes = 0;
        shared.generation += 1;
    }
}

impl<R: Listed> Shared<R> {
    fn apply(&mut self, news: News<R>) {
        match news {
            News::Row(row) => {
                self.bytes += row.size();
                let before = self.rows.insert(row.position(), row);
                self.bytes -= before.map_or(0, |row| row.size());
            }
            News::Gone(stream) => {
                let (rows, bytes) = (self.rows.len(), &mut self.bytes);
                self.rows.retain(|_, row| {
                    let stays = row.stream() != stream;
                    *bytes -= if stays { 0 } else { row.size() };
                    stays
                });
                self.generation += u64::from(self.rows.len() < rows);
            }
        }
    }
}
