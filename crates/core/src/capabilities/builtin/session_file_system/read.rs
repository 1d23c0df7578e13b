//! `read_file`: a file, or some of its lines.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::bounds::prefix;
use crate::capabilities::builtin::session_tool::{
    SessionTool, ToolFailure, fail, files, object, reads,
};
use crate::session_file::SessionFile;
use crate::session_path::normalize;
use crate::tools::ToolHints;
use crate::traits::ToolContext;

/// The number of lines shown by default.
const DEFAULT_LINES: usize = 2000;
/// Limit per call, in bytes; fits into a tool result with some margin.
const MAX_BYTES: usize = 40 * 1024;

pub(super) struct ReadFile;

#[derive(Deserialize)]
pub(super) struct Args {
    path: String,
    offset: Option<usize>,
    limit: Option<usize>,
}

#[async_trait]
impl SessionTool for ReadFile {
    type Args = Args;
    const NAME: &'static str = "read_file";
    const DESCRIPTION: &'static str =
        "Read a file. Large files are returned in parts: continue at `next_offset`.";

    fn schema(&self) -> Value {
        object(
            json!({
                "path": { "type": "string", "description": "The file, such as /notes/today.md" },
                "offset": { "type": "integer", "minimum": 1, "description": "The first line to read, from 1" },
                "limit": { "type": "integer", "minimum": 1, "description": "How many lines to read" }
            }),
            &["path"],
        )
    }
    fn hints(&self) -> ToolHints {
        reads()
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let path = normalize(&args.path)?;
        let file = files(ctx)?.read_file(ctx.session_id, &path).await?;
        let Some(file) = file else {
            return fail(format!("there is no file at {path}"));
        };
        let Some(content) = file.content.as_deref().filter(|_| !file.is_directory) else {
            return fail(format!(
                "{path} is a directory; list it with list_directory"
            ));
        };
        if file.encoding == "text" {
            lines(&path, content, &args)
        } else {
            binary(&path, content, &file)
        }
    }
}

fn binary(path: &str, content: &str, file: &SessionFile) -> Result<Value, ToolFailure> {
    if content.len() > MAX_BYTES {
        let size = file.size_bytes;
        return fail(format!(
            "{path} is binary and has {size} bytes, which is too much to show"
        ));
    }
    Ok(
        json!({ "path": path, "content": content, "encoding": file.encoding, "size_bytes": file.size_bytes }),
    )
}

fn lines(path: &str, content: &str, args: &Args) -> Result<Value, ToolFailure> {
    let first = args.offset.unwrap_or(1).max(1);
    let limit = args.limit.unwrap_or(DEFAULT_LINES).max(1);
    let total = content.split_inclusive('\n').count();
    if first > total.max(1) {
        return fail(format!(
            "{path} has {total} lines; line {first} is past its end"
        ));
    }
    let mut shown = String::new();
    let mut count = 0;
    for line in content.split_inclusive('\n').skip(first - 1).take(limit) {
        if count > 0 && shown.len() + line.len() > MAX_BYTES {
            break;
        }
        shown.push_str(prefix(line, MAX_BYTES));
        count += 1;
    }
    let mut result = json!({
        "path": path, "content": shown, "encoding": "text",
        "first_line": first, "line_count": count, "total_lines": total
    });
    let next = first + count;
    if next <= total {
        result["next_offset"] = json!(next);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::super::SessionFileSystemCapability;
    use super::*;
    use crate::capabilities::builtin::testing::{FakeFiles, call};
    use crate::typed_id::SessionId;

    async fn read(content: &str, args: Value) -> Result<Value, String> {
        let files = FakeFiles::new(&[("/d/f", content)]);
        files.put("/bin", "AAEC", "base64");
        let ctx = ToolContext::with_file_store(SessionId::new(), files);
        call(&SessionFileSystemCapability, "read_file", args, &ctx).await
    }

    #[tokio::test]
    async fn file_is_read_in_full_or_by_lines() {
        for (args, content, next) in [
            (json!({"path": "/d/f"}), "a\nb\nc", None),
            (json!({"path": "d/f", "offset": 2}), "b\nc", None),
            (
                json!({"path": "/workspace/d/f", "limit": 2}),
                "a\nb\n",
                Some(3),
            ),
            (
                json!({"path": "/d/f", "offset": 2, "limit": 1}),
                "b\n",
                Some(3),
            ),
        ] {
            let read = read("a\nb\nc", args).await.unwrap();
            assert_eq!(read["content"], content);
            assert_eq!(read.get("next_offset"), next.map(|n| json!(n)).as_ref());
            assert_eq!(read["total_lines"], 3);
        }
        assert_eq!(
            read("", json!({"path": "/d/f"})).await.unwrap()["content"],
            ""
        );
    }

    #[tokio::test]
    async fn missing_path_directory_and_binary_file_are_distinguished() {
        for (path, error) in [
            ("/x", "there is no file at /x"),
            ("/d", "/d is a directory; list it with list_directory"),
        ] {
            let read = read("", json!({"path": path})).await;
            assert_eq!(read.unwrap_err(), error);
        }
        let past = read("a\n", json!({"path": "/d/f", "offset": 9})).await;
        assert_eq!(
            past.unwrap_err(),
            "/d/f has 1 lines; line 9 is past its end"
        );
        let binary = read("", json!({"path": "/bin"})).await.unwrap();
        assert_eq!(
            (&binary["content"], &binary["encoding"]),
            (&json!("AAEC"), &json!("base64"))
        );
    }

    #[tokio::test]
    async fn large_file_is_read_in_parts_split_between_characters() {
        let text = format!("{}\nend\n", "é".repeat(40_000));
        let part = read(&text, json!({"path": "/d/f"})).await.unwrap();
        assert_eq!(part["line_count"], 1);
        assert_eq!(part["next_offset"], 2);
        assert!(part["content"].as_str().unwrap().len() <= MAX_BYTES);
    }
}
