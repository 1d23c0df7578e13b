//! A file system under test, with one session and helpers for the rules.

use std::sync::Arc;

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session_file::InitialFile;
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::SessionId;

use crate::conformance::check::{CheckOutcome, Violation};

pub(super) type FileSystemRef = Arc<dyn SessionFileSystem>;

pub(super) struct FileFixture {
    pub(super) store: FileSystemRef,
    pub(super) session: SessionId,
}

impl FileFixture {
    pub(super) fn new(store: FileSystemRef) -> Self {
        Self {
            store,
            session: SessionId::new(),
        }
    }

    pub(super) async fn write(&self, path: &str, text: &str) -> Result<()> {
        let written = self.store.write_file(self.session, path, text, "text");
        written.await.map(drop)
    }

    pub(super) async fn seed(&self, path: &str, text: &str, is_readonly: bool) -> Result<()> {
        let file = InitialFile {
            path: path.to_owned(),
            content: text.to_owned(),
            encoding: "text".to_owned(),
            is_readonly,
        };
        self.store.seed_initial_file(self.session, &file).await
    }

    pub(super) async fn text(&self, path: &str) -> Result<Option<String>> {
        let file = self.store.read_file(self.session, path).await?;
        Ok(file.and_then(|file| file.content))
    }

    pub(super) async fn delete(&self, path: &str) -> Result<bool> {
        self.store.delete_file(self.session, path, false).await
    }

    pub(super) async fn delete_all(&self, path: &str) -> Result<bool> {
        self.store.delete_file(self.session, path, true).await
    }

    pub(super) async fn paths_in(&self, path: &str) -> Result<Vec<String>> {
        let listed = self.store.list_directory(self.session, path).await?;
        Ok(listed.into_iter().map(|entry| entry.path).collect())
    }

    /// Returns hits as `path:line:text`.
    pub(super) async fn grep(&self, pattern: &str, part: Option<&str>) -> Result<Vec<String>> {
        let hits = self.store.grep_files(self.session, pattern, part).await?;
        let shown = hits
            .into_iter()
            .map(|hit| format!("{}:{}:{}", hit.path, hit.line_number, hit.line));
        Ok(shown.collect())
    }

    pub(super) async fn replace(&self, path: &str, old: &str, new: &str) -> Result<bool> {
        let written = self
            .store
            .write_file_if_content_matches(self.session, path, old, "text", new, "text")
            .await?;
        Ok(written.is_some())
    }
}

/// Returns a violation unless the operation failed with a tool error that contains `why`.
pub(super) fn refused<T>(result: Result<T>, what: &str, why: &str) -> CheckOutcome {
    match result {
        Ok(_) => Err(Violation(format!("{what} is allowed"))),
        Err(AgentLoopError::ToolExecution(text)) if text.contains(why) => Ok(()),
        Err(error) => Err(Violation(format!(
            "{what} is refused, but not as a tool error that says {why:?}: {error}"
        ))),
    }
}
