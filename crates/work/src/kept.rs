//! What has ended, counted for each owner, so that the many of one push out nothing of another.
//!
//! Beside what is kept stands a row of an index, `<owner>⏎<number>`, which names it; the numbers of an owner count up. Whoever adds
//! something takes out what is too many of the same owner, in the same commit: nobody ever goes through all of it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_store::Put;

use crate::error::WorkError;
use crate::ledger::{WorkStore, put, readable, take_out};

/// How many more than were added are taken out at once, where there are too many: the limit may have been greater before.
const CATCH_UP: usize = 32;

/// An index, and how many of each owner are kept by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Kept {
    pub(crate) index: &'static str,
    pub(crate) newest: usize,
}

/// What to write so that the newest of each owner are kept.
#[derive(Debug, Default)]
pub(crate) struct Keeping {
    /// Rows of the index.
    pub(crate) puts: Vec<Put>,
    /// The owners and names of what goes.
    pub(crate) gone: Vec<(String, String)>,
}

/// A row of the index.
#[derive(Debug, Serialize, Deserialize)]
struct KeptRow {
    name: String,
}

impl Kept {
    /// Says what to write with what was added, each by its owner and name.
    pub(crate) async fn add(
        self,
        store: &WorkStore,
        added: Vec<(String, String)>,
    ) -> Result<Keeping, WorkError> {
        let mut owners: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for (owner, name) in added {
            owners.entry(owner).or_default().push(name);
        }
        let mut keeping = Keeping::default();
        for (owner, names) in owners {
            self.add_of(store, &owner, names, &mut keeping).await?;
        }
        Ok(keeping)
    }

    async fn add_of(
        self,
        store: &WorkStore,
        owner: &str,
        names: Vec<String>,
        keeping: &mut Keeping,
    ) -> Result<(), WorkError> {
        // Names of owners have no control characters, so the rows of one lie together, and those of no other between them.
        let prefix = format!("{owner}\n");
        let row = |number: u64| format!("{prefix}{number:016x}");
        let behind_all = format!("{prefix}g");
        let last = store.records.page(self.index, Some(&behind_all), 1).await?;
        let last = last.first().and_then(|last| {
            let number = last.name.strip_prefix(&prefix)?;
            u64::from_str_radix(number, 16).ok()
        });
        let first = last.map_or(0, |last| last + 1);
        let count = names.len();
        for (number, name) in (first..).zip(names) {
            let put = put(self.index, row(number), &KeptRow { name })?;
            keeping.puts.push(put);
        }
        let Some(oldest) = (first + count as u64).checked_sub(self.newest as u64) else {
            return Ok(());
        };
        let old = Some(row(oldest));
        let old = store
            .records
            .page(self.index, old.as_deref(), count + CATCH_UP);
        for record in old.await? {
            if !record.name.starts_with(&prefix) {
                break;
            }
            let gone: Option<KeptRow> = readable(self.index, &record);
            let gone = gone.map(|row| (owner.to_owned(), row.name));
            keeping.gone.extend(gone);
            keeping.puts.push(take_out(self.index, record.name));
        }
        Ok(())
    }
}
