//! `grep`: lines that match a regular expression.

mod pattern;
mod tree;

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use globset::GlobMatcher;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::bounds::shortened;
use windlass_core::tools::ToolHints;
use windlass_core::traits::SecretPlaces;

use super::glob::matcher;
use crate::outputs::SessionOutputs;
use crate::secrets;
use crate::tool::{FileCall, FileTool, object, read_only_hints, with_remarks};
use crate::workspace::{FileError, OpenFile, ResolvedWorkspace, is_binary};
use pattern::Pattern;

const DEFAULT_SHOWN: usize = 100;
const MAX_SHOWN: usize = 500;
const MAX_CONTEXT: usize = 10;
/// Maximum number of characters shown of a line.
const MAX_LINE_CHARS: usize = 300;
/// Maximum size of the shown lines, below the limit at which results are truncated elsewhere.
const MAX_SHOWN_BYTES: usize = 40 * 1024;
/// Larger files are not searched.
const MAX_SEARCHED_BYTES: u64 = 8 * 1024 * 1024;

pub(super) struct GrepTool;

#[derive(Deserialize)]
pub(super) struct Args {
    pattern: String,
    path: Option<String>,
    glob: Option<String>,
    #[serde(default)]
    ignore_case: bool,
    #[serde(default)]
    context: usize,
    limit: Option<usize>,
    #[serde(default)]
    include_ignored: bool,
}

impl FileTool for GrepTool {
    type Args = Args;
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Search text files for lines that match a regular expression, ordered by path and line. \
                                       Files that .gitignore excludes are omitted.";

    fn schema() -> Value {
        object(
            json!({
                "pattern": { "type": "string", "minLength": 1, "description": "The regular expression, in Rust's syntax" },
                "path": { "type": "string", "description": "The file or directory to search, or an `output:…` path from a result; default: the working directory" },
                "glob": { "type": "string", "minLength": 1, "description": "Which files to search, such as *.rs" },
                "ignore_case": { "type": "boolean", "description": "Whether upper and lower case are the same" },
                "context": { "type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "description": "How many lines around a match to show" },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_SHOWN, "description": "How many matches to show; default: 100" },
                "include_ignored": { "type": "boolean", "description": "Whether to include files that .gitignore excludes" }
            }),
            &["pattern"],
        )
    }
    fn hints() -> ToolHints {
        read_only_hints()
    }
    fn run(args: Args, at: &ResolvedWorkspace, call: &FileCall) -> Result<Value, FileError> {
        let search = Search::new(&args, call.places.clone())?;
        let mut results = SearchResults::default();
        let path = args.path.as_deref().unwrap_or(".");
        if let Some(output) = SessionOutputs::find(call.outputs.as_ref(), path) {
            let limit = call.outputs.as_ref().map_or(0, SessionOutputs::max_bytes);
            let _ = results.add(search.output(path, output?, limit)?, &search);
            return Ok(results.report(None));
        }
        let start = at.canonical(&at.inside(path)?)?;
        let remark = match at.open_file(&start) {
            Ok(file) => {
                if search.includes(&start, &start) {
                    let _ = results.add(search.file(|| at.shown(&start), Ok(file)), &search);
                }
                None
            }
            Err(FileError::IsDirectory { .. }) => {
                let tree = tree::TreeSearch {
                    at,
                    start: &start,
                    include_ignored: args.include_ignored,
                    cancelled: &call.cancelled,
                };
                let end = tree.search(&search, &mut results)?;
                // If the search stops early, the limits of the walk do not matter.
                end.remark().filter(|_| !results.is_cut)
            }
            Err(error) => return Err(error),
        };
        Ok(results.report(remark))
    }
}

/// The pattern of a search and its limits.
struct Search {
    pattern: Pattern,
    glob: Option<GlobMatcher>,
    context: usize,
    limit: usize,
    /// Secrets to mask.
    places: Option<Arc<dyn SecretPlaces>>,
}

/// The result of searching a file.
enum SearchedFile {
    /// The file is unreadable or not text.
    Skipped,
    TooLarge,
    Text(FileMatches),
}

/// The first matching lines of a file: as many as would be shown if there were no other files.
#[derive(Default)]
struct FileMatches {
    shown: Vec<Match>,
    bytes: usize,
    has_more: bool,
}

struct Match {
    value: Value,
    bytes: usize,
}

impl Search {
    fn new(args: &Args, places: Option<Arc<dyn SecretPlaces>>) -> Result<Self, FileError> {
        let glob = args.glob.as_deref().map(|glob| matcher("glob", glob));
        Ok(Self {
            pattern: Pattern::new(&args.pattern, args.ignore_case)?,
            glob: glob.transpose()?,
            context: args.context.min(MAX_CONTEXT),
            limit: args.limit.unwrap_or(DEFAULT_SHOWN).clamp(1, MAX_SHOWN),
            places,
        })
    }

