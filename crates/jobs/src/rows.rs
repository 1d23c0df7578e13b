//! Rows of jobs: how they are encoded, and how they are read.

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use chrono::{DateTime, TimeDelta, Utc};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use windlass_store::{HostRecord, HostRecords, Journal, RowWrite};

use crate::error::JobError;

/// Version of rows and of record payloads.
pub(crate) const VERSION: u32 = 1;
/// Rows read at a time. A row may have a few hundred kilobytes.
pub(crate) const PAGE: usize = 32;
/// Rows read at a time after a page whose rows have at most [`SMALL_ROW`] bytes on average.
const PAGE_OF_SMALL: usize = 128;
const SMALL_ROW: usize = 4 * 1024;

/// The storage of jobs.
#[derive(Clone)]
pub struct JobStore {
    /// The journal with the streams of records.
    pub journal: Arc<dyn Journal>,
    /// The rows, in the same store as the journal.
    pub records: Arc<dyn HostRecords>,
}

/// The stored form of a row.
#[derive(Serialize, Deserialize)]
struct VersionedRow<T> {
    version: u32,
    #[serde(flatten)]
    value: T,
}

/// Only the version of a row, which is checked first.
#[derive(Deserialize)]
struct VersionOnly {
    version: u32,
}

/// Returns how many rows to read after a page: more if its rows are small.
pub(crate) const fn rows_after(bytes: usize, rows: usize) -> usize {
    if bytes <= rows * SMALL_ROW {
        PAGE_OF_SMALL
    } else {
        PAGE
    }
}

/// Encodes a row.
pub(crate) fn put(
    kind: &'static str,
    key: String,
    value: &impl Serialize,
) -> Result<RowWrite, JobError> {
    let body = serde_json::to_vec(&VersionedRow {
        version: VERSION,
        value,
    });
    let body = body.map_err(|error| JobError::Storage(error.to_string()))?;
    Ok(RowWrite {
        kind,
        key,
        value: Some(Bytes::from(body)),
    })
}

/// Removes a row.
pub(crate) fn remove_row(kind: &'static str, key: String) -> RowWrite {
    RowWrite {
        kind,
        key,
        value: None,
    }
}

/// Decodes a row. An unknown version is refused.
pub(crate) fn read_row<T: DeserializeOwned>(
    kind: &'static str,
    record: &HostRecord,
) -> Result<T, JobError> {
    let corrupt = |reason: String| JobError::Corrupt {
        kind,
        name: record.name.clone(),
        reason,
    };
    let found: VersionOnly =
        serde_json::from_slice(&record.body).map_err(|error| corrupt(error.to_string()))?;
    if found.version != VERSION {
        return Err(corrupt(format!(
            "it has version {}, which this program does not know",
            found.version
        )));
    }
    let read: VersionedRow<T> =
        serde_json::from_slice(&record.body).map_err(|error| corrupt(error.to_string()))?;
    Ok(read.value)
}

/// Decodes a row, or skips it if it cannot be read: other jobs are unaffected, and the log names it.
pub(crate) fn readable<T: DeserializeOwned>(kind: &'static str, record: &HostRecord) -> Option<T> {
    let read = read_row(kind, record);
    read.inspect_err(|error| tracing::error!(%error, "a record of jobs is skipped"))
        .ok()
}

impl JobStore {
    /// Finds a row.
    pub(crate) async fn row<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        name: &str,
    ) -> Result<Option<T>, JobError> {
        let found = self.records.get(kind, name).await?;
        found.map(|record| read_row(kind, &record)).transpose()
    }

    /// Finds a row; `None` also for an unreadable row, which is logged.
    pub(crate) async fn readable_row<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        name: &str,
    ) -> Result<Option<T>, JobError> {
        let found = self.records.get(kind, name).await?;
        Ok(found.and_then(|record| readable(kind, &record)))
    }

    /// Reads rows whose names are less than `before`, the greatest name first, until `visit` breaks.
    pub(crate) async fn scan(
        &self,
        kind: &'static str,
        mut before: Option<String>,
        mut visit: impl FnMut(&HostRecord) -> Result<ControlFlow<()>, JobError> + Send,
    ) -> Result<(), JobError> {
        let mut count = PAGE;
        loop {
            let page = self.records.page(kind, before.as_deref(), count).await?;
            for record in &page {
                if visit(record)?.is_break() {
                    return Ok(());
                }
            }
            match page.last() {
                Some(last) if page.len() == count => before = Some(last.name.clone()),
                _ => return Ok(()),
            }
            count = rows_after(
                page.iter().map(|record| record.body.len()).sum(),
                page.len(),
            );
        }
    }

    /// Reads all rows of a kind that can be read, the greatest name first.
    pub(crate) async fn each<T: DeserializeOwned>(
        &self,
        kind: &'static str,
        mut visit: impl FnMut(T) + Send,
    ) -> Result<(), JobError> {
        self.scan(kind, None, |record| {
            readable(kind, record).into_iter().for_each(&mut visit);
            Ok(ControlFlow::Continue(()))
        })
        .await
    }

    /// Removes rows of several kinds that are older than `age`; returns how many there were of the first kind.
    pub(crate) async fn forget(
        &self,
        now: DateTime<Utc>,
        age: Duration,
        kinds: &[&'static str],
    ) -> Result<usize, JobError> {
        let age = TimeDelta::from_std(age).unwrap_or(TimeDelta::MAX);
        let before = now.checked_sub_signed(age);
        let before = before.unwrap_or(DateTime::<Utc>::MIN_UTC);
        let mut first = None;
        for kind in kinds {
            let count = self.records.trim(kind, before, usize::MAX).await?;
            first.get_or_insert(count);
        }
        Ok(first.unwrap_or_default())
    }
}
