//! `delete_file`: removes a file or directory.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::WRITERS;
use super::stat::SessionEntry;
use crate::capabilities::builtin::session_tool::{
    SessionTool, ToolFailure, fail, files, object, writes,
};
use crate::session_path::normalize;
use crate::tools::{SideEffectClass, ToolHints};
use crate::traits::ToolContext;

pub(super) struct DeleteFile;

#[derive(Deserialize)]
pub(super) struct Args {
    path: String,
    #[serde(default)]
    recursive: bool,
}

#[async_trait]
impl SessionTool for DeleteFile {
    type Args = Args;
    const NAME: &'static str = "delete_file";
    const DESCRIPTION: &'static str = "Delete a file, or a directory with `recursive`.";

    fn schema(&self) -> Value {
        object(
            json!({
                "path": { "type": "string", "description": "What to delete" },
                "recursive": { "type": "boolean", "description": "Whether to delete a directory with everything in it" }
            }),
            &["path"],
        )
    }
    fn hints(&self) -> ToolHints {
        writes(WRITERS, SideEffectClass::Idempotent).with_destructive(true)
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let path = normalize(&args.path)?;
        let store = files(ctx)?;
        let is_deleted = store
            .delete_file(ctx.session_id, &path, args.recursive)
            .await?;
        if is_deleted {
            return Ok(json!({ "path": path, "deleted": true }));
        }
        // A repeated delete succeeds, because the path is already gone.
        match SessionEntry::at(store, ctx.session_id, &path).await? {
            SessionEntry::Missing => {
                Ok(json!({ "path": path, "deleted": false, "reason": "nothing was there" }))
            }
            SessionEntry::Directory(children) => fail(format!(
                "{path} is a directory with {} entries; set `recursive` to delete them too",
                children.len()
            )),
            SessionEntry::File(_) => fail(format!("{path} could not be deleted")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionFileSystemCapability;
    use super::*;
    use crate::capabilities::builtin::testing::{FakeFiles, call};
    use crate::typed_id::SessionId;

    #[tokio::test]
    async fn a_full_directory_needs_recursive_and_a_missing_path_is_no_error() {
        let files = FakeFiles::new(&[("/d/f", ""), ("/g", "")]);
        let ctx = ToolContext::with_file_store(SessionId::new(), files.clone());
        let delete =
            async |args| call(&SessionFileSystemCapability, "delete_file", args, &ctx).await;
        let error = delete(json!({"path": "/d"})).await;
        assert!(
            error
                .unwrap_err()
                .starts_with("/d is a directory with 1 entries")
        );
        for (args, deleted) in [
            (json!({"path": "/d", "recursive": true}), true),
            (json!({"path": "/d"}), false),
            (json!({"path": "/g"}), true),
        ] {
            assert_eq!(delete(args).await.unwrap()["deleted"], deleted);
        }
        assert_eq!(files.text("/d/f"), None);
    }
}
