//! `grep_files`: lines that match a regular expression.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bounds::prefix;
use crate::capabilities::builtin::session_tool::{
    SessionTool, ToolFailure, fail, files, object, reads,
};
use crate::tools::ToolHints;
use crate::traits::ToolContext;

const DEFAULT_HITS: usize = 100;
const MAX_HITS: usize = 200;
/// Limit per line, so that a full answer fits into a tool result.
const MAX_LINE_BYTES: usize = 200;

pub(super) struct GrepFiles;

#[derive(Deserialize)]
pub(super) struct Args {
    pattern: String,
    path_pattern: Option<String>,
    limit: Option<usize>,
}

#[async_trait]
impl SessionTool for GrepFiles {
    type Args = Args;
    const NAME: &'static str = "grep_files";
    const DESCRIPTION: &'static str =
        "Search text files for lines that match a regular expression.";

    fn schema(&self) -> Value {
        object(
            json!({
                "pattern": { "type": "string", "minLength": 1, "description": "The regular expression" },
                "path_pattern": { "type": "string", "description": "Text that the path must contain, such as .rs" },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_HITS, "description": "How many hits to show" }
            }),
            &["pattern"],
        )
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        if args.pattern.is_empty() {
            return fail("`pattern` must not be empty");
        }
        let limit = args.limit.unwrap_or(DEFAULT_HITS).clamp(1, MAX_HITS);
        let hits = files(ctx)?
            .grep_files(ctx.session_id, &args.pattern, args.path_pattern.as_deref())
            .await?;
        let shown = hits.iter().take(limit).map(|hit| {
            json!({ "path": hit.path, "line_number": hit.line_number, "line": prefix(&hit.line, MAX_LINE_BYTES) })
        });
        Ok(json!({
            "matches": shown.collect::<Vec<_>>(),
            "match_count": hits.len(),
            "is_cut": hits.len() > limit
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionFileSystemCapability;
    use super::*;
    use crate::capabilities::builtin::testing::{FakeFiles, call};
    use crate::typed_id::SessionId;

    #[tokio::test]
    async fn hits_name_file_and_line_and_are_limited() {
        let files = FakeFiles::new(&[("/a.rs", "x\nfn y\nfn z"), ("/b.md", "fn w")]);
        let ctx = ToolContext::with_file_store(SessionId::new(), files);
        let grep = async |args| call(&SessionFileSystemCapability, "grep_files", args, &ctx).await;
        let found = grep(json!({"pattern": "fn", "path_pattern": ".rs", "limit": 1})).await;
        let hit = json!([{"path": "/a.rs", "line_number": 2, "line": "fn y"}]);
        assert_eq!(
            found.unwrap(),
            json!({"matches": hit, "match_count": 2, "is_cut": true})
        );
        let none = grep(json!({"pattern": "nowhere"})).await.unwrap();
        assert_eq!(none["matches"], json!([]));
        assert!(grep(json!({"pattern": ""})).await.is_err());
    }
}
