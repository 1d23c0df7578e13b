//! `stat_file`: the type and metadata of a path.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::capabilities::builtin::session_tool::{SessionTool, ToolFailure, files, object, reads};
use crate::error::Result as CoreResult;
use crate::session_file::{FileInfo, FileStat};
use crate::session_path::normalize;
use crate::tools::ToolHints;
use crate::traits::{SessionFileSystem, ToolContext};
use crate::typed_id::SessionId;

/// The entry at a path.
pub(super) enum SessionEntry {
    Missing,
    File(FileStat),
    Directory(Vec<FileInfo>),
}

impl SessionEntry {
    /// Looks up a normalized path. A directory that a store only implies, through the files below it, counts as one.
    pub(super) async fn at(
        files: &dyn SessionFileSystem,
        session_id: SessionId,
        path: &str,
    ) -> CoreResult<Self> {
        let stat = files.stat_file(session_id, path).await?;
        if let Some(stat) = stat.as_ref().filter(|stat| !stat.is_directory) {
            return Ok(Self::File(stat.clone()));
        }
        let children = files.list_directory(session_id, path).await?;
        let is_there = stat.is_some() || path == "/" || !children.is_empty();
        Ok(if is_there {
            Self::Directory(children)
        } else {
            Self::Missing
        })
    }
}

pub(super) struct StatFile;

#[derive(Deserialize)]
pub(super) struct Args {
    path: String,
}

#[async_trait]
impl SessionTool for StatFile {
    type Args = Args;
    const NAME: &'static str = "stat_file";
    const DESCRIPTION: &'static str = "Return whether a path is a file, a directory or missing.";

    fn schema(&self) -> Value {
        object(
            json!({ "path": { "type": "string", "description": "The path to look at" } }),
            &["path"],
        )
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let path = normalize(&args.path)?;
        Ok(
            match SessionEntry::at(files(ctx)?, ctx.session_id, &path).await? {
                SessionEntry::Missing => {
                    json!({ "path": path, "exists": false, "kind": "missing" })
                }
                SessionEntry::Directory(children) => json!({
                    "path": path, "exists": true, "kind": "directory", "entry_count": children.len()
                }),
                SessionEntry::File(stat) => json!({
                    "path": path, "exists": true, "kind": "file", "size_bytes": stat.size_bytes,
                    "is_readonly": stat.is_readonly, "created_at": stat.created_at, "updated_at": stat.updated_at
                }),
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionFileSystemCapability;
    use super::*;
    use crate::capabilities::builtin::testing::{FakeFiles, call};

    #[tokio::test]
    async fn r59_missing_path_file_and_empty_directory_are_distinguished() {
        let files = FakeFiles::new(&[("/d/f", "abc")]);
        let session_id = SessionId::new();
        files.create_directory(session_id, "/empty").await.unwrap();
        let ctx = ToolContext::with_file_store(session_id, files);
        for (path, kind, rest) in [
            ("/x", "missing", json!(null)),
            ("/d/f", "file", json!(3)),
            ("/empty", "directory", json!(0)),
            ("/d", "directory", json!(1)),
            ("", "directory", json!(2)),
        ] {
            let args = json!({"path": path});
            let stat = call(&SessionFileSystemCapability, "stat_file", args, &ctx)
                .await
                .unwrap();
            assert_eq!(stat["kind"], kind, "{path}");
            let size = stat.get("size_bytes").or(stat.get("entry_count"));
            assert_eq!(size.unwrap_or(&Value::Null), &rest, "{path}");
        }
    }
}
