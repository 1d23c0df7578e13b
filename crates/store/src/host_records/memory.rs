//! Records of the host in memory.

use std::collections::BTreeMap;
use std::sync::Mutex;

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use windlass_core::error::Result;

use super::{HostRecord, HostRecords, RowWrite};
use windlass_core::lock::lock;

/// Records of the host in memory.
#[derive(Debug, Default)]
pub struct MemoryHostRecords {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// The number of writes. Of two records with the same time, the later one is newer.
    written: u64,
    entries: BTreeMap<(&'static str, String), HostEntry>,
}

#[derive(Debug)]
struct HostEntry {
    age: (DateTime<Utc>, u64),
    body: Bytes,
}

impl HostEntry {
    fn record(&self, name: &str) -> HostRecord {
        HostRecord {
            name: name.to_owned(),
            body: self.body.clone(),
        }
    }
}

impl Tables {
    fn insert(&mut self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) {
        self.written += 1;
        let entry = HostEntry {
            age: (at, self.written),
            body: record.body,
        };
        self.entries.insert((kind, record.name), entry);
    }

    /// Returns the records of a kind, in ascending order of names.
    fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = (&String, &HostEntry)> {
        let from = (kind, String::new());
        let all = self.entries.range(from..);
        all.take_while(move |((of, _), _)| *of == kind)
            .map(|((_, name), entry)| (name, entry))
    }
}

impl MemoryHostRecords {
    /// Applies the rows of an append.
    pub(crate) fn apply(&self, puts: Vec<RowWrite>, at: DateTime<Utc>) {
        let mut tables = lock(&self.tables);
        for RowWrite { kind, key, value } in puts {
            match value {
                Some(body) => tables.insert(kind, HostRecord { name: key, body }, at),
                None => drop(tables.entries.remove(&(kind, key))),
            }
        }
    }
}

#[async_trait]
impl HostRecords for MemoryHostRecords {
    async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>> {
        let tables = lock(&self.tables);
        let found = tables.entries.get(&(kind, name.to_owned()));
        Ok(found.map(|entry| entry.record(name)))
    }

    async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>> {
        let tables = lock(&self.tables);
        let records = tables.of_kind(kind);
        Ok(records.map(|(name, entry)| entry.record(name)).collect())
    }

    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HostRecord>> {
        let tables = lock(&self.tables);
        let from = (kind, String::new());
        let names = match before {
            Some(before) => tables.entries.range(from..(kind, before.to_owned())),
            None => tables.entries.range(from..),
        };
        // Without an upper bound the range includes other kinds, which come first in reverse order.
        let records = names.rev().skip_while(|((of, _), _)| *of != kind);
        let records = records.map(|((_, name), entry)| entry.record(name));
        Ok(records.take(limit).collect())
    }

    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let mut tables = lock(&self.tables);
        for (kind, record) in records {
            tables.insert(kind, record, at);
        }
        Ok(())
    }

    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<bool> {
        let mut tables = lock(&self.tables);
        let is_free = !tables.entries.contains_key(&(kind, record.name.clone()));
        if is_free {
            tables.insert(kind, record, at);
        }
        Ok(is_free)
    }

    async fn remove(&self, kind: &'static str, name: &str) -> Result<bool> {
        let removed = lock(&self.tables).entries.remove(&(kind, name.to_owned()));
        Ok(removed.is_some())
    }

    async fn trim(
        &self,
        kind: &'static str,
        before: DateTime<Utc>,
        newest: usize,
    ) -> Result<usize> {
        let mut tables = lock(&self.tables);
        let mut ages: Vec<_> = tables.of_kind(kind).map(|(_, entry)| entry.age).collect();
        ages.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = newest
            .checked_sub(1)
            .and_then(|last| ages.get(last))
            .copied();
        let count = tables.entries.len();
        tables.entries.retain(|(of, _), entry| {
            let is_many = match newest {
                0 => true,
                _ => oldest.is_some_and(|oldest| entry.age < oldest),
            };
            *of != kind || (entry.age.0 >= before && !is_many)
        });
        Ok(count - tables.entries.len())
    }
}
