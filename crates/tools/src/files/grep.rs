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
use windlass_core::tools::ToolHints;
use windlass_core::traits::SecretPlaces;

use super::glob::matcher;
use crate::outputs::SessionOutputs;
use crate::secrets;
use crate::tool::{Call, FileTool, cut_line, object, reads, with_remarks};
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

pub(super) struct Grep;

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

impl FileTool for Grep {
    type Args = Args;
    const NAME: &'static str = "grep";
    const DESCRIPTION: &'static str = "Search text files for lines that match a regular expression, ordered by path and line. \
                                       What .gitignore names is left out.";

    fn schema() -> Value {
        object(
            json!({
                "pattern": { "type": "string", "minLength": 1, "description": "The regular expression, in Rust's syntax" },
                "path": { "type": "string", "description": "The file or directory to search, or an `output:…` that a result names; the working directory unless said otherwise" },
                "glob": { "type": "string", "minLength": 1, "description": "Which files to search, such as *.rs" },
                "ignore_case": { "type": "boolean", "description": "Whether upper and lower case are the same" },
                "context": { "type": "integer", "minimum": 0, "maximum": MAX_CONTEXT, "description": "How many lines around a match to show" },
                "limit": { "type": "integer", "minimum": 1, "maximum": MAX_SHOWN, "description": "How many matches to show; 100 unless said otherwise" },
                "include_ignored": { "type": "boolean", "description": "Whether to search what .gitignore names too" }
            }),
            &["pattern"],
        )
    }
    fn hints() -> ToolHints {
        reads()
    }
    fn run(args: Args, at: &ResolvedWorkspace, call: &Call) -> Result<Value, FileError> {
        let search = Search::new(&args, call.places.clone())?;
        let mut found = Found::default();
        let path = args.path.as_deref().unwrap_or(".");
        if let Some(output) = SessionOutputs::find(call.outputs.as_ref(), path) {
            let limit = call.outputs.as_ref().map_or(0, SessionOutputs::max_bytes);
            let _ = found.add(search.output(path, output?, limit)?, &search);
            return Ok(found.report(None));
        }
        let start = at.canonical(&at.inside(path)?)?;
        let remark = match at.open_file(&start) {
            Ok(file) => {
                if search.wants(&start, &start) {
                    let _ = found.add(search.file(|| at.shown(&start), Ok(file)), &search);
                }
                None
            }
            Err(FileError::IsDirectory { .. }) => {
                let tree = tree::Tree {
                    at,
                    start: &start,
                    include_ignored: args.include_ignored,
                    cancelled: &call.cancelled,
                };
                let end = tree.search(&search, &mut found)?;
                // If the search stops early, the limits of the walk do not matter.
                end.remark().filter(|_| !found.is_cut)
            }
            Err(error) => return Err(error),
        };
        Ok(found.report(remark))
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
enum Searched {
    /// The file is unreadable or not text.
    LeftOut,
    TooLarge,
    Text(Hits),
}

/// The first matching lines of a file: as many as would be shown if there were no other files.
#[derive(Default)]
struct Hits {
    shown: Vec<Hit>,
    bytes: usize,
    has_more: bool,
}

struct Hit {
    shown: Value,
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
    fn wants(&self, path: &Path, start: &Path) -> bool {
        let below = path.strip_prefix(start).unwrap_or(path);
        self.glob.as_ref().is_none_or(|glob| glob.is_match(below))
    }

    fn file(
        &self,
        shown: impl FnOnce() -> String,
        opened: Result<OpenFile, FileError>,
    ) -> Searched {
        match opened.map(|file| file.bytes(MAX_SEARCHED_BYTES)) {
            Ok(Ok(Some(bytes))) if !is_binary(&bytes) => {
                Searched::Text(self.text(shown, &String::from_utf8_lossy(&bytes)))
            }
            Ok(Ok(None)) => Searched::TooLarge,
            Ok(Ok(Some(_)) | Err(_)) | Err(_) => Searched::LeftOut,
        }
    }

    /// Searches a stored output.
    fn output(&self, path: &str, output: OpenFile, limit: u64) -> Result<Searched, FileError> {
        let bytes = output.bytes(limit);
        let bytes = bytes.map_err(|error| FileError::io("read", path.to_owned(), error))?;
        Ok(match bytes {
            Some(bytes) => {
                let text = String::from_utf8_lossy(&bytes);
                Searched::Text(self.text(|| path.to_owned(), &text))
            }
            None => Searched::TooLarge,
        })
    }

    fn text(&self, shown: impl FnOnce() -> String, text: &str) -> Hits {
        let mut hits = Hits::default();
        if !self.pattern.may_be_in(text) {
            return hits;
        }
        let path = shown();
        // Masks secrets before lines are truncated and split, because half of a secret would not be recognized. The search uses the masked text.
        let masked = secrets::masked(self.places.as_deref(), text.as_bytes());
        let masked = String::from_utf8_lossy(&masked);
        let mut lines = text.lines().zip(masked.lines()).enumerate();
        // A file may have as many lines as bytes, so only the context lines are buffered.
        let mut before = VecDeque::with_capacity(self.context + 1);
        while let Some((index, (searched, line))) = lines.next() {
            if self.pattern.is_in_line(searched) {
                if self.is_full(hits.shown.len(), hits.bytes) {
                    hits.has_more = true;
                    break;
                }
                let after = lines.clone().take(self.context).map(|(_, (_, line))| line);
                let hit = self.hit(&path, (index, line), &before, after);
                hits.bytes += hit.bytes;
                hits.shown.push(hit);
            }
            before.push_back(line);
            if before.len() > self.context {
                before.pop_front();
            }
        }
        hits
    }

    fn hit<'a>(
        &self,
        path: &str,
        (index, line): (usize, &str),
        before: &VecDeque<&'a str>,
        after: impl Iterator<Item = &'a str>,
    ) -> Hit {
        let mut bytes = path.len();
        let mut cut = |line: &str| {
            let line = cut_line(line, MAX_LINE_CHARS);
            bytes += line.len();
            line
        };
        let mut shown = json!({ "path": path, "line": index + 1, "text": cut(line) });
        if self.context > 0 {
            shown["before"] = before.iter().map(|line| cut(line)).collect();
            shown["after"] = after.map(cut).collect();
        }
        Hit { shown, bytes }
    }

    fn is_full(&self, count: usize, bytes: usize) -> bool {
        count == self.limit || bytes > MAX_SHOWN_BYTES
    }
}

/// The results of all files, in order.
#[derive(Default)]
struct Found {
    matches: Vec<Value>,
    bytes: usize,
    searched: usize,
    too_large: usize,
    is_cut: bool,
}

impl Found {
    /// Adds the next file; breaks when the limit is reached.
    fn add(&mut self, file: Searched, search: &Search) -> ControlFlow<()> {
        let hits = match file {
            Searched::LeftOut => return ControlFlow::Continue(()),
            Searched::TooLarge => {
                self.too_large += 1;
                return ControlFlow::Continue(());
            }
            Searched::Text(hits) => hits,
        };
        self.searched += 1;
        for hit in hits.shown {
            if search.is_full(self.matches.len(), self.bytes) {
                self.is_cut = true;
                return ControlFlow::Break(());
            }
            self.bytes += hit.bytes;
            self.matches.push(hit.shown);
        }
        if hits.has_more {
            self.is_cut = true;
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn report(self, remark: Option<String>) -> Value {
        let remarks = remark.into_iter().chain(self.remarks()).collect();
        let result = json!({ "files_searched": self.searched, "matches": self.matches });
        with_remarks(result, remarks)
    }

    fn remarks(&self) -> Vec<String> {
        let mut remarks = Vec::new();
        if self.is_cut {
            let count = self.matches.len();
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
