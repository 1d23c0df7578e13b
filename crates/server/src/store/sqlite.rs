//! What only the API knows, in the database that holds the threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use async_trait::async_trait;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use windlass_protocol::{Environment, ErrorCode};
use windlass_runtime::{HostRecord, SqliteError, SqliteHostRecords, SqliteStore};
use windlass_store::RunLog;

use super::{KEPT_FOR, StoredAnswer, Upkept, WireStore};
use crate::error::ApiError;

const ANSWER: &str = "answer";
const ENVIRONMENT: &str = "environment";
/// After how many answers the old ones are removed.
const TRIM_EVERY: usize = 256;

/// Keeps everything in a SQLite database.
pub struct SqliteWireStore {
    store: SqliteStore,
    records: SqliteHostRecords,
    max_answers: usize,
    runs: Arc<dyn RunLog>,
    kept: AtomicUsize,
}

impl std::fmt::Debug for SqliteWireStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SqliteWireStore").finish_non_exhaustive()
    }
}

impl SqliteWireStore {
    /// Keeps at most so many answers; the oldest make room.
    #[must_use]
    pub fn new(store: &SqliteStore, max_answers: usize) -> Self {
        Self {
            store: store.clone(),
            records: store.host_records(),
            max_answers: max_answers.max(1),
            runs: Arc::new(store.runs()),
            kept: AtomicUsize::new(0),
        }
    }
}

/// An answer without its body, which follows it in the record after a line feed.
#[derive(Serialize, Deserialize)]
struct Head {
    request: String,
    status: u16,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    content_type: Option<String>,
    at: chrono::DateTime<Utc>,
}

fn pack(answer: StoredAnswer) -> Result<Vec<u8>, ApiError> {
    let head = Head {
        request: answer.request,
        status: answer.status,
        content_type: answer.content_type,
        at: answer.at,
    };
    let mut bytes = serde_json::to_vec(&head).map_err(ApiError::internal)?;
    bytes.push(b'\n');
    bytes.extend(answer.body);
    Ok(bytes)
}

fn unpack(bytes: &[u8]) -> Result<StoredAnswer, ApiError> {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (head, body) = bytes.split_at(end.unwrap_or(bytes.len()));
    let head: Head = serde_json::from_slice(head).map_err(ApiError::internal)?;
    Ok(StoredAnswer {
        request: head.request,
        status: head.status,
        content_type: head.content_type,
        body: body.get(1..).unwrap_or_default().to_vec(),
        at: head.at,
    })
}

#[async_trait]
impl WireStore for SqliteWireStore {
    fn runs(&self) -> Arc<dyn RunLog> {
        Arc::clone(&self.runs)
    }

    async fn answer(&self, key: &str) -> Result<Option<StoredAnswer>, ApiError> {
        let Some(record) = self.records.get(ANSWER, key).await? else {
            return Ok(None);
        };
        let answer = unpack(&record.body)?;
        Ok(Some(answer).filter(|kept| kept.at > Utc::now() - KEPT_FOR))
    }

    async fn keep_answer(&self, key: &str, answer: StoredAnswer) -> Result<(), ApiError> {
        let at = answer.at;
        let record = HostRecord {
            name: key.to_owned(),
            body: pack(answer)?,
        };
        self.records.put(ANSWER, record, at).await?;
        let kept = self.kept.fetch_add(1, Ordering::Relaxed);
        if kept.is_multiple_of(TRIM_EVERY) {
            let newest = self.max_answers;
            self.records.trim(ANSWER, at - KEPT_FOR, newest).await?;
        }
        Ok(())
    }

    async fn maintain(&self, now: DateTime<Utc>) -> Result<Upkept, ApiError> {
        let failed =
            |error: SqliteError| ApiError::new(ErrorCode::StoreUnavailable, error.to_string());
        let done = self.store.maintain(now).await.map_err(failed)?;
        self.records
            .trim(ANSWER, now - KEPT_FOR, self.max_answers)
            .await?;
        self.store.write_back().await.map_err(failed)?;
        Ok(Upkept {
            records: done.records,
            chunks: done.chunks,
            stored_bytes: self.store.used_bytes().await.map_err(failed)?,
            findings: done.findings.iter().map(ToString::to_string).collect(),
        })
    }

    async fn environments(&self) -> Result<Vec<Environment>, ApiError> {
        let records = self.records.list(ENVIRONMENT).await?;
        let read = |record: HostRecord| serde_json::from_slice(&record.body);
        let environments: Result<_, _> = records.into_iter().map(read).collect();
        environments.map_err(ApiError::internal)
    }

    async fn add_environment(&self, environment: Environment) -> Result<bool, ApiError> {
        let record = HostRecord {
            body: serde_json::to_vec(&environment).map_err(ApiError::internal)?,
            name: environment.id,
        };
        Ok(self.records.add(ENVIRONMENT, record, Utc::now()).await?)
    }

    async fn remove_environment(&self, id: &str) -> Result<bool, ApiError> {
        Ok(self.records.remove(ENVIRONMENT, id).await?)
    }
}
