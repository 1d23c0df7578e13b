//! Stores to test, and helpers for tests.

use std::sync::Arc;

use async_trait::async_trait;
use windlass_core::error::Result;
use windlass_core::session_file::InitialFile;
use windlass_core::traits::SessionFileSystem;
use windlass_core::typed_id::SessionId;
use windlass_store::FileApprovalGate;

pub(crate) type FileSystemRef = Arc<dyn SessionFileSystem>;

/// Allows or refuses everything.
pub(crate) struct Always(pub(crate) bool);

#[async_trait]
impl FileApprovalGate for Always {
    async fn approve_write(&self, _: &str, _: Option<String>, _: &str) -> bool {
        self.0
    }
    async fn approve_delete(&self, _: &str, _: bool) -> bool {
        self.0
    }
}

pub(crate) async fn write(
    files: &FileSystemRef,
    session: SessionId,
    path: &str,
    text: &str,
) -> Result<()> {
    files
        .write_file(session, path, text, "text")
        .await
        .map(drop)
}

pub(crate) async fn text(files: &FileSystemRef, session: SessionId, path: &str) -> Option<String> {
    files.read_file(session, path).await.unwrap()?.content
}

pub(crate) fn initial(path: &str, content: &str, is_readonly: bool) -> InitialFile {
    InitialFile {
        path: path.to_owned(),
        content: content.to_owned(),
        encoding: "text".to_owned(),
        is_readonly,
    }
}
