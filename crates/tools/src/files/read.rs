//! `read`: the lines of a text file.

use std::io::{BufRead, BufReader, Read as _};
use std::path::PathBuf;

use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::tools::ToolHints;

use crate::outputs::SessionOutputs;
use crate::secrets::MaskingReader;
use crate::tool::{FileCall, FileTool, object, read_only_hints, with_remarks};
use crate::workspace::{FileError, ResolvedWorkspace, is_binary};

const DEFAULT_LINES: usize = 1000;
const MAX_LINES: usize = 5000;
/// Maximum size of the shown lines, below the limit at which results are truncated elsewhere.
const MAX_SHOWN_BYTES: usize = 40 * 1024;
/// Maximum size shown of a line.
const MAX_LINE_BYTES: usize = 4 * 1024;
/// Maximum number of bytes scanned to find and count the lines.
const MAX_SCANNED_BYTES: u64 = 64 * 1024 * 1024;
/// Number of bytes examined to distinguish text from binary data before anything is shown.
const BUFFER_BYTES: usize = 64 * 1024;

pub(super) struct ReadTool;

#[derive(Deserialize)]
pub(super) struct Args {
    path: String,
    start_line: Option<usize>,
    lines: Option<usize>,
}

impl FileTool for ReadTool {
    type Args = Args;
    const NAME: &'static str = "read";
    const DESCRIPTION: &'static str = "Read a text file, or some lines of it. Long files are truncated, and a remark states how to continue.";

    fn schema() -> Value {
        object(
            json!({
                "path": { "type": "string", "minLength": 1, "description": "The file, or an `output:…` path from a result" },
                "start_line": { "type": "integer", "minimum": 1, "description": "The first line to show; default: 1" },
                "lines": { "type": "integer", "minimum": 1, "maximum": MAX_LINES, "description": "How many lines to show; default: 1000" }
            }),
            &["path"],
        )
    }
    fn hints() -> ToolHints {
        read_only_hints()
    }
    fn run(args: Args, at: &ResolvedWorkspace, call: &FileCall) -> Result<Value, FileError> {
        let output = SessionOutputs::find(call.outputs.as_ref(), &args.path);
        let is_output = output.is_some();
        let (opened, path, shown) = match output {
            Some(opened) => (opened?, PathBuf::from(&args.path), args.path.clone()),
            None => {
                let path = at.inside(&args.path)?;
                let shown = at.shown(&path);
                (at.open_file(&path)?, path, shown)
            }
        };
        let bytes = opened.metadata.len();
        let mut source =
            BufReader::with_capacity(BUFFER_BYTES, opened.file.take(MAX_SCANNED_BYTES));
        let failure = |error| at.failure("read", &path, error);
        // The output of a command was already shown as text, so the rest is too.
        if !is_output && is_binary(source.fill_buf().map_err(failure)?) {
            return Err(FileError::Binary { path: shown, bytes });
        }
        let mut source = MaskingReader::new(source, call.places.as_deref());
        let first = args.start_line.unwrap_or(1).max(1);
        let count = args.lines.unwrap_or(DEFAULT_LINES).clamp(1, MAX_LINES);
        let mut lines = LineSelection::new(first, count);
        lines.scan(&mut source).map_err(failure)?;
        let is_whole = bytes <= MAX_SCANNED_BYTES;
        Ok(lines.into_result(shown, bytes, is_whole))
    }
}

/// Selected lines, collected while the whole file is read.
struct LineSelection {
    first: usize,
    count: usize,
    /// Number of lines that have begun.
    seen: usize,
    at_line_start: bool,
    /// Number of bytes collected of the current line.
    line_bytes: usize,
    content: Vec<u8>,
    last: usize,
    long_lines: usize,
    is_full: bool,
}

impl LineSelection {
    fn new(first: usize, count: usize) -> Self {
        Self {
            first,
            count,
            seen: 0,
            at_line_start: true,
            line_bytes: 0,
            content: Vec::new(),
            last: 0,
            long_lines: 0,
            is_full: false,
        }
    }

    fn scan(&mut self, source: &mut impl BufRead) -> std::io::Result<()> {
        loop {
            let buffer = source.fill_buf()?;
            if buffer.is_empty() {
                return Ok(());
            }
            let length = buffer.len();
            for piece in buffer.split_inclusive(|byte| *byte == b'\n') {
                self.take(piece);
            }
            source.consume(length);
        }
    }

    /// Processes a piece of a line; only its last byte can be a newline.
    fn take(&mut self, piece: &[u8]) {
        if self.at_line_start {
            self.seen += 1;
            self.line_bytes = 0;
            let is_selected = self.seen >= self.first && self.seen - self.first < self.count;
            if is_selected && !self.is_full {
                self.is_full = self.content.len() >= MAX_SHOWN_BYTES;
                if !self.is_full {
                    self.last = self.seen;
                }
            }
        }
        let ends = piece.ends_with(b"\n");
        if self.last == self.seen {
            self.append(piece, ends);
        }
        self.at_line_start = ends;
    }

    fn append(&mut self, piece: &[u8], ends: bool) {
        let text = if ends {
            &piece[..piece.len() - 1]
        } else {
            piece
        };
        let left = MAX_LINE_BYTES - self.line_bytes;
        if text.len() > left && left > 0 {
            self.long_lines += 1;
        }
        let taken = text.len().min(left);
        self.content.extend_from_slice(&text[..taken]);
        self.line_bytes += taken;
        if ends {
            self.content.push(b'\n');
        }
    }

    fn into_result(self, path: String, bytes: u64, is_whole: bool) -> Value {
        let mut remarks = Vec::new();
        if !is_whole {
            remarks.push(format!(
                "the file is large; only its first {MAX_SCANNED_BYTES} bytes were read"
            ));
        }
        if self.last == 0 && self.seen > 0 {
            remarks.push(format!(
                "the file has {} lines, so there is none to show",
                self.seen
            ));
        } else if self.last < self.seen {
            let next = self.last + 1;
            remarks.push(format!(
                "lines {} to {} of {} are shown; continue with `start_line` {next}",
                self.first, self.last, self.seen
            ));
        }
        if self.long_lines > 0 {
            let count = self.long_lines;
            remarks.push(format!(
                "{count} lines are longer than {MAX_LINE_BYTES} bytes and are truncated"
            ));
        }
        let content = match String::from_utf8(self.content) {
            Ok(content) => content,
            Err(error) => {
                let is_cut_character = self.long_lines > 0;
                if !is_cut_character {
                    remarks.push("the file is not UTF-8; invalid bytes are shown as �, and it cannot be edited here".to_owned());
                }
                String::from_utf8_lossy(error.as_bytes()).into_owned()
            }
        };
        let result = json!({
            "path": path,
            "bytes": bytes,
            "line_count": self.seen,
            "start_line": self.first,
            "content": content
        });
        with_remarks(result, remarks)
    }
}
