//! Files in memory: one tree for each session.

mod change;
mod factory;
mod tree;
mod view;
mod walk;

use std::collections::HashMap;

use async_trait::async_trait;
use windlass_core::error::Result;
use windlass_core::session_file::{FileInfo, FileStat, GrepMatch, InitialFile, SessionFile};
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::SessionId;

use super::content::Content;
use super::path;
use super::quota::FileQuota;
use super::search::Search;
use super::view::View;
use super::writer::WriteOrigin;
pub use factory::InMemorySessionFileSystemFactory;
use tree::{FileTree, TreeEntry};
use windlass_core::lock::Shared;
use windlass_macros::OpaqueDebug;

/// Files in memory, separately for each session; clones share them.
///
/// Each session has its own tree and its own lock, so that no session pays for the files of another.
#[derive(OpaqueDebug, Default, Clone)]
pub struct InMemorySessionFileStore {
    sessions: Shared<HashMap<SessionId, Shared<FileTree>>>,
    quota: FileQuota,
}

impl InMemorySessionFileStore {
    /// Creates an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the quota of each session.
    #[must_use]
    pub fn with_quota(mut self, quota: FileQuota) -> Self {
        self.quota = quota;
        self
    }

    /// Writes an initial file of a session, also over a read-only one.
    pub async fn seed_initial_file(&self, session_id: SessionId, file: &InitialFile) -> Result<()> {
        let path = path::checked(&file.path)?;
        let content = Content::parse(&file.content, &file.encoding, &path)?;
        let writer = WriteOrigin::Host {
            is_readonly: file.is_readonly,
        };
        self.write(session_id, &path, content, writer).map(drop)
    }

    /// Reads the content of a file in its encoding; `None` if there is no file.
    pub async fn read_text(&self, session_id: SessionId, path: &str) -> Option<String> {
        let file = self.read_file(session_id, path).await.ok().flatten()?;
        file.content
    }

    fn tree(&self, session_id: SessionId) -> Option<Shared<FileTree>> {
        self.sessions.read().get(&session_id).cloned()
    }

    fn tree_or_new(&self, session_id: SessionId) -> Shared<FileTree> {
        if let Some(tree) = self.tree(session_id) {
            return tree;
        }
        self.sessions.write().entry(session_id).or_default().clone()
    }

    fn write(
        &self,
        session_id: SessionId,
        path: &str,
        content: Content,
        writer: WriteOrigin,
    ) -> Result<SessionFile> {
        self.quota.check_file(path, content.len())?;
        let tree = self.tree_or_new(session_id);
        let mut tree = tree.write();
        let file = tree.write(session_id, path, content, writer, &self.quota)?;
        Ok(file.view(session_id, path).into_file(Some(&file.content)))
    }
}

#[async_trait]
impl SessionFileSystem for InMemorySessionFileStore {
    async fn read_file(&self, session_id: SessionId, path: &str) -> Result<Option<SessionFile>> {
        let path = path::checked(path)?;
        let tree = self.tree(session_id).unwrap_or_default();
        let tree = tree.read();
        let entry = tree.find(&path);
        let content = match &entry {
            TreeEntry::File(file) => Some(&file.content),
            _ => None,
        };
        let view = entry.view(session_id, &path);
        Ok(view.map(|view| view.into_file(content)))
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
        self.write(session_id, &path, content, WriteOrigin::Caller)
    }

    async fn delete_file(
        &self,
        session_id: SessionId,
        path: &str,
        recursive: bool,
    ) -> Result<bool> {
        let path = path::checked(path)?;
        let tree = self.tree(session_id).unwrap_or_default();
        // The deleted entries are dropped after the lock is released.
        let deleted = tree.write().delete(&path, recursive)?;
        Ok(deleted.is_some())
    }

    async fn list_directory(&self, session_id: SessionId, path: &str) -> Result<Vec<FileInfo>> {
        let path = path::checked(path)?;
        let tree = self.tree(session_id).unwrap_or_default();
        let tree = tree.read();
        Ok(match tree.find(&path) {
            TreeEntry::Directory(directory) => directory
                .children
                .iter()
                .map(|(name, node)| node.view(session_id, &path::join(&path, name)).into_info())
                .collect(),
            _ => Vec::new(),
        })
    }

    async fn stat_file(&self, session_id: SessionId, path: &str) -> Result<Option<FileStat>> {
        let path = path::checked(path)?;
        let tree = self.tree(session_id).unwrap_or_default();
        let tree = tree.read();
        let view = tree.find(&path).view(session_id, &path);
        Ok(view.map(View::into_stat))
    }

    async fn grep_files(
        &self,
        session_id: SessionId,
        pattern: &str,
        path_pattern: Option<&str>,
    ) -> Result<Vec<GrepMatch>> {
        let mut search = Search::new(pattern, path_pattern)?;
        if let Some(tree) = self.tree(session_id) {
            tree.read().search(&mut search);
        }
        Ok(search.into_hits())
    }

    async fn create_directory(&self, session_id: SessionId, path: &str) -> Result<FileInfo> {
        let path = path::checked(path)?;
        let tree = self.tree_or_new(session_id);
        let mut tree = tree.write();
        let directory = tree.create_directory(session_id, &path, &self.quota)?;
        Ok(directory.view(session_id, &path).into_info())
    }

    async fn seed_initial_file(&self, session_id: SessionId, file: &InitialFile) -> Result<()> {
        Self::seed_initial_file(self, session_id, file).await
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
        let Some(tree) = self.tree(session_id) else {
            return Ok(None);
        };
        let mut tree = tree.write();
        match tree.find(&path) {
            TreeEntry::File(file) if file.content.bytes() == expected.bytes() => {}
            _ => return Ok(None),
        }
        self.quota.check_file(&path, content.len())?;
        let file = tree.write(session_id, &path, content, WriteOrigin::Caller, &self.quota)?;
        Ok(Some(
            file.view(session_id, &path).into_file(Some(&file.content)),
        ))
    }

    async fn forget_session(&self, session_id: SessionId) -> Result<()> {
        // The files are freed after the lock is released, because the guard does not outlive this statement.
        let forgotten = self.sessions.write().remove(&session_id);
        drop(forgotten);
        Ok(())
    }
}
