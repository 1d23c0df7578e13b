//! `write`: writes a text file.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::tools::{SideEffectClass, ToolHints, ToolShape};

use super::diff::Diff;
use crate::tool::{FileCall, FileTool, changing_hints, object, with_remarks};
use crate::workspace::{FileError, ResolvedWorkspace};

pub(super) struct WriteTool;

#[derive(Deserialize)]
pub(super) struct Args {
    path: String,
    content: String,
}

impl FileTool for WriteTool {
    type Args = Args;
    const NAME: &'static str = "write";
    const DESCRIPTION: &'static str = "Write a text file. Creates the file and its directories if they are missing, and \
                                       replaces the whole file if it exists; change a part with `edit`.";

    fn schema() -> Value {
        object(
            json!({
                "path": { "type": "string", "minLength": 1, "description": "The file" },
                "content": { "type": "string", "description": "The complete new content of the file" }
            }),
            &["path", "content"],
        )
    }
    fn hints() -> ToolHints {
        changing_hints(SideEffectClass::Idempotent)
            .with_destructive(true)
            .with_shape(ToolShape::FileChange)
    }
    fn run(args: Args, at: &ResolvedWorkspace, call: &FileCall) -> Result<Value, FileError> {
        let written = at.write_text(&at.inside(&args.path)?, args.content)?;
        call.record_write(&written);
        let path = at.shown(&written.path);
        let result =
            json!({ "path": path, "bytes": written.after.len(), "created": written.is_new });
        // The content of a new file is in the call already, so a diff would only repeat it.
        let Some(before) = written.before.filter(|before| *before != written.after) else {
            return Ok(result);
        };
        let diff = Diff::between(&path, &call.masked(&before), &call.masked(&written.after));
        let mut result = with_remarks(result, diff.remark().into_iter().collect());
        result["lines_added"] = diff.added.into();
        result["lines_removed"] = diff.removed.into();
        result["diff"] = diff.text.into();
        Ok(result)
    }
}