    /// Returns whether a file matches the filter, by its path below the start.
    fn includes(&self, path: &Path, start: &Path) -> bool {
        let below = path.strip_prefix(start).unwrap_or(path);
        self.glob.as_ref().is_none_or(|glob| glob.is_match(below))
    }

    fn file(
        &self,
        shown: impl FnOnce() -> String,
        opened: Result<OpenFile, FileError>,
    ) -> SearchedFile {
        match opened.map(|file| file.bytes(MAX_SEARCHED_BYTES)) {
            Ok(Ok(Some(bytes))) if !is_binary(&bytes) => {
                SearchedFile::Text(self.text(shown, &String::from_utf8_lossy(&bytes)))
            }
            Ok(Ok(None)) => SearchedFile::TooLarge,
            Ok(Ok(Some(_)) | Err(_)) | Err(_) => SearchedFile::Skipped,
        }
    }

    /// Searches a stored output.
    fn output(&self, path: &str, output: OpenFile, limit: u64) -> Result<SearchedFile, FileError> {
        let bytes = output
            .bytes(limit)
            .map_err(|error| FileError::io("read", path.to_owned(), error))?;
        Ok(bytes.map_or(SearchedFile::TooLarge, |bytes| {
            let text = String::from_utf8_lossy(&bytes);
            SearchedFile::Text(self.text(|| path.to_owned(), &text))
        }))
    }

    fn text(&self, shown: impl FnOnce() -> String, text: &str) -> FileMatches {
        let mut matches = FileMatches::default();
        if !self.pattern.may_match(text) {
            return matches;
        }
        let path = shown();
        // Masks secrets before lines are truncated and split, because half of a secret would not be recognized. The search uses the masked text.
        let masked = secrets::masked(self.places.as_deref(), text.as_bytes());
        let masked = String::from_utf8_lossy(&masked);
        let mut lines = text.lines().zip(masked.lines()).enumerate();
        // A file may have as many lines as bytes, so only the context lines are buffered.
        let mut before = VecDeque::with_capacity(self.context + 1);
        while let Some((index, (searched, line))) = lines.next() {
            if self.pattern.matches_line(searched) {
                if self.is_full(matches.shown.len(), matches.bytes) {
                    matches.has_more = true;
                    break;
                }
                let after = lines.clone().take(self.context).map(|(_, (_, line))| line);
                let found = self.match_at(&path, (index, line), &before, after);
                matches.bytes += found.bytes;
                matches.shown.push(found);
            }
            before.push_back(line);
            if before.len() > self.context {
                before.pop_front();
            }
        }
        matches
    }

    fn match_at<'a>(
        &self,
        path: &str,
        (index, line): (usize, &str),
        before: &VecDeque<&'a str>,
        after: impl Iterator<Item = &'a str>,
    ) -> Match {
        let mut bytes = path.len();
        let mut cut = |line: &str| {
            let line = shortened(line, MAX_LINE_CHARS);
            bytes += line.len();
            line
        };
        let mut value = json!({ "path": path, "line": index + 1, "text": cut(line) });
        if self.context > 0 {
            value["before"] = before.iter().map(|line| cut(line)).collect();
            value["after"] = after.map(cut).collect();
        }
        Match { value, bytes }
    }

    fn is_full(&self, count: usize, bytes: usize) -> bool {
        count == self.limit || bytes > MAX_SHOWN_BYTES
    }
}

/// The results of all files, in order.
#[derive(Default)]
struct SearchResults {
    shown: Vec<Value>,
    bytes: usize,
    searched: usize,
    too_large: usize,
    is_cut: bool,
}

impl SearchResults {
    /// Adds the next file; breaks when the limit is reached.
    fn add(&mut self, file: SearchedFile, search: &Search) -> ControlFlow<()> {
        let matches = match file {
            SearchedFile::Skipped => return ControlFlow::Continue(()),
            SearchedFile::TooLarge => {
                self.too_large += 1;
                return ControlFlow::Continue(());
            }
            SearchedFile::Text(matches) => matches,
        };
        self.searched += 1;
        for found in matches.shown {
            if search.is_full(self.shown.len(), self.bytes) {
                self.is_cut = true;
                return ControlFlow::Break(());
            }
            self.bytes += found.bytes;
            self.shown.push(found.value);
        }
        if matches.has_more {
            self.is_cut = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn report(self, remark: Option<String>) -> Value {
        let remarks = remark.into_iter().chain(self.remarks()).collect();
        let result = json!({ "files_searched": self.searched, "matches": self.shown });
        with_remarks(result, remarks)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.is_cut {
            let count = self.shown.len();
            remarks.push(format!(
                "only the first {count} matches are shown; there are more"
            ));
        }
        if self.too_large > 0 {
            let count = self.too_large;
            remarks.push(format!(
                "{count} files of more than {MAX_SEARCHED_BYTES} bytes were not searched"
            ));
        }
        remarks
    }
}
