//! The files of a session.

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;

use crate::error::{AgentLoopError, Result};
use crate::session_file::{FileInfo, FileStat, GrepMatch, InitialFile, SessionFile};
use crate::typed_id::SessionId;

/// A tree of files for each session, or one that sessions share.
#[async_trait]
pub trait SessionFileSystem: Send + Sync {
    /// Reads a file or directory; `None` if the path does not exist.
    async fn read_file(&self, session_id: SessionId, path: &str) -> Result<Option<SessionFile>>;
    /// Writes a file and creates its parent directories.
    async fn write_file(
        &self,
        session_id: SessionId,
        path: &str,
        content: &str,
        encoding: &str,
    ) -> Result<SessionFile>;
    /// Deletes a path; returns whether it existed.
    async fn delete_file(&self, session_id: SessionId, path: &str, recursive: bool)
    -> Result<bool>;
    /// Lists the direct children of a directory by path.
    async fn list_directory(&self, session_id: SessionId, path: &str) -> Result<Vec<FileInfo>>;
    /// Returns the metadata of a path; `None` if it does not exist.
    async fn stat_file(&self, session_id: SessionId, path: &str) -> Result<Option<FileStat>>;
    /// Searches the text files whose path contains `path_pattern`.
    async fn grep_files(
        &self,
        session_id: SessionId,
        pattern: &str,
        path_pattern: Option<&str>,
    ) -> Result<Vec<GrepMatch>>;
    /// Creates a directory and its parents.
    async fn create_directory(&self, session_id: SessionId, path: &str) -> Result<FileInfo>;

    /// Writes a file that a session starts with. The default refuses read-only files.
    async fn seed_initial_file(&self, session_id: SessionId, file: &InitialFile) -> Result<()> {
        if file.is_readonly {
            return Err(AgentLoopError::tool(format!(
                "this file system does not support read-only files: {}",
                file.path
            )));
        }
        self.write_file(session_id, &file.path, &file.content, &file.encoding)
            .await
            .map(drop)
    }

    /// Writes a file only if it still has the expected content; otherwise returns `None`.
    async fn write_file_if_content_matches(
        &self,
        session_id: SessionId,
        path: &str,
        expected_content: &str,
        expected_encoding: &str,
        content: &str,
        encoding: &str,
    ) -> Result<Option<SessionFile>> {
        let current = self.read_file(session_id, path).await?;
        let matches = current.is_some_and(|file| {
            !file.is_directory
                && file.content.as_deref() == Some(expected_content)
                && file.encoding == expected_encoding
        });
        if !matches {
            return Ok(None);
        }
        self.write_file(session_id, path, content, encoding)
            .await
            .map(Some)
    }

    /// Drops the state of a removed session.
    async fn forget_session(&self, _session_id: SessionId) -> Result<()> {
        Ok(())
    }
}

forward_arc! { SessionFileSystem {
    async fn read_file(&self, session_id: SessionId, path: &str) -> Result<Option<SessionFile>>;
    async fn write_file(&self, session_id: SessionId, path: &str, content: &str, encoding: &str) -> Result<SessionFile>;
    async fn delete_file(&self, session_id: SessionId, path: &str, recursive: bool) -> Result<bool>;
    async fn list_directory(&self, session_id: SessionId, path: &str) -> Result<Vec<FileInfo>>;
    async fn stat_file(&self, session_id: SessionId, path: &str) -> Result<Option<FileStat>>;
    async fn grep_files(&self, session_id: SessionId, pattern: &str, path_pattern: Option<&str>) -> Result<Vec<GrepMatch>>;
    async fn create_directory(&self, session_id: SessionId, path: &str) -> Result<FileInfo>;
    async fn seed_initial_file(&self, session_id: SessionId, file: &InitialFile) -> Result<()>;
    async fn write_file_if_content_matches(&self, session_id: SessionId, path: &str, expected_content: &str, expected_encoding: &str,
        content: &str, encoding: &str) -> Result<Option<SessionFile>>;
    async fn forget_session(&self, session_id: SessionId) -> Result<()>;
}}

/// Values that a host passes to a file system factory, keyed by their type.
#[derive(Clone, Default)]
pub struct SessionFileSystemFactoryContext {
    values: HashMap<TypeId, (&'static str, Arc<dyn Any + Send + Sync>)>,
}

impl SessionFileSystemFactoryContext {
    /// Makes an empty context.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }
    /// Adds a value; it replaces an earlier value of its type.
    #[must_use]
    pub fn with<T: Any + Send + Sync>(mut self, value: Arc<T>) -> Self {
        self.values
            .insert(TypeId::of::<T>(), (type_name::<T>(), value));
        self
    }
    /// Returns the value of a type.
    #[must_use]
    pub fn get<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        let (_, value) = self.values.get(&TypeId::of::<T>())?;
        Arc::clone(value).downcast().ok()
    }
}

impl fmt::Debug for SessionFileSystemFactoryContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.values.values().map(|(name, _)| name))
            .finish()
    }
}

/// Creates the file system of a runtime.
#[async_trait]
pub trait SessionFileSystemFactory: Send + Sync {
    /// Returns the name for logs.
    fn name(&self) -> &'static str {
        "SessionFileSystemFactory"
    }
    /// Tells whether the runtime should use its own store in memory instead.
    fn is_disabled(&self) -> bool {
        false
    }
    /// Creates the file system.
    async fn create_session_file_system(
        &self,
        context: SessionFileSystemFactoryContext,
    ) -> Result<Arc<dyn SessionFileSystem>>;
}

/// The default if no factory is configured.
#[derive(Debug, Clone, Copy, Default)]
pub struct DisabledSessionFileSystemFactory;

#[async_trait]
impl SessionFileSystemFactory for DisabledSessionFileSystemFactory {
    fn name(&self) -> &'static str {
        "DisabledSessionFileSystemFactory"
    }
    fn is_disabled(&self) -> bool {
        true
    }
    async fn create_session_file_system(
        &self,
        _context: SessionFileSystemFactoryContext,
    ) -> Result<Arc<dyn SessionFileSystem>> {
        Err(AgentLoopError::config(
            "no session file system factory is set",
        ))
    }
}
