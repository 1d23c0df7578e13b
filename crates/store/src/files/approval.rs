//! A guard that requires an approval before a file is changed.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session_file::{FileInfo, FileStat, GrepMatch, InitialFile, SessionFile};
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::SessionId;
use windlass_macros::OpaqueDebug;

use super::content::Content;
use super::path::checked;
use super::rules;

/// Decides whether a file may be changed.
#[async_trait]
pub trait FileApprovalGate: Send + Sync {
    /// Returns whether a file may be written; `before` is `None` for a new one. Both contents are in their encoding.
    async fn approve_write(&self, path: &str, before: Option<String>, after: &str) -> bool;
    /// Returns whether a path may be deleted.
    async fn approve_delete(&self, path: &str, recursive: bool) -> bool;
}

/// Asks a [`FileApprovalGate`] before each write and delete. Reads and the set-up of a session pass.
///
/// Changes that cannot succeed fail without a request. Only the approved change is written: if the file changes while the request is pending, the
/// write fails.
#[derive(OpaqueDebug, Clone)]
pub struct ApprovalGatingFileStore {
    inner: Arc<dyn SessionFileSystem>,
    gate: Arc<dyn FileApprovalGate>,
}

impl ApprovalGatingFileStore {
    /// Puts a gate before a store.
    pub fn new(inner: Arc<dyn SessionFileSystem>, gate: Arc<dyn FileApprovalGate>) -> Self {
        Self { inner, gate }
    }

    /// Returns the file to overwrite, or the reason why it cannot be overwritten.
    async fn before(&self, session_id: SessionId, path: &str) -> Result<Option<SessionFile>> {
        match self.inner.read_file(session_id, path).await? {
            Some(found) if found.is_directory => Err(rules::is_directory(&found.path)),
            Some(found) if found.is_readonly => Err(rules::read_only(&found.path)),
            found => Ok(found),
        }
    }

    async fn ask(&self, path: &str, before: Option<String>, after: &str) -> Result<()> {
        if self.gate.approve_write(path, before, after).await {
            return Ok(());
        }
        Err(AgentLoopError::tool(format!(
            "the write was not approved: {path}"
        )))
    }
}

fn changed(path: &str) -> AgentLoopError {
    AgentLoopError::tool(format!(
        "the file changed while its write waited for approval: {path}"
    ))
}

#[async_trait]
impl SessionFileSystem for ApprovalGatingFileStore {
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
        let normal = checked(path)?;
        Content::parse(content, encoding, &normal)?;
        let Some(before) = self.before(session_id, path).await? else {
            self.ask(&normal, None, content).await?;
            // A store has no "only if missing"; this leaves the moment between two calls.
            if self.before(session_id, path).await?.is_some() {
                return Err(changed(&normal));
            }
            return self
                .inner
                .write_file(session_id, path, content, encoding)
                .await;
        };
        let expected = before.content.unwrap_or_default();
        self.ask(&normal, Some(expected.clone()), content).await?;
        self.inner
            .write_file_if_content_matches(
                session_id,
                path,
                &expected,
                &before.encoding,
                content,
                encoding,
            )
            .await?
            .ok_or_else(|| changed(&normal))
    }

    async fn delete_file(
        &self,
        session_id: SessionId,
        path: &str,
        recursive: bool,
    ) -> Result<bool> {
        let normal = checked(path)?;
        if normal == "/" {
            return Err(rules::root_delete());
        }
        match self.inner.stat_file(session_id, path).await? {
            None => return Ok(false),
            Some(found) if found.is_readonly => return Err(rules::read_only(&normal)),
            Some(found) if found.is_directory && !recursive => {
                let inside = self.inner.list_directory(session_id, path).await?;
                if !inside.is_empty() {
                    return Ok(false);
                }
            }
            Some(_) => {}
        }
        if !self.gate.approve_delete(&normal, recursive).await {
            return Err(AgentLoopError::tool(format!(
                "the delete was not approved: {normal}"
            )));
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
        self.inner.create_directory(session_id, path).await
    }

    async fn seed_initial_file(&self, session_id: SessionId, file: &InitialFile) -> Result<()> {
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
        let normal = checked(path)?;
        let expected = Content::parse(expected_content, expected_encoding, &normal)?;
        Content::parse(content, encoding, &normal)?;
        let Some(found) = self.inner.read_file(session_id, path).await? else {
            return Ok(None);
        };
        let Some(before) = found.content else {
            return Ok(None);
        };
        if Content::parse(&before, &found.encoding, &normal)?.bytes() != expected.bytes() {
            return Ok(None);
        }
        if found.is_readonly {
            return Err(rules::read_only(&normal));
        }
        self.ask(&normal, Some(before), content).await?;
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
