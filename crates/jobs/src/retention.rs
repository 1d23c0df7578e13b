//! Retention of ended jobs per owner, so that the jobs of one owner never displace those of another.
//!
//! Each stored job has an index row named `<owner>⏎<number>`; the numbers of an owner increase. Adding an entry removes the oldest
//! entries of the same owner that exceed the count or size limit, in the same commit. Each index row contains the total bytes up to
//! it and the number of the oldest row, so the cost does not depend on the number of rows.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use windlass_store::RowWrite;

use crate::error::JobError;
use crate::rows::{JobStore, put, readable, remove_row};

/// Default limit on the bytes of one owner's rows of each kind. Without it, jobs could fill a database and displace its other contents.
pub(crate) const BYTES_OF_OWNER: u64 = 64 * 1024 * 1024;
/// Maximum number of surplus rows removed in addition to those added, needed after the limit was lowered.
const CATCH_UP: usize = 32;

/// An index and the limits of each owner.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KeepNewest {
    /// The rows of ended jobs.
    pub(crate) ended: &'static str,
    /// Rows that list the ended jobs of an owner as `<owner> <name>`, if the kind has them.
    pub(crate) by_owner: Option<&'static str>,
    /// Rows of the index.
    pub(crate) index: &'static str,
    /// Maximum number of rows of each owner.
    pub(crate) newest: usize,
    /// Maximum total bytes of an owner's rows. The newest row is always retained.
    pub(crate) bytes: u64,
}

/// A row that is added to the index.
#[derive(Debug)]
pub(crate) struct RetainedRow {
    owner: String,
    name: String,
    bytes: u64,
}

impl RetainedRow {
    pub(crate) fn new(owner: &str, row: &RowWrite) -> Self {
        Self {
            owner: owner.to_owned(),
            name: row.key.clone(),
            bytes: row.value.as_ref().map_or(0, |value| value.len() as u64),
        }
    }
}

/// A row of the index. Rows of earlier versions contain only the name and count as empty.
#[derive(Debug, Serialize, Deserialize)]
struct IndexRow {
    name: String,
    /// Total bytes of all rows of this owner up to this one, including removed rows.
    #[serde(default)]
    total: u64,
    #[serde(default)]
    bytes: u64,
    /// Number of the oldest row when this one was written. Older rows are removed; that row may have been removed by age since.
    #[serde(default)]
    oldest: u64,
}

impl KeepNewest {
    /// Returns the writes that accompany added rows.
    pub(crate) async fn add(
        self,
        store: &JobStore,
        added: Vec<RetainedRow>,
    ) -> Result<Vec<RowWrite>, JobError> {
        let mut owners: BTreeMap<String, Vec<RetainedRow>> = BTreeMap::new();
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
        rows: Vec<RetainedRow>,
        writes: &mut Vec<RowWrite>,
    ) -> Result<(), JobError> {
        // Owner names contain no control characters, so the rows of one owner are adjacent.
        let prefix = format!("{owner}\n");
        let name = |number: u64| format!("{prefix}{number:016x}");
        let after_all = format!("{prefix}g");
        let last = store.records.page(self.index, Some(&after_all), 1).await?;
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
                writes.extend(by_owner.map(|kind| remove_row(kind, format!("{owner} {name}"))));
                writes.push(remove_row(self.ended, name));
            }
            writes.push(remove_row(self.index, record.name));
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

    /// Finds the first number after `gone` that has a row, by bisection: rows are removed in order.
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
