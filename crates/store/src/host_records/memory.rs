//! Records of the host in memory.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use bytes::Bytes;
use chrono::{DateTime, Utc};
use windlass_core::error::Result;

use super::{HostRecord, HostRecords, RowWrite};

/// Records of the host in memory.
#[derive(Debug, Default)]
pub struct MemoryHostRecords {
    tables: Mutex<Tables>,
}

#[derive(Debug, Default)]
struct Tables {
    /// How many were written so far: of two with the same time, the later one is newer.
    written: u64,
    kept: BTreeMap<(&'static str, String), HostEntry>,
}

#[derive(Debug)]
struct HostEntry {
    age: (DateTime<Utc>, u64),
    body: Bytes,
}

impl Tables {
    fn insert(&mut self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) {
        self.written += 1;
        let kept = HostEntry {
            age: (at, self.written),
            body: record.body,
        };
        self.kept.insert((kind, record.name), kept);
    }

    fn of_kind(&self, kind: &'static str) -> impl Iterator<Item = (&String, &HostEntry)> {
        let from = (kind, String::new());
        let all = self.kept.range(from..);
        all.take_while(move |((of, _), _)| *of == kind)
            .map(|((_, name), kept)| (name, kept))
    }
}

impl MemoryHostRecords {
    fn tables(&self) -> MutexGuard<'_, Tables> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Applies the rows of an append.
    pub(crate) fn apply(&self, puts: Vec<RowWrite>, at: DateTime<Utc>) {
        let mut tables = self.tables();
        for RowWrite { kind, key, value } in puts {
            match value {
                Some(body) => tables.insert(kind, HostRecord { name: key, body }, at),
                None => drop(tables.kept.remove(&(kind, key))),
            }
        }
    }
}

#[async_trait]
impl HostRecords for MemoryHostRecords {
    async fn get(&self, kind: &'static str, name: &str) -> Result<Option<HostRecord>> {
        let tables = self.tables();
        let found = tables.kept.get(&(kind, name.to_owned()));
        Ok(found.map(|kept| HostRecord {
            name: name.to_owned(),
            body: kept.body.clone(),
        }))
    }

    async fn list(&self, kind: &'static str) -> Result<Vec<HostRecord>> {
        let tables = self.tables();
        let records = tables.of_kind(kind).map(|(name, kept)| HostRecord {
            name: name.clone(),
            body: kept.body.clone(),
        });
        Ok(records.collect())
    }

    async fn page(
        &self,
        kind: &'static str,
        before: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HostRecord>> {
        let tables = self.tables();
        let from = (kind, String::new());
        let names = match before {
            Some(before) => tables.kept.range(from..(kind, before.to_owned())),
            None => tables.kept.range(from..),
        };
        // Without an upper bound the range includes other kinds, which come first in reverse order.
        let records = names
            .rev()
            .skip_while(|((of, _), _)| *of != kind)
            .take(limit);
        let records = records.map(|((_, name), kept)| HostRecord {
            name: name.clone(),
            body: kept.body.clone(),
        });
        Ok(records.collect())
    }

    async fn put_all(
        &self,
        records: Vec<(&'static str, HostRecord)>,
        at: DateTime<Utc>,
    ) -> Result<()> {
        let mut tables = self.tables();
        for (kind, record) in records {
            tables.insert(kind, record, at);
        }
        Ok(())
    }

    async fn add(&self, kind: &'static str, record: HostRecord, at: DateTime<Utc>) -> Result<bool> {
        let mut tables = self.tables();
        let is_free = !tables.kept.contains_key(&(kind, record.name.clone()));
        if is_free {
            tables.insert(kind, record, at);
        }
        Ok(is_free)
    }

    async fn remove(&self, kind: &'static str, name: &str) -> Result<bool> {
        let removed = self.tables().kept.remove(&(kind, name.to_owned()));
        Ok(removed.is_some())
    }

    async fn trim(
        &self,
        kind: &'static str,
        before: DateTime<Utc>,
        newest: usize,
    ) -> Result<usize> {
        let mut tables = self.tables();
        let mut ages: Vec<_> = tables.of_kind(kind).map(|(_, kept)| kept.age).collect();
        ages.sort_unstable_by(|a, b| b.cmp(a));
        let oldest = newest
            .checked_sub(1)
            .and_then(|last| ages.get(last))
            .copied();
        let count = tables.kept.len();
        tables.kept.retain(|(of, _), kept| {
            let is_many = match newest {
                0 => true,
                _ => oldest.is_some_and(|oldest| kept.age < oldest),
            };
            *of != kind || (kept.age.0 >= before && !is_many)
        });
        Ok(count - tables.kept.len())
    }
}
