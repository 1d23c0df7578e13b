//! State that all parts of a store share.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::{Connection, Params};
use tokio::sync::watch;
use windlass_core::error::AgentLoopError;

use super::cached::CachedStatements;
use super::error::{DbError, DbResult, SqliteError};
use super::journal::find;
use super::open::page_check::PageFindings;
use super::options::SqliteRetention;
use super::queries::tail::NewerRows;
use super::read::readers::Readers;
use super::stores::secrets::SecretCipher;
use super::write::stream_notifier::StreamNotifier;
use super::write::writer::{WriteContext, Writer};
use crate::durable::chain::Chain;
use crate::durable::window::Windows;
use crate::journal::StreamKey;
use windlass_core::lock::Shared;

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) chain: Chain,
    pub(crate) cipher: SecretCipher,
    pub(crate) retention: SqliteRetention,
    pub(crate) expendable_records: &'static [&'static str],
    pub(crate) readers: Arc<Readers>,
    pub(crate) notifier: Arc<StreamNotifier>,
    /// Earlier records that records of open turns may refer to.
    pub(crate) windows: Shared<Windows>,
    /// The rows that are newer than the tables.
    pub(crate) tail: Arc<NewerRows>,
    /// Missing where the store was opened for reading only.
    pub(crate) writer: Option<Writer>,
    /// The result of the page check; `None` if the store is read-only.
    pub(crate) check: Option<PageFindings>,
}

impl Inner {
    pub(crate) fn writer(&self) -> DbResult<&Writer> {
        self.writer.as_ref().ok_or(SqliteError::ReadOnly.into())
    }

    /// Runs a short read on a thread that may block.
    pub(crate) async fn read<T: Send + 'static, E: From<DbError>>(
        &self,
        read: impl FnOnce(&Connection) -> DbResult<T> + Send + 'static,
    ) -> Result<T, E> {
        Ok(self.readers.read(read).await?)
    }

    /// Runs a job in a transaction and returns when it is durable.
    pub(crate) async fn write<T: Send + 'static, E: From<DbError>>(
        &self,
        job: impl FnOnce(&mut WriteContext<'_>) -> DbResult<T> + Send + 'static,
    ) -> Result<T, E> {
        Ok(self.writer()?.write(job).await?)
    }

    /// Runs one statement as a job; returns the number of changed rows.
    pub(crate) async fn execute(
        &self,
        sql: impl Into<Cow<'static, str>>,
        parameters: impl Params + Send + 'static,
    ) -> Result<usize, AgentLoopError> {
        let sql = sql.into();
        self.write(move |work| Ok(work.db.execute_cached(&sql, parameters)?))
            .await
    }

    /// Returns a receiver of the number of a stream's newest record.
    pub(crate) async fn watch<E: From<DbError>>(
        &self,
        stream: &StreamKey,
    ) -> Result<watch::Receiver<u64>, E> {
        // Subscribe first, then read the head: an append between the two notifies.
        let receiver = self.notifier.watch(stream);
        let key = stream.clone();
        let status = self.readers.read(move |reader| find(reader, &key)).await?;
        if let Some(status) = status {
            self.notifier.show(stream, status.head);
        }
        Ok(receiver)
    }
}
