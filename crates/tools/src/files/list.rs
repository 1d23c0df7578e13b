//! `list`: the entries of a directory.

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::tools::ToolHints;

use crate::tool::{FileCall, FileTool, object, read_only_hints, with_remarks};
use crate::workspace::{FileError, ResolvedWorkspace, is_temporary};

/// Maximum number of entries shown.
const MAX_SHOWN: usize = 500;

pub(super) struct ListTool;

#[derive(Deserialize)]
pub(super) struct Args {
    path: Option<String>,
}

impl FileTool for ListTool {
    type Args = Args;
    const NAME: &'static str = "list";
    const DESCRIPTION: &'static str = "List a directory: names, kinds and sizes, ordered by name.";

    fn schema() -> Value {
        object(
            json!({ "path": { "type": "string", "description": "The directory; default: the working directory" } }),
            &[],
        )
    }
    fn hints() -> ToolHints {
        read_only_hints()
    }
    fn run(args: Args, at: &ResolvedWorkspace, _call: &FileCall) -> Result<Value, FileError> {
        let path = at.inside(args.path.as_deref().unwrap_or("."))?;
        let directory = at.open_directory(&at.canonical(&path)?)?;
        let failure = |source| at.failure("list", &path, source);
        let (mut entries, mut unreadable) = (Vec::new(), 0_usize);
        for entry in directory.entries().map_err(failure)? {
            let entry = entry.map_err(failure)?;
            match entry.file_name().into_string() {
                Ok(name) if is_temporary(&name) || at.hides(&entry) => {}
                Ok(name) => entries.push((name, entry)),
                Err(_) => unreadable += 1,
            }
        }
        entries.sort_by(|(a, _), (b, _)| a.cmp(b));
        let count = entries.len();
        // Entries that disappear meanwhile are omitted.
        let shown = entries
            .into_iter()
            .take(MAX_SHOWN)
            .filter_map(|(name, entry)| {
                let metadata = entry.metadata().ok()?;
                // A mount point can be recognized as hidden only by its metadata.
                if at.hidden().is_hidden(&metadata) {
                    return None;
                }
                let kind = metadata.file_type();
                Some(if kind.is_file() {
                    json!({ "name": name, "kind": "file", "bytes": metadata.len() })
                } else if kind.is_dir() {
                    json!({ "name": name, "kind": "directory" })
                } else if kind.is_symlink() {
                    json!({ "name": name, "kind": "link" })
                } else {
                    json!({ "name": name, "kind": "other" })
                })
            });
        let shown: Vec<_> = shown.collect();
        let mut remarks = Vec::new();
        if count > MAX_SHOWN {
            remarks.push(format!(
                "{MAX_SHOWN} of {count} entries are shown; find others with `glob`"
            ));
        }
        if unreadable > 0 {
            remarks.push(format!("{unreadable} names that are not UTF-8 are omitted"));
        }
        let result = json!({ "path": at.shown(&path), "entry_count": count, "entries": shown });
        Ok(with_remarks(result, remarks))
    }
}
