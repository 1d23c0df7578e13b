//! `grep`: lines that match a regular expression.

use std::ops::ControlFlow;
use std::path::Path;

use globset::GlobMatcher;
use regex::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::bounds::{MAX_PATTERN_BYTES, OutOfBounds};
use windlass_core::tools::ToolHints;

use super::glob::matcher;
use crate::outputs::SessionOutputs;
use crate::tool::{Call, FileTool, cut_line, object, reads, with_remarks};
use crate::workspace::{FileError, OpenFile, ResolvedWorkspace, Visited, Walk, is_binary};

const DEFAULT_SHOWN: usize = 100;
const MAX_SHOWN: usize = 500;
const MAX_CONTEXT: usize = 10;
/// How much of a line is shown.
const MAX_LINE_CHARS: usize = 300;
/// How many bytes of lines are shown, so that the result is not cut by others.
const MAX_SHOWN_BYTES: usize = 40 * 1024;
/// Larger files are not searched.
const MAX_SEARCHED_BYTES: u64 = 8 * 1024 * 1024;
/// How much memory a regular expression may take.
const MAX_REGEX_BYTES: usize = 1024 * 1024;

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
        let mut search = Search::new(&args)?;
        let path = args.path.as_deref().unwrap_or(".");
        if let Some(output) = SessionOutputs::find(call.outputs.as_ref(), path) {
            let limit = call.outputs.as_ref().map_or(0, SessionOutputs::max_bytes);
            return search.output(path, output?, limit);
        }
        let start = at.canonical(&at.inside(path)?)?;
        let end = match at.open_file(&start) {
            Ok(file) => {
                let _ = search.file(at, &start, &start, || Ok(file));
                None
            }
            Err(FileError::IsDirectory { .. }) => {
                let walk = Walk::new(at, args.include_ignored, call.cancelled.clone());
                let visit = |file: Visited<'_>| {
                    let name = Path::new(file.name);
                    let open = || at.open_in(file.parent, name, file.path);
                    search.file(at, file.path, &start, open)
                };
                Some(walk.files(&start, visit)?)
            }
            Err(error) => return Err(error),
        };
        let remarks = end.and_then(|end| end.remark()).into_iter();
        let remarks = remarks.chain(search.remarks()).collect();
        let result = json!({ "files_searched": search.searched, "matches": search.matches });
        Ok(with_remarks(result, remarks))
    }
}

struct Search {
    regex: Regex,
    glob: Option<GlobMatcher>,
    context: usize,
    limit: usize,
    matches: Vec<Value>,
    bytes: usize,
    searched: usize,
    too_large: usize,
    is_cut: bool,
}

impl Search {
    fn new(args: &Args) -> Result<Self, FileError> {
        let refused = |why: String| FileError::Pattern {
            what: "pattern",
            why,
        };
        // An expression is read as a whole before its memory is counted, and each class of letters takes its time.
        if args.pattern.len() > MAX_PATTERN_BYTES {
            return Err(refused(OutOfBounds::LongPattern.to_string()));
        }
        let regex = RegexBuilder::new(&args.pattern)
            .case_insensitive(args.ignore_case)
            .size_limit(MAX_REGEX_BYTES)
            .build()
            .map_err(|error| refused(error.to_string()))?;
        let glob = args.glob.as_deref().map(|glob| matcher("glob", glob));
        Ok(Self {
            regex,
            glob: glob.transpose()?,
            context: args.context.min(MAX_CONTEXT),
            limit: args.limit.unwrap_or(DEFAULT_SHOWN).clamp(1, MAX_SHOWN),
            matches: Vec::new(),
            bytes: 0,
            searched: 0,
            too_large: 0,
            is_cut: false,
        })
    }

    /// Searches a file. What cannot be read, or is no text, is left out.
    fn file(
        &mut self,
        at: &ResolvedWorkspace,
        path: &Path,
        start: &Path,
        open: impl FnOnce() -> Result<OpenFile, FileError>,
    ) -> ControlFlow<()> {
        let below = path.strip_prefix(start).unwrap_or(path);
        if self.glob.as_ref().is_some_and(|glob| !glob.is_match(below)) {
            return ControlFlow::Continue(());
        }
        let Ok(Ok(bytes)) = open().map(|file| file.bytes(MAX_SEARCHED_BYTES)) else {
            return ControlFlow::Continue(());
        };
        let Some(bytes) = bytes else {
            self.too_large += 1;
            return ControlFlow::Continue(());
        };
        if is_binary(&bytes) {
            return ControlFlow::Continue(());
        }
        self.searched += 1;
        self.lines(&at.shown(path), &String::from_utf8_lossy(&bytes))
    }

    /// Searches an output that was too long to show.
    fn output(mut self, path: &str, output: OpenFile, limit: u64) -> Result<Value, FileError> {
        let bytes = output.bytes(limit);
        let bytes = bytes.map_err(|error| FileError::io("read", path.to_owned(), error))?;
        match bytes {
            Some(bytes) => {
                self.searched += 1;
                let _ = self.lines(path, &String::from_utf8_lossy(&bytes));
            }
            None => self.too_large += 1,
        }
        let result = json!({ "files_searched": self.searched, "matches": self.matches });
        Ok(with_remarks(result, self.remarks()))
    }

    fn lines(&mut self, path: &str, text: &str) -> ControlFlow<()> {
        let lines: Vec<&str> = text.lines().collect();
        for (index, line) in lines.iter().enumerate() {
            if !self.regex.is_match(line) {
                continue;
            }
            if self.matches.len() == self.limit || self.bytes > MAX_SHOWN_BYTES {
                self.is_cut = true;
                return ControlFlow::Break(());
            }
            let mut shown = json!({ "path": path, "line": index + 1, "text": self.cut(line) });
            if self.context > 0 {
                let before = &lines[index.saturating_sub(self.context)..index];
                let after = &lines[index + 1..lines.len().min(index + 1 + self.context)];
                for (name, around) in [("before", before), ("after", after)] {
                    shown[name] = around.iter().map(|line| self.cut(line)).collect();
                }
            }
            self.bytes += path.len();
            self.matches.push(shown);
        }
        ControlFlow::Continue(())
    }

    fn cut(&mut self, line: &str) -> String {
        let line = cut_line(line, MAX_LINE_CHARS);
        self.bytes += line.len();
        line
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
