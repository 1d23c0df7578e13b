//! `write_file`: creates or replaces a file.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::WRITERS;
use crate::capabilities::builtin::session_tool::{SessionTool, ToolFailure, files, object, writes};
use crate::session_path::normalize;
use crate::tools::{SideEffectClass, ToolHints};
use crate::traits::ToolContext;

pub(super) struct WriteFile;

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Encoding {
    Text,
    Base64,
}

#[derive(Deserialize)]
pub(super) struct Args {
    path: String,
    content: String,
    encoding: Option<Encoding>,
}

#[async_trait]
impl SessionTool for WriteFile {
    type Args = Args;
    const NAME: &'static str = "write_file";
    const DESCRIPTION: &'static str =
        "Write a file and the directories above it; an existing file is replaced.";

    fn schema(&self) -> Value {
        object(
            json!({
                "path": { "type": "string", "description": "The file" },
                "content": { "type": "string", "description": "All of its new content" },
                "encoding": { "type": "string", "enum": ["text", "base64"], "description": "default: text" }
            }),
            &["path", "content"],
        )
    }
    fn hints(&self) -> ToolHints {
        writes(WRITERS, SideEffectClass::Idempotent).with_destructive(true)
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let path = normalize(&args.path)?;
        let encoding = match args.encoding {
            Some(Encoding::Base64) => "base64",
            Some(Encoding::Text) | None => "text",
        };
        let written = files(ctx)?
            .write_file(ctx.session_id, &path, &args.content, encoding)
            .await?;
        Ok(json!({ "path": written.path, "size_bytes": written.size_bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionFileSystemCapability;
    use super::*;
    use crate::capabilities::builtin::testing::{FakeFiles, call};
    use crate::typed_id::SessionId;

    #[tokio::test]
    async fn a_file_is_made_and_replaced() {
        let files = FakeFiles::new(&[]);
        let ctx = ToolContext::with_file_store(SessionId::new(), files.clone());
        for content in ["one", "three"] {
            let args = json!({"path": "a/b.txt", "content": content});
            let written = call(&SessionFileSystemCapability, "write_file", args, &ctx).await;
            assert_eq!(
                written.unwrap(),
                json!({"path": "/a/b.txt", "size_bytes": content.len()})
            );
            assert_eq!(files.text("/a/b.txt").as_deref(), Some(content));
        }
        let args = json!({"path": "/x", "content": "", "encoding": "rot13"});
        let error = call(&SessionFileSystemCapability, "write_file", args, &ctx).await;
        assert!(error.unwrap_err().contains("rot13"));
    }
}
