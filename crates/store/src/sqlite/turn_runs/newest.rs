//! Rows that are newer than the table.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use windlass_core::typed_id::TurnId;

use crate::journal::turn_runs::RunRow;
use crate::runs::RunFilter;

/// What a commit does to the newest rows.
#[derive(Debug)]
pub(super) enum News {
    /// A run is like this now.
    Row(RunRow),
    /// A stream has none any more that the table does not have.
    Gone(u64),
}

/// The newest rows by their positions.
pub(super) type Rows = BTreeMap<u64, RunRow>;

/// Brings rows up to date; tells whether one went.
pub(super) fn apply(rows: &mut Rows, news: News) -> bool {
    match news {
        News::Row(row) => {
            rows.insert(row.position, row);
            false
        }
        News::Gone(stream) => {
            let before = rows.len();
            rows.retain(|_, row| row.stream != stream);
            rows.len() < before
        }
    }
}

/// What the writer and those who list share.
#[derive(Debug, Default)]
pub(crate) struct NewestRuns(Mutex<Shared>);

#[derive(Debug, Default)]
struct Shared {
    rows: Rows,
    /// Raised when a row goes, so that a reader notices when the table and the rows do not belong together.
    generation: u64,
}

/// What a list takes from here.
pub(super) struct Selection {
    pub(super) wanted: Vec<RunRow>,
    /// What the table says about these is no longer so.
    pub(super) positions: HashSet<u64>,
}

impl Selection {
    pub(super) fn of(rows: &Rows, filter: &RunFilter, limit: usize) -> Self {
        let newest_first = rows.values().rev();
        let wanted = newest_first.filter(|row| row.is_wanted(filter));
        Self {
            wanted: wanted.take(limit).cloned().collect(),
            positions: rows.keys().copied().collect(),
        }
    }
}

impl NewestRuns {
    pub(super) fn new(rows: Rows) -> Self {
        Self(Mutex::new(Shared {
            rows,
            generation: 0,
        }))
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn select(&self, filter: &RunFilter, limit: usize) -> (Selection, u64) {
        let shared = self.lock();
        let selection = Selection::of(&shared.rows, filter, limit);
        (selection, shared.generation)
    }

    pub(super) fn find(&self, turn: TurnId) -> (Option<RunRow>, u64) {
        let shared = self.lock();
        let mut newest_first = shared.rows.values().rev();
        let found = newest_first.find(|row| row.turn == turn).cloned();
        (found, shared.generation)
    }

    pub(super) fn generation(&self) -> u64 {
        self.lock().generation
    }

    pub(super) fn len(&self) -> usize {
        self.lock().rows.len()
    }

    pub(super) fn rows(&self) -> Rows {
        self.lock().rows.clone()
    }

    /// Returns the rows of one stream.
    pub(super) fn of_stream(&self, stream: u64) -> Rows {
        let shared = self.lock();
        let rows = shared.rows.iter().filter(|(_, row)| row.stream == stream);
        rows.map(|(position, row)| (*position, row.clone()))
            .collect()
    }

    /// Takes over what a commit has made durable.
    pub(super) fn publish(&self, news: impl Iterator<Item = News>) {
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
