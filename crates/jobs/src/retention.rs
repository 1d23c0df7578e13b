//! What has ended, counted for each owner, so that the many of one push out nothing of another.
//!
//! Beside what is kept stands a row of an index, `<owner>⏎<number>`, which names it; the numbers of an owner count up. Adding an
//! entry removes the oldest ones of the same owner that are too many or have too many bytes, in the same commit. Each row of the
//! index has the sum of the bytes up to it and the number of the oldest row, so the cost does not depend on how many there are.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_store::RowWrite;

use crate::error::JobError;
use crate::rows::{JobStore, put, readable, take_out};

/// How many bytes of rows of each kind one owner may have: jobs must not fill a database whose other contents are then removed.
pub(crate) const BYTES_OF_OWNER: u64 = 64 * 1024 * 1024;
/// How many more than were added are taken out at once, where there are too many: the limit may have been greater before.
const CATCH_UP: usize = 32;

/// An index, and what each owner may have by it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepNewest {
    /// The rows of ended jobs.
    pub(crate) ended: &'static str,
    /// Rows that name the ended jobs of an owner, `<owner> <name>`, for a kind that has them.
    pub(crate) by_owner: Option<&'static str>,
    /// Rows of the index.
    pub(crate) index: &'static str,
    /// How many of each owner are kept.
    pub(crate) newest: usize,
    /// How many bytes they may have together. The newest one is kept whatever it has.
    pub(crate) bytes: u64,
}

/// A row that is added.
#[derive(Debug)]
pub(crate) struct Added {
    owner: String,
    name: String,
    bytes: u64,
}

impl Added {
    pub(crate) fn new(owner: &str, row: &RowWrite) -> Self {
        Self {
            owner: owner.to_owned(),
            name: row.key.clone(),
            bytes: row.value.as_ref().map_or(0, |value| value.len() as u64),
        }
    }
}

/// A row of the index. Rows of earlier versions have the name alone, and count as empty.
#[derive(Debug, Serialize, Deserialize)]
struct IndexRow {
    name: String,
    /// The bytes of all rows of this owner up to this one, also of those that are gone.
    #[serde(default)]
    total: u64,
    #[serde(default)]
    bytes: u64,
    /// The number of the oldest row when this one was written. Older ones are gone, and this one may be gone by age.
    #[serde(default)]
    oldest: u64,
}

impl KeepNewest {
    /// Says what to write with the rows that are added.
    pub(crate) async fn add(
        self,
        store: &JobStore,
        added: Vec<Added>,
    ) -> Result<Vec<RowWrite>, JobError> {
        let mut owners: BTreeMap<String, Vec<Added>> = BTreeMap::new();
        for row in added {
            owners.entry(row.owner.clone()).or_default().push(row);
        }
        let mut writes = Vec::new();
        for (owner, rows) in owners {
            self.add_of(store, &owner, rows, &mut writes).await?;
        }
        Ok(writes)
    }

    async fn add_of(
        self,
        store: &JobStore,
        owner: &str,
        rows: Vec<Added>,
        writes: &mut Vec<RowWrite>,
    ) -> Result<(), JobError> {
        // Names of owners have no control characters, so the rows of one lie together, and those of no other between them.
        let prefix = format!("{owner}\n");
        let name = |number: u64| format!("{prefix}{number:016x}");
        let behind_all = format!("{prefix}g");
        let last = store.records.page(self.index, Some(&behind_all), 1).await?;
        let last = last.first().and_then(|last| {
            let number = u64::from_str_radix(last.name.strip_prefix(&prefix)?, 16);
            Some((number.ok()?, readable::<IndexRow>(self.index, last)))
        });
        let next = last.as_ref().map_or(0, |(number, _)| number + 1);
        let last = last.and_then(|(_, row)| row);
        let (mut total, mut oldest) = last.map_or((0, next), |row| (row.total, row.oldest));
        let end = next + rows.len() as u64;
        let bytes_after = total + rows.iter().map(|row| row.bytes).sum::<u64>();
        for _ in 0..rows.len() + CATCH_UP {
            if oldest >= next {
                break;
            }
            let record = store.records.get(self.index, &name(oldest)).await?;
            let Some(record) = record else {
                oldest = self.first_from(store, &name, oldest, next).await?;
                continue;
            };
            let row: Option<IndexRow> = readable(self.index, &record);
            let before = row
                .as_ref()
                .map_or(0, |row| row.total.saturating_sub(row.bytes));
            if end - oldest <= self.newest as u64
                && bytes_after.saturating_sub(before) <= self.bytes
            {
                break;
            }
            if let Some(IndexRow { name, .. }) = row {
                let by_owner = self.by_owner;
                writes.extend(by_owner.map(|kind| take_out(kind, format!("{owner} {name}"))));
                writes.push(take_out(self.ended, name));
            }
            writes.push(take_out(self.index, record.name));
            oldest += 1;
        }
        for (number, row) in (next..).zip(rows) {
            total += row.bytes;
            let row = IndexRow {
                name: row.name,
                total,
                bytes: row.bytes,
                oldest,
            };
            writes.push(put(self.index, name(number), &row)?);
        }
        Ok(())
    }

    /// Finds the first number from one on that has a row. Rows are removed from the oldest on, so halving finds it.
    async fn first_from(
        self,
        store: &JobStore,
        name: impl Fn(u64) -> String,
        mut gone: u64,
        mut there: u64,
    ) -> Result<u64, JobError> {
        while there - gone > 1 {
            let middle = gone + (there - gone) / 2;
            match store.records.get(self.index, &name(middle)).await? {
                Some(_) => there = middle,
                None => gone = middle,
            }
        }
        Ok(there)
    }
}
