//! The API's own data, stored among the host's records.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use windlass_macros::OpaqueDebug;
use windlass_protocol::{EnvironmentInfo, ErrorCode};
use windlass_store::{
    HostRecord, HostRecords, Maintenance, MaintenanceReport, MemoryHostRecords, MemoryRunLog,
    RunLog,
};

use super::{ANSWER_RETENTION, StoredAnswer, WireStore, records};
use crate::error::{ApiError, Result};

const ANSWER: &str = "answer";
const ENVIRONMENT: &str = "environment";
/// Number of stored responses between removals of old ones.
const TRIM_EVERY: usize = 256;

/// The record that a write check writes.
const PROBE: &str = "probe";
/// Time limit of a write check.
const WRITE_TIME: std::time::Duration = std::time::Duration::from_secs(2);
/// Minimum free disk space in bytes; with less, the next turn may not be recorded completely.
const MIN_FREE_BYTES: u64 = 4 * 1024 * 1024;

/// Stores everything as host records.
#[derive(OpaqueDebug)]
pub struct HostWireStore {
    records: Arc<dyn HostRecords>,
    runs: Arc<dyn RunLog>,
    upkeep: Option<Arc<dyn Maintenance>>,
    max_answers: usize,
    stored: AtomicUsize,
}

impl HostWireStore {
    /// Creates a store for at most `max_answers` responses; the oldest are removed first.
    #[must_use]
    pub fn new(records: Arc<dyn HostRecords>, runs: Arc<dyn RunLog>, max_answers: usize) -> Self {
        Self {
            records,
            runs,
            upkeep: None,
            max_answers: max_answers.max(1),
            stored: AtomicUsize::new(0),
        }
    }

    /// Stores everything in memory.
    #[must_use]
    pub fn in_memory(max_answers: usize) -> Self {
        let records = Arc::new(MemoryHostRecords::default());
        Self::new(records, Arc::new(MemoryRunLog::default()), max_answers)
    }

    /// Also maintains the underlying store.
    #[must_use]
    pub fn with_upkeep(mut self, upkeep: Arc<dyn Maintenance>) -> Self {
        self.upkeep = Some(upkeep);
        self
    }

    async fn trim(&self, now: DateTime<Utc>) -> Result<()> {
        let old = now - ANSWER_RETENTION;
        self.records.trim(ANSWER, old, self.max_answers).await?;
        Ok(())
    }
}

/// Serializes a response; in the record, its body follows after a line feed.
fn pack(answer: &StoredAnswer) -> Result<Vec<u8>> {
    let mut bytes = serde_json::to_vec(answer).map_err(ApiError::internal)?;
    bytes.push(b'\n');
    bytes.extend_from_slice(&answer.body);
    Ok(bytes)
}

fn unpack(bytes: &[u8]) -> Result<StoredAnswer> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (head, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let mut answer: StoredAnswer = serde_json::from_slice(head).map_err(ApiError::internal)?;
    answer.body = body.get(1..).unwrap_or_default().to_vec();
    Ok(answer)
}

#[async_trait]
impl WireStore for HostWireStore {
    fn records(&self) -> Arc<dyn HostRecords> {
        Arc::clone(&self.records)
    }

    fn runs(&self) -> Arc<dyn RunLog> {
        Arc::clone(&self.runs)
    }

    async fn answer(&self, key: &str) -> Result<Option<StoredAnswer>> {
        let Some(record) = self.records.get(ANSWER, key).await? else {
            return Ok(None);
        };
        let answer = unpack(&record.body)?;
        Ok(Some(answer).filter(|answer| answer.at > Utc::now() - ANSWER_RETENTION))
    }

    async fn store_answer(&self, key: &str, answer: StoredAnswer) -> Result<()> {
        let record = HostRecord {
            name: key.to_owned(),
            body: pack(&answer)?.into(),
        };
        self.records.put(ANSWER, record, answer.at).await?;
        let stored = self.stored.fetch_add(1, Ordering::Relaxed);
        if stored.is_multiple_of(TRIM_EVERY.min(self.max_answers)) {
            self.trim(answer.at).await?;
        }
        Ok(())
    }

    async fn maintain(&self, now: DateTime<Utc>) -> Result<MaintenanceReport> {
        self.trim(now).await?;
        match &self.upkeep {
            Some(upkeep) => Ok(upkeep.maintain_store(now).await?),
            None => Ok(MaintenanceReport::default()),
        }
    }

    async fn stored_bytes(&self) -> Result<Option<u64>> {
        match &self.upkeep {
            Some(upkeep) => Ok(Some(upkeep.stored_bytes().await?)),
            None => Ok(None),
        }
    }

    async fn check_writes(&self) -> Result<()> {
        if let Some(upkeep) = &self.upkeep {
            let free = upkeep.free_bytes().await?;
            if free < MIN_FREE_BYTES {
                let text = format!("the disk of the store has only {free} bytes left; free some");
                return Err(ApiError::new(ErrorCode::StoreUnavailable, text));
            }
        }
        let (now, name) = (Utc::now(), PROBE.to_owned());
        let body = now.to_rfc3339().into();
        let written = self.records.put(PROBE, HostRecord { name, body }, now);
        match tokio::time::timeout(WRITE_TIME, written).await {
            Ok(written) => Ok(written?),
            Err(_) => {
                let text = "the store does not write: the disk is slow, or another program holds the database";
                Err(ApiError::new(ErrorCode::StoreUnavailable, text))
            }
        }
    }

    async fn environments(&self) -> Result<Vec<EnvironmentInfo>> {
        let records = self.records.list(ENVIRONMENT).await?;
        let read = |record: HostRecord| records::environment(&record.body);
        let environments: Result<_, _> = records.into_iter().map(read).collect();
        environments.map_err(ApiError::internal)
    }

    async fn add_environment(&self, environment: EnvironmentInfo) -> Result<bool> {
        let body = records::stored_environment(&environment).map_err(ApiError::internal)?;
        let record = HostRecord {
            body: body.into(),
            name: environment.id,
        };
        Ok(self.records.add(ENVIRONMENT, record, Utc::now()).await?)
    }

    async fn remove_environment(&self, id: &str) -> Result<bool> {
        Ok(self.records.remove(ENVIRONMENT, id).await?)
    }
}
