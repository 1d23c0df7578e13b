//! A guard that rejects writes to some directories.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session_file::{FileInfo, FileStat, GrepMatch, InitialFile, SessionFile};
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;

use super::path::{checked, segments, stable_form};

/// The default names that are not writable: tool metadata and build output.
pub const DEFAULT_WRITE_BLOCKLIST: &[&str] = &[
    ".git",
    "node_modules",
    "target",
    "dist",
    "build",
    ".next",
    ".venv",
    "venv",
    ".tox",
    ".gradle",
];

/// Rejects every change at or below a blocked name; reads pass.
#[derive(OpaqueDebug, Clone)]
pub struct WriteBlocklistFileStore {
    inner: Arc<dyn SessionFileSystem>,
    blocked: BTreeSet<String>,
}

impl WriteBlocklistFileStore {
    /// Guards a store with [`DEFAULT_WRITE_BLOCKLIST`].
    pub fn new(inner: Arc<dyn SessionFileSystem>) -> Self {
        Self::with_blocklist(inner, DEFAULT_WRITE_BLOCKLIST.iter().copied())
    }

    /// Guards a store with other names. Each name matches a whole segment of a path.
    pub fn with_blocklist<N: Into<String>>(
        inner: Arc<dyn SessionFileSystem>,
        blocklist: impl IntoIterator<Item = N>,
    ) -> Self {
        let fold = |name: N| folded(&name.into()).into_owned();
        Self {
            inner,
            blocked: blocklist.into_iter().map(fold).collect(),
        }
    }

    /// Returns the one spelling of a path if it may be changed. The inner store is given the caller's own: to normalise
    /// twice would take a directory that is really called `workspace` for the root.
    fn check(&self, path: &str) -> Result<String> {
        let path = checked(path)?;
        if let Some(name) = segments(&path).find(|name| self.blocks(name)) {
            return Err(AgentLoopError::tool(format!(
                "nothing in `{name}` may be changed: {path}"
            )));
        }
        Ok(path)
    }

    fn blocks(&self, name: &str) -> bool {
        self.blocked.contains(&*folded(name))
    }

    /// Refuses to delete a directory with something blocked inside, however deep.
    async fn check_below(&self, session_id: SessionId, path: &str) -> Result<()> {
        let mut open = vec![path.to_owned()];
        while let Some(directory) = open.pop() {
            let spelled = stable_form(&directory);
            for entry in self.inner.list_directory(session_id, &spelled).await? {
                if self.blocks(&entry.name) {
                    return Err(AgentLoopError::tool(format!(
                        "cannot delete {path}: nothing in `{}` may be changed: {}",
                        entry.name, entry.path
                    )));
                }
                if entry.is_directory {
                    open.push(entry.path);
                }
            }
        }
        Ok(())
    }
}

/// The comparison ignores case if the host's file system treats `.GIT` as `.git`.
fn folded(name: &str) -> std::borrow::Cow<'_, str> {
    if cfg!(any(target_os = "macos", windows)) {
        name.to_lowercase().into()
    } else {
        name.into()
    }
}

#[async_trait]
impl SessionFileSystem for WriteBlocklistFileStore {
    async fn read_file(&self, session_id: SessionId, path: &str) -> Result<Option<SessionFile>> {
        self.inner.read_file(session_id, path).await
    }

    async fn write_file(
        &self,
        session_id: SessionId,
        path: &str,
        content: &str,
        encoding: &str,
    ) -> Result<SessionFile> {
        self.check(path)?;
        self.inner
            .write_file(session_id, path, content, encoding)
            .await
    }

    async fn delete_file(
        &self,
        session_id: SessionId,
        path: &str,
        recursive: bool,
    ) -> Result<bool> {
        let directory = self.check(path)?;
        if recursive && directory != "/" {
            self.check_below(session_id, &directory).await?;
        }
        self.inner.delete_file(session_id, path, recursive).await
    }

    async fn list_directory(&self, session_id: SessionId, path: &str) -> Result<Vec<FileInfo>> {
        self.inner.list_directory(session_id, path).await
    }

    async fn stat_file(&self, session_id: SessionId, path: &str) -> Result<Option<FileStat>> {
        self.inner.stat_file(session_id, path).await
    }

    async fn grep_files(
        &self,
        session_id: SessionId,
        pattern: &str,
        path_pattern: Option<&str>,
    ) -> Result<Vec<GrepMatch>> {
        self.inner
            .grep_files(session_id, pattern, path_pattern)
            .await
    }

    async fn create_directory(&self, session_id: SessionId, path: &str) -> Result<FileInfo> {
        self.check(path)?;
        self.inner.create_directory(session_id, path).await
    }

    async fn seed_initial_file(&self, session_id: SessionId, file: &InitialFile) -> Result<()> {
        self.check(&file.path)?;
        self.inner.seed_initial_file(session_id, file).await
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
        self.check(path)?;
        self.inner
            .write_file_if_content_matches(
                session_id,
                path,
                expected_content,
                expected_encoding,
                content,
                encoding,
            )
            .await
    }

    async fn forget_session(&self, session_id: SessionId) -> Result<()> {
        self.inner.forget_session(session_id).await
    }
}
