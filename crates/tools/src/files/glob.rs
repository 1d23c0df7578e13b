//! `glob`: files whose path matches a pattern.

use std::ops::ControlFlow;

use globset::{GlobBuilder, GlobMatcher};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::bounds::check_pattern;
use windlass_core::tools::ToolHints;

use crate::tool::{FileCall, FileTool, object, read_only_hints, with_remarks};
use crate::workspace::{FileError, FileWalk, ResolvedWorkspace, WalkedFile};

/// Maximum number of files shown.
const MAX_SHOWN: usize = 500;

pub(super) struct GlobTool;

#[derive(Deserialize)]
pub(super) struct Args {
    pattern: String,
    path: Option<String>,
    #[serde(default)]
    include_ignored: bool,
}

impl FileTool for GlobTool {
    type Args = Args;
    const NAME: &'static str = "glob";
    const DESCRIPTION: &'static str = "Find files by pattern, such as `src/**/*.rs` or `*.{js,ts}`, ordered by path. A pattern \
                                       without `/` matches names at any depth. Files that .gitignore excludes are omitted.";

    fn schema() -> Value {
        object(
            json!({
                "pattern": { "type": "string", "minLength": 1, "description": "The pattern, relative to `path`" },
                "path": { "type": "string", "description": "Directory to search; default: the working directory" },
                "include_ignored": { "type": "boolean", "description": "Whether to include files that .gitignore excludes" }
            }),
            &["pattern"],
        )
    }
    fn hints() -> ToolHints {
        read_only_hints()
    }
    fn run(args: Args, at: &ResolvedWorkspace, call: &FileCall) -> Result<Value, FileError> {
        let matcher = matcher("pattern", &args.pattern)?;
        let start = at.canonical(&at.inside(args.path.as_deref().unwrap_or("."))?)?;
        let (mut files, mut is_cut) = (Vec::new(), false);
        let walk = FileWalk::new(at, args.include_ignored, call.cancelled.clone());
        let end = walk.files(&start, |WalkedFile { path, .. }| {
            if matcher.is_match(path.strip_prefix(&start).unwrap_or(path)) {
                is_cut = files.len() == MAX_SHOWN;
                if is_cut {
                    return ControlFlow::Break(());
                }
                files.push(at.shown(path));
            }
            ControlFlow::Continue(())
        })?;
        let mut remarks: Vec<_> = end.remark().into_iter().collect();
        if is_cut {
            remarks.push(format!(
                "only the first {MAX_SHOWN} files are shown; use a narrower pattern"
            ));
        }
        Ok(with_remarks(json!({ "files": files }), remarks))
    }
}

/// Parses a pattern. Without a `/` it matches names at any depth.
pub(super) fn matcher(what: &'static str, pattern: &str) -> Result<GlobMatcher, FileError> {
    let refused = |why: String| FileError::Pattern { what, why };
    check_pattern(pattern).map_err(|error| refused(error.to_string()))?;
    let any_depth = (!pattern.contains('/')).then(|| format!("**/{pattern}"));
    let pattern = any_depth.as_deref().unwrap_or(pattern);
    GlobBuilder::new(pattern.strip_prefix("./").unwrap_or(pattern))
        .literal_separator(true)
        .backslash_escape(true)
        .build()
        .map(|glob| glob.compile_matcher())
        .map_err(|error| refused(error.kind().to_string()))
}
