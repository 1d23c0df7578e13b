//! Files of sessions in a database, by the same rules as in memory.

mod change;
mod path_entry;

use std::ops::ControlFlow;
use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;
use windlass_core::error::Result;
use windlass_core::session_file::{FileInfo, FileStat, GrepMatch, InitialFile, SessionFile};
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::SessionId;

use crate::files::content::Content;
use crate::files::path;
use crate::files::quota::FileQuota;
use crate::files::search::{MAX_SEARCHED_BYTES, Search};
use crate::files::view::View;
use crate::files::writer::WriteOrigin;
use crate::sqlite::error::DbResult;
use crate::sqlite::inner::Inner;
use crate::sqlite::numbers::int;
use crate::sqlite::write::writer::WriteContext;
use change::FileChange;
use path_entry::{children, content_of, find, text_files};

/// Files in a SQLite database, separately for each session; clones share them.
#[derive(Debug, Clone)]
pub struct SqliteSessionFileStore {
    inner: Arc<Inner>,
    quota: FileQuota,
}

impl SqliteSessionFileStore {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self {
            inner,
            quota: FileQuota::default(),
        }
    }

    /// Sets the quota of each session.
    #[must_use]
    pub fn with_quota(mut self, quota: FileQuota) -> Self {
        self.quota = quota;
        self
    }

    async fn change<T: Send + 'static>(
        &self,
        session: SessionId,
        work: impl FnOnce(&FileChange<'_>) -> DbResult<T> + Send + 'static,
    ) -> Result<T> {
        let quota = self.quota;
        let run = move |writer: &mut WriteContext<'_>| {
            work(&FileChange {
                db: writer.db,
                session,
                quota,
            })
        };
        self.inner.write(run).await
    }

    async fn write(
        &self,
        session_id: SessionId,
        path: String,
        content: Content,
        writer: WriteOrigin,
    ) -> Result<SessionFile> {
        self.quota.check_file(&path, content.len())?;
        self.change(session_id, move |change| {
            change.write(&path, &content, writer)
        })
        .await
    }
}

#[async_trait]
impl SessionFileSystem for SqliteSessionFileStore {
    async fn read_file(&self, session_id: SessionId, path: &str) -> Result<Option<SessionFile>> {
        let path = path::checked(path)?;
        let read = move |reader: &Connection| {
            // The entry and its content must be from the same snapshot.
            let snapshot = reader.unchecked_transaction()?;
            let Some(view) = find(&snapshot, session_id, &path)?.view() else {
                return Ok(None);
            };
            let content = content_of(&snapshot, session_id, &path)?;
            Ok(Some(view.into_file(content.as_ref())))
        };
        self.inner.read(read).await
    }

    async fn write_file(
        &self,
        session_id: SessionId,
        path: &str,
        content: &str,
        encoding: &str,
    ) -> Result<SessionFile> {
        let path = path::checked(path)?;
        let content = Content::parse(content, encoding, &path)?;
        self.write(session_id, path, content, WriteOrigin::Caller)
            .await
    }

    async fn delete_file(
        &self,
        session_id: SessionId,
        path: &str,
        recursive: bool,
    ) -> Result<bool> {
        let path = path::checked(path)?;
        self.change(session_id, move |change| change.delete(&path, recursive))
            .await
    }

    async fn list_directory(&self, session_id: SessionId, path: &str) -> Result<Vec<FileInfo>> {
        let path = path::checked(path)?;
        let list = move |reader: &Connection| {
            let listed = children(reader, session_id, &path)?;
            Ok(listed.into_iter().map(View::into_info).collect())
        };
        self.inner.read(list).await
    }

    async fn stat_file(&self, session_id: SessionId, path: &str) -> Result<Option<FileStat>> {
        let path = path::checked(path)?;
        let stat = move |reader: &Connection| {
            let entry = find(reader, session_id, &path)?;
            Ok(entry.view().map(View::into_stat))
        };
        self.inner.read(stat).await
    }

    async fn grep_files(
        &self,
        session_id: SessionId,
        pattern: &str,
        path_pattern: Option<&str>,
    ) -> Result<Vec<GrepMatch>> {
        // A pattern that is wrong is refused before anything is read.
        Search::new(pattern, path_pattern)?;
        let (pattern, part) = (pattern.to_owned(), path_pattern.map(str::to_owned));
        self.inner
            .read(move |reader| {
                let mut search = Search::new(&pattern, part.as_deref())?;
                text_files(
                    reader,
                    session_id,
                    int(MAX_SEARCHED_BYTES),
                    |path, content| match content.text() {
                        Some(text) if search.matches_path(path) && search.may_match(text) => {
                            search.add_matches(path, text)
                        }
                        _ => ControlFlow::Continue(()),
                    },
                )?;
                Ok(search.into_hits())
            })
            .await
    }

    async fn create_directory(&self, session_id: SessionId, path: &str) -> Result<FileInfo> {
        let path = path::checked(path)?;
        self.change(session_id, move |change| change.create_directory(&path))
            .await
    }

    async fn seed_initial_file(&self, session_id: SessionId, file: &InitialFile) -> Result<()> {
        let path = path::checked(&file.path)?;
        let content = Content::parse(&file.content, &file.encoding, &path)?;
        let writer = WriteOrigin::Host {
            is_readonly: file.is_readonly,
        };
        self.write(session_id, path, content, writer)
            .await
            .map(drop)
    }

    async fn write_file_if_content_matches(
        &self,
        session_id: SessionId,
        path: &str,
        expected_content: &str,
        expected_encoding: &str,
        content: &str,
        encoding: &str,
    ) -> Result<Option<SessionFile>> {
        let path = path::checked(path)?;
        let expected = Content::parse(expected_content, expected_encoding, &path)?;
        let content = Content::parse(content, encoding, &path)?;
        let quota = self.quota;
        self.change(session_id, move |change| {
            let current = content_of(change.db, session_id, &path)?;
            if current.is_none_or(|current| current.bytes() != expected.bytes()) {
                return Ok(None);
            }
            quota.check_file(&path, content.len())?;
            change.write(&path, &content, WriteOrigin::Caller).map(Some)
        })
        .await
    }

    async fn forget_session(&self, session_id: SessionId) -> Result<()> {
        let sql = "DELETE FROM files WHERE session = ?1";
        let session = [session_id.uuid().into_bytes()];
        self.inner.execute(sql, session).await.map(drop)
    }
}
