//! Files in a directory of the host.

mod delete;
mod disk;
mod error;
mod factory;
mod grep;
mod ignored;
mod read;
mod view;
mod write;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session_file::{FileInfo, FileStat, GrepMatch, InitialFile, SessionFile};
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::SessionId;

use super::content::Content;
use super::path::checked;
use super::search::Search;
use super::writer::WriteOrigin;
use disk::DiskRoot;
pub use factory::RealDiskSessionFileSystemFactory;
pub use read::MAX_READ_BYTES;
use windlass_macros::OpaqueDebug;

/// Files in a directory of the host, which all sessions share; clones share its read-only marks.
///
/// The bytes of a file determine its encoding: UTF-8 is returned as text, even if it was written as base64.
#[derive(OpaqueDebug, Clone)]
pub struct RealDiskFileStore {
    disk: Arc<DiskRoot>,
}

impl RealDiskFileStore {
    /// Opens an existing directory as the root of the files.
    pub fn new(root: impl Into<PathBuf>) -> Result<Self> {
        let disk = Arc::new(DiskRoot::open(root.into())?);
        Ok(Self { disk })
    }

    /// Returns the root as it was given.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.disk.path
    }

    /// Runs a whole operation on a blocking thread. It completes even if the caller is dropped.
    async fn run<T: Send + 'static>(
        &self,
        operation: impl FnOnce(&DiskRoot) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let disk = Arc::clone(&self.disk);
        tokio::task::spawn_blocking(move || operation(&disk))
            .await
            .unwrap_or_else(|error| {
                Err(AgentLoopError::tool(format!(
                    "the file operation did not finish: {error}"
                )))
            })
    }
}

#[async_trait]
impl SessionFileSystem for RealDiskFileStore {
    async fn read_file(&self, session_id: SessionId, path: &str) -> Result<Option<SessionFile>> {
        let path = checked(path)?;
        self.run(move |disk| disk.read(session_id, &path)).await
    }

    async fn write_file(
        &self,
        session_id: SessionId,
        path: &str,
        content: &str,
        encoding: &str,
    ) -> Result<SessionFile> {
        let path = checked(path)?;
        let content = Content::parse(content, encoding, &path)?;
        self.run(move |disk| disk.write(session_id, &path, &content, WriteOrigin::Caller))
            .await
    }

    async fn delete_file(
        &self,
        _session_id: SessionId,
        path: &str,
        recursive: bool,
    ) -> Result<bool> {
        let path = checked(path)?;
        self.run(move |disk| disk.delete(&path, recursive)).await
    }

    async fn list_directory(&self, session_id: SessionId, path: &str) -> Result<Vec<FileInfo>> {
        let path = checked(path)?;
        self.run(move |disk| disk.list(session_id, &path)).await
    }

    async fn stat_file(&self, session_id: SessionId, path: &str) -> Result<Option<FileStat>> {
        let path = checked(path)?;
        self.run(move |disk| disk.stat(session_id, &path)).await
    }

    async fn grep_files(
        &self,
        _session_id: SessionId,
        pattern: &str,
        path_pattern: Option<&str>,
    ) -> Result<Vec<GrepMatch>> {
        let pattern = pattern.to_owned();
        let path_pattern = path_pattern.map(str::to_owned);
        self.run(move |disk| disk.grep(Search::new(&pattern, path_pattern.as_deref())?))
            .await
    }

    async fn create_directory(&self, session_id: SessionId, path: &str) -> Result<FileInfo> {
        let path = checked(path)?;
        self.run(move |disk| disk.create_directory(session_id, &path))
            .await
    }

    async fn seed_initial_file(&self, session_id: SessionId, file: &InitialFile) -> Result<()> {
        let path = checked(&file.path)?;
        let content = Content::parse(&file.content, &file.encoding, &path)?;
        let writer = WriteOrigin::Host {
            is_readonly: file.is_readonly,
        };
        self.run(move |disk| disk.write(session_id, &path, &content, writer))
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
        let path = checked(path)?;
        let expected = Content::parse(expected_content, expected_encoding, &path)?;
        let content = Content::parse(content, encoding, &path)?;
        self.run(move |disk| disk.write_if_matches(session_id, &path, &expected, &content))
            .await
    }
}
