//! `list_directory`: the entries of a directory.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::stat::SessionEntry;
use crate::capabilities::builtin::session_tool::{
    SessionTool, ToolFailure, fail, files, object, reads,
};
use crate::session_file::FileInfo;
use crate::session_path::normalize;
use crate::tools::ToolHints;
use crate::traits::ToolContext;

const MAX_ENTRIES: usize = 500;

pub(super) struct ListDirectory;

#[derive(Deserialize)]
pub(super) struct Args {
    path: Option<String>,
}

#[async_trait]
impl SessionTool for ListDirectory {
    type Args = Args;
    const NAME: &'static str = "list_directory";
    const DESCRIPTION: &'static str = "List the entries of a directory.";

    fn schema(&self) -> Value {
        object(
            json!({ "path": { "type": "string", "description": "The directory; default: /" } }),
            &[],
        )
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let path = normalize(args.path.as_deref().unwrap_or("/"))?;
        match SessionEntry::at(files(ctx)?, ctx.session_id, &path).await? {
            SessionEntry::Missing => fail(format!("there is nothing at {path}")),
            SessionEntry::File(_) => fail(format!(
                "{path} is a file, not a directory; read it with read_file"
            )),
            SessionEntry::Directory(children) => Ok(json!({
                "path": path,
                "entry_count": children.len(),
                "entries": children.iter().take(MAX_ENTRIES).map(entry).collect::<Vec<_>>(),
                "is_cut": children.len() > MAX_ENTRIES
            })),
        }
    }
}

fn entry(info: &FileInfo) -> Value {
    if info.is_directory {
        json!({ "name": info.name, "kind": "directory" })
    } else {
        json!({ "name": info.name, "kind": "file", "size_bytes": info.size_bytes, "is_readonly": info.is_readonly })
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionFileSystemCapability;
    use super::*;
    use crate::capabilities::builtin::testing::{FakeFiles, call};
    use crate::traits::SessionFileSystem;
    use crate::typed_id::SessionId;

    #[tokio::test]
    async fn r59_missing_path_file_and_empty_directory_are_distinguished() {
        let files = FakeFiles::new(&[("/d/f", "abc")]);
        let session_id = SessionId::new();
        files.create_directory(session_id, "/empty").await.unwrap();
        let ctx = ToolContext::with_file_store(session_id, files);
        let list =
            async |args| call(&SessionFileSystemCapability, "list_directory", args, &ctx).await;
        let missing = list(json!({"path": "/x"})).await;
        assert_eq!(missing.unwrap_err(), "there is nothing at /x");
        let file = list(json!({"path": "/d/f"})).await;
        assert!(file.unwrap_err().starts_with("/d/f is a file"));
        let empty = list(json!({"path": "/empty"})).await.unwrap();
        assert_eq!(
            (&empty["entry_count"], &empty["entries"]),
            (&json!(0), &json!([]))
        );
        let root = list(json!({})).await.unwrap();
        assert_eq!(
            root["entries"],
            json!([{"name": "d", "kind": "directory"}, {"name": "empty", "kind": "directory"}])
        );
        let entries = list(json!({"path": "d/"})).await.unwrap();
        assert_eq!(
            entries["entries"],
            json!([{"name": "f", "kind": "file", "size_bytes": 3, "is_readonly": false}])
        );
    }
}
