//! `edit`: replaces an exact text in a file.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::session_file::occurrences;
use windlass_core::tools::{SideEffectClass, ToolHints, ToolShape};

use super::diff::Diff;
use crate::tool::{FileCall, FileTool, changing_hints, object, with_remarks};
use crate::workspace::{FileError, MAX_CHANGED_BYTES, ResolvedWorkspace};

pub(super) struct EditTool;

#[derive(Deserialize)]
pub(super) struct Args {
    path: String,
    old_string: String,
    new_string: String,
    #[serde(default)]
    replace_all: bool,
}

impl FileTool for EditTool {
    type Args = Args;
    const NAME: &'static str = "edit";
    const DESCRIPTION: &'static str = "Replace a piece of a text file. `old_string` must occur exactly once, or \
                                       `replace_all` be set; add lines around it until it is unique.";

    fn schema() -> Value {
        object(
            json!({
                "path": { "type": "string", "minLength": 1, "description": "The file" },
                "old_string": { "type": "string", "minLength": 1, "description": "The text to replace, exactly as it is in the file" },
                "new_string": { "type": "string", "description": "The text to put there" },
                "replace_all": { "type": "boolean", "description": "Whether to replace it wherever it occurs" }
            }),
            &["path", "old_string", "new_string"],
        )
    }
    /// Not repeated automatically: a repeated edit could match its own replacement.
    fn hints() -> ToolHints {
        changing_hints(SideEffectClass::AtMostOnce)
            .with_destructive(true)
            .with_shape(ToolShape::FileChange)
    }
    fn run(args: Args, at: &ResolvedWorkspace, call: &FileCall) -> Result<Value, FileError> {
        let mut replacements = 0;
        let written = at.edit_text(&at.inside(&args.path)?, |text| {
            let (edited, count) = replace(text, &args)?;
            replacements = count;
            Ok(edited)
        })?;
        call.record_write(&written);
        let path = at.shown(&written.path);
        let before = written.before.unwrap_or_default();
        let diff = Diff::between(&path, &call.masked(&before), &call.masked(&written.after));
        let result = json!({
            "path": path,
            "replacements": replacements,
            "lines_added": diff.added,
            "lines_removed": diff.removed,
            "diff": diff.text
        });
        Ok(with_remarks(result, diff.remark().into_iter().collect()))
    }
}

/// Returns the text with its matches replaced, and the number of matches.
fn replace(text: &str, args: &Args) -> Result<(String, usize), FileError> {
    let Args {
        path,
        old_string: old,
        new_string: new,
        replace_all,
    } = args;
    let refuse = |why: String| Err(FileError::Edit(why));
    if old.is_empty() {
        return refuse("`old_string` must not be empty".to_owned());
    }
    if old == new {
        return refuse("`old_string` and `new_string` are the same".to_owned());
    }
    if *replace_all {
        return match text.matches(old.as_str()).count() {
            0 => refuse(no_match(text, args)),
            count => {
                // Many small matches may be replaced by large texts.
                let bytes = (text.len() - count * old.len()) as u64;
                let bytes = bytes.saturating_add((count as u64).saturating_mul(new.len() as u64));
                if bytes <= MAX_CHANGED_BYTES {
                    Ok((text.replace(old.as_str(), new), count))
                } else {
                    Err(FileError::TooLarge {
                        path: path.clone(),
                        bytes,
                        limit: MAX_CHANGED_BYTES,
                    })
                }
            }
        };
    }
    match occurrences(text, old) {
        0 => refuse(no_match(text, args)),
        1 => Ok((text.replacen(old.as_str(), new, 1), 1)),
        many => refuse(format!(
            "`old_string` has {many} matches in {path}; add text around it until it is unique, or set `replace_all`"
        )),
    }
}

fn no_match(text: &str, args: &Args) -> String {
    let Args {
        path, old_string, ..
    } = args;
    let hint = if text.contains("\r\n") && !old_string.contains("\r\n") {
        "its lines end with \\r\\n, and those of `old_string` do not"
    } else {
        "read the file again and copy the text exactly"
    };
    format!("`old_string` has 0 matches in {path}; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_large_replacement_is_refused_before_it_is_built() {
        let args = Args {
            path: "a".to_owned(),
            old_string: "x".to_owned(),
            new_string: "y".repeat(1 << 20),
            replace_all: true,
        };
        // The result would have 16 TiB.
        let refused = replace(&"x".repeat(1 << 24), &args);
        let Err(FileError::TooLarge { bytes, .. }) = refused else {
            panic!("{:?}", refused.map(|(text, _)| text.len()));
        };
        assert_eq!(bytes, 1 << 44);
    }
}
