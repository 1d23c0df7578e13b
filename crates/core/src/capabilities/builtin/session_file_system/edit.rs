//! `edit_file`: replaces one exact passage of a text file.

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};

use super::WRITERS;
use crate::capabilities::builtin::session_tool::{
    SessionTool, ToolFailure, fail, files, object, writes,
};
use crate::session_file::occurrences;
use crate::session_path::normalize;
use crate::tools::{SideEffectClass, ToolHints};
use crate::traits::ToolContext;

pub(super) struct EditFile;

#[derive(Deserialize)]
pub(super) struct Args {
    path: String,
    old_string: String,
    new_string: String,
}

#[async_trait]
impl SessionTool for EditFile {
    type Args = Args;
    const NAME: &'static str = "edit_file";
    const DESCRIPTION: &'static str = "Replace a passage of a text file. `old_string` must occur exactly once; add lines around it until it does.";

    fn schema(&self) -> Value {
        object(
            json!({
                "path": { "type": "string", "description": "The file" },
                "old_string": { "type": "string", "minLength": 1, "description": "The text to replace, exactly as it is in the file" },
                "new_string": { "type": "string", "description": "The text to put there" }
            }),
            &["path", "old_string", "new_string"],
        )
    }
    fn hints(&self) -> ToolHints {
        writes(WRITERS, SideEffectClass::AtMostOnce)
    }
    async fn run(&self, args: Args, ctx: &ToolContext) -> Result<Value, ToolFailure> {
        let path = normalize(&args.path)?;
        let store = files(ctx)?;
        let Some(file) = store.read_file(ctx.session_id, &path).await? else {
            return fail(format!("there is no file at {path}"));
        };
        let content = match file.content {
            Some(content) if !file.is_directory && file.encoding == "text" => content,
            _ => return fail(format!("{path} is not a text file")),
        };
        let edited = replaced(&path, &content, &args)?;
        let written = store
            .write_file_if_content_matches(ctx.session_id, &path, &content, "text", &edited, "text")
            .await?;
        let Some(written) = written else {
            return fail(format!(
                "{path} was changed in the meantime and was not edited; read it again"
            ));
        };
        let start = content.find(&args.old_string).unwrap_or(0);
        let line = content[..start].matches('\n').count() + 1;
        Ok(json!({ "path": written.path, "size_bytes": written.size_bytes, "line": line }))
    }
}

fn replaced(path: &str, content: &str, args: &Args) -> Result<String, ToolFailure> {
    let (old_string, new_string) = (&args.old_string, &args.new_string);
    if old_string.is_empty() {
        return fail("`old_string` must not be empty");
    }
    if old_string == new_string {
        return fail("`old_string` and `new_string` are the same");
    }
    match occurrences(content, old_string) {
        0 => fail(format!(
            "`old_string` has 0 matches in {path}; read the file again and copy the text exactly"
        )),
        1 => Ok(content.replacen(old_string, new_string, 1)),
        many => fail(format!(
            "`old_string` has {many} matches in {path}; add text around it until it is unique"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::super::SessionFileSystemCapability;
    use super::*;
    use crate::capabilities::builtin::testing::{FakeFiles, call};
    use crate::typed_id::SessionId;

    async fn edit(content: &str, old: &str, new: &str) -> Result<String, String> {
        let files = FakeFiles::new(&[("/f", content)]);
        let ctx = ToolContext::with_file_store(SessionId::new(), files.clone());
        let args = json!({"path": "/f", "old_string": old, "new_string": new});
        call(&SessionFileSystemCapability, "edit_file", args, &ctx).await?;
        Ok(files.text("/f").unwrap())
    }

    #[tokio::test]
    async fn one_exact_match_is_replaced() {
        assert_eq!(edit("a b\nc", "b\nc", "x").await.unwrap(), "a x");
        assert_eq!(edit("a b", " b", "").await.unwrap(), "a");
        assert_eq!(edit("ßé", "é", "ß").await.unwrap(), "ßß");
    }

    #[tokio::test]
    async fn other_edits_fail_with_the_number_of_matches() {
        for (content, old, error) in [
            ("abc", "x", "`old_string` has 0 matches in /f; "),
            ("a a a", "a", "`old_string` has 3 matches in /f; "),
            ("ééé", "éé", "`old_string` has 2 matches in /f; "),
            ("abc", "", "`old_string` must not be empty"),
            ("abc", "new", "`old_string` and `new_string` are the same"),
        ] {
            let actual = edit(content, old, "new").await.unwrap_err();
            assert!(actual.starts_with(error), "{actual}");
        }
    }

    #[tokio::test]
    async fn only_text_files_are_edited() {
        let files = FakeFiles::new(&[("/d/f", "")]);
        files.put("/bin", "AAEC", "base64");
        let ctx = ToolContext::with_file_store(SessionId::new(), files);
        for (path, error) in [
            ("/d", "/d is not a text file"),
            ("/bin", "/bin is not a text file"),
            ("/x", "there is no file at /x"),
        ] {
            let args = json!({"path": path, "old_string": "A", "new_string": "B"});
            let edited = call(&SessionFileSystemCapability, "edit_file", args, &ctx).await;
            assert_eq!(edited.unwrap_err(), error);
        }
    }
}
