//! Markdown on a terminal, rendered while it arrives.
//!
//! The output is only appended: no row is drawn again, so nothing flickers, a resized window garbles nothing, and a screen reader reads each word once.
//! Text after an opening mark such as `**` is held back until the mark closes, the line ends or [`MAX_HELD`] bytes have arrived; a table is held back
//! until its last row. Each line is rendered on its own. All of this takes linear time.
//!
//! Untrusted text becomes inert after its marks are parsed, because references such as `&#27;` stand for any character.

mod code;
mod highlight;
mod inline;
mod table;

use windlass_core::bounds::lines;

use super::text_style::TextStyle;
use super::word_wrap::WordWrap;
use super::{Style, width_of};
use code::Code;
use inline::{is_complete, spans};

/// Maximum size of the part of a line that is held back, in bytes.
const MAX_HELD: usize = 400;
/// Maximum size of a table, in bytes. The rest of a larger one is shown as written.
const MAX_TABLE: usize = 32 * 1024;
/// Maximum size of a line of code that is held back for its highlighting, in bytes.
const MAX_CODE_LINE: usize = 4 * 1024;
/// Maximum indent of the further rows of a line, in columns.
const MAX_INDENT: usize = 16;
/// Columns of a thematic break.
const RULE: usize = 20;

/// Renders a text that arrives in pieces.
pub(crate) struct Markdown {
    style: Style,
    /// The part of the current line that is not rendered yet.
    held: String,
    block: Block,
    wrap: WordWrap,
    /// The last character of the line: a mark of questions may be split between pieces.
    last: Option<char>,
}

/// The block of the current line.
enum Block {
    /// The beginning of a line whose kind is not known yet.
    Unknown,
    /// Text whose marker is written.
    Text(TextStyle),
    /// A code block; and whether the beginning of its current line is written.
    Code(Code, bool),
    /// The complete rows of a table. The incomplete one is held back.
    Table(String),
}

impl Markdown {
    pub(crate) fn new(style: Style) -> Self {
        Self {
            style,
            held: String::new(),
            block: Block::Unknown,
            wrap: WordWrap::new(style.has_colour),
            last: None,
        }
    }

    /// Renders a complete text, for a terminal of `width` columns. It ends with a line break.
    pub(crate) fn render(text: &str, style: Style, width: usize) -> String {
        let mut markdown = Self::new(style);
        let mut out = markdown.add(text.trim_end_matches('\n'), width);
        out.push_str(&markdown.flush(width));
        out.push('\n');
        out
    }

    /// Adds a piece and returns the text that can be written to a terminal of `width` columns now.
    pub(crate) fn add(&mut self, piece: &str, width: usize) -> String {
        let mut out = String::with_capacity(piece.len());
        for part in piece.split_inclusive('\n') {
            let (line, is_ended) = match part.strip_suffix('\n') {
                Some(line) => (line.strip_suffix('\r').unwrap_or(line), true),
                None => (part, false),
            };
            self.extend(line, width, &mut out);
            if is_ended {
                self.end_line(width, &mut out);
            }
        }
        self.wrap.reset(&mut out);
        out
    }

    /// Returns the text that was held back. The current line is not ended.
    pub(crate) fn flush(&mut self, width: usize) -> String {
        let mut out = String::new();
        if matches!(self.block, Block::Unknown) && !self.held.is_empty() {
            self.begin_text(&mut out);
        }
        let held = std::mem::take(&mut self.held);
        self.block = match std::mem::replace(&mut self.block, Block::Unknown) {
            Block::Unknown => Block::Unknown,
            Block::Text(style) => {
                self.put_inline(&held, style, width, &mut out);
                Block::Text(style)
            }
            Block::Code(mut code, is_begun) => {
                self.put_code(&mut code, &held, &mut out);
                Block::Code(code, is_begun || !held.is_empty())
            }
            Block::Table(rows) => {
                let table = table::format_table(&(rows + &held), self.style, width);
                out.push_str(table.trim_end_matches('\n'));
                Block::Text(TextStyle::default())
            }
        };
        self.wrap.end_word(width, &mut out);
        self.wrap.reset(&mut out);
        out
    }

    /// Records that other output has begun a new line.
    pub(crate) fn begin_line(&mut self) {
        self.wrap.begin_line();
        self.last = None;
        match &mut self.block {
            Block::Code(_, is_begun) => *is_begun = false,
            block => *block = Block::Unknown,
        }
    }

    /// Records the end of a message: a block that it left open does not continue in the next one.
    pub(crate) fn end_message(&mut self) {
        self.block = Block::Unknown;
    }

    fn extend(&mut self, text: &str, width: usize, out: &mut String) {
        for character in text.chars() {
            self.held.push(character);
            let is_long = self.held.len() > MAX_HELD;
            if matches!(self.block, Block::Unknown) && (is_long || has_known_kind(&self.held)) {
                self.begin(out);
            }
            match &mut self.block {
                Block::Unknown => {}
                Block::Text(style) => {
                    let style = *style;
                    let is_boundary = character == ' '
                        || !character.is_ascii()
                        || self.held.len().is_multiple_of(64);
                    if is_boundary && (is_long || is_complete(&self.held)) {
                        let held = std::mem::take(&mut self.held);
                        self.put_inline(&held, style, width, out);
                    }
                }
                Block::Code(_, is_begun) => {
                    if self.held.len() > MAX_CODE_LINE {
                        *is_begun = true;
                        let held = std::mem::take(&mut self.held);
                        let held = self.inert(&held);
                        self.wrap.put_unwrapped(&held, TextStyle::default(), out);
                    }
                }
                Block::Table(_) => {
                    if self.held.len() > MAX_TABLE {
                        out.push_str(&self.flush(width));
                    }
                }
            }
        }
    }

    /// Makes a text inert.
    fn inert(&mut self, text: &str) -> String {
        self.style.unmarked(&lines(text), &mut self.last)
    }

    /// Writes a part of a line. Without colours the marks remain, because nothing else would show them.
    fn put_inline(&mut self, text: &str, style: TextStyle, width: usize, out: &mut String) {
        let spans = if self.style.has_colour {
            spans(text)
        } else {
            vec![(text.to_owned(), TextStyle::default())]
        };
        for (text, inner) in spans {
            let text = self.inert(&text.replace(['\t', '\n'], " "));
            self.wrap.put(&text, style.with(inner), width, out);
        }
    }

    fn put_code(&mut self, code: &mut Code, line: &str, out: &mut String) {
        let line = self.inert(line);
        code.write(&line, &mut self.wrap, out);
    }

    /// Begins the line whose first characters are held back.
    fn begin(&mut self, out: &mut String) {
        if self.held.trim_start().starts_with('|') {
            self.block = Block::Table(String::new());
        } else {
            self.begin_text(out);
        }
    }

    /// Writes the markers at the beginning of a line of text. The rest stays held back.
    fn begin_text(&mut self, out: &mut String) {
        let held = std::mem::take(&mut self.held);
        let mut rest = held.trim_start();
        let indent = self.inert(&held[..held.len() - rest.len()]);
        let indent = indent.replace('\t', "    ");
        self.wrap.put_unwrapped(&indent, TextStyle::default(), out);
        let (mut prefix, mut style) = (indent, TextStyle::default());
        let mut prefix_style = TextStyle::default();
        while let Some((marker, after)) = Marker::parse(rest) {
            let (shown, marker_style, text_style) = marker.format(self.style);
            self.wrap.put_unwrapped(&shown, marker_style, out);
            prefix.push_str(&marker.prefix(&shown));
            style = style.with(text_style);
            prefix_style = prefix_style.with(marker_style);
            rest = after.trim_start();
            if !matches!(marker, Marker::Quote) || width_of(&prefix) >= MAX_INDENT {
                break;
            }
        }
        let prefix = prefix.chars().take(MAX_INDENT).collect();
        self.wrap.set_prefix(prefix, prefix_style);
        rest.clone_into(&mut self.held);
        self.block = Block::Text(style);
    }

    fn end_line(&mut self, width: usize, out: &mut String) {
        if matches!(self.block, Block::Unknown) {
            let line = self.held.trim();
            if let Some(code) = Code::begin(line) {
                let fence = std::mem::take(&mut self.held);
                self.put_fence(&fence, width, out);
                self.block = Block::Code(code, false);
                return;
            }
            if is_rule(line) {
                let dash = if self.style.has_unicode { "─" } else { "-" };
                self.held.clear();
                self.wrap
                    .put_unwrapped(&dash.repeat(RULE.min(width)), TextStyle::DIM, out);
                self.wrap.end_line(width, out);
                return;
            }
            self.begin(out);
        }
        let held = std::mem::take(&mut self.held);
        match std::mem::replace(&mut self.block, Block::Unknown) {
            Block::Unknown => {}
            Block::Text(style) => {
                self.put_inline(&held, style, width, out);
                self.wrap.end_line(width, out);
            }
            Block::Code(code, false) if code.is_end(&held) => self.put_fence(&held, width, out),
            Block::Code(mut code, _) => {
                self.put_code(&mut code, &held, out);
                self.wrap.end_line(width, out);
                self.block = Block::Code(code, false);
            }
            Block::Table(rows) => self.end_table_row(rows, held, width, out),
        }
        self.last = None;
    }

    fn put_fence(&mut self, line: &str, width: usize, out: &mut String) {
        let line = self.inert(line);
        self.wrap.put_unwrapped(&line, TextStyle::DIM, out);
        self.wrap.end_line(width, out);
    }

    /// Adds a row to a table; a line that is no row ends it.
    fn end_table_row(&mut self, mut rows: String, line: String, width: usize, out: &mut String) {
        let is_row = line.trim_start().starts_with('|');
        if is_row && (rows.is_empty() || rows.len() + line.len() <= MAX_TABLE) {
            rows.push_str(&line);
            rows.push('\n');
            self.block = Block::Table(rows);
            return;
        }
        out.push_str(&table::format_table(&rows, self.style, width));
        self.held = line;
        self.end_line(width, out);
    }
}

/// The marker at the beginning of a line.
enum Marker<'a> {
    Heading(usize),
    Bullet,
    /// A number with its dot, such as `12.`.
    Number(&'a str),
    Quote,
}

impl<'a> Marker<'a> {
    /// Returns the marker of a line and the text after it.
    fn parse(line: &'a str) -> Option<(Self, &'a str)> {
        if let Some(rest) = line.strip_prefix('>') {
            return Some((Self::Quote, rest));
        }
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        let digits = word.trim_end_matches(['.', ')']);
        let is_number = digits.len() + 1 == word.len()
            && digits.len() <= 9
            && !digits.is_empty()
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        let is_followed = word.len() < line.len();
        let marker = match word {
            "-" | "*" | "+" if is_followed => Self::Bullet,
            _ if (1..=6).contains(&word.len()) && word.bytes().all(|byte| byte == b'#') => {
                Self::Heading(word.len())
            }
            _ if is_number && is_followed => Self::Number(word),
            _ => return None,
        };
        Some((marker, rest))
    }

    /// Returns the marker as it is shown, its style, and the style of the text after it.
    fn format(&self, style: Style) -> (String, TextStyle, TextStyle) {
        let plain = TextStyle::default();
        let (bullet, quote) = if style.has_unicode {
            ("• ", "│ ")
        } else {
            ("- ", "| ")
        };
        match self {
            Self::Heading(level) if !style.has_colour => {
                (format!("{} ", "#".repeat(*level)), plain, plain)
            }
            Self::Heading(1) => {
                let heading = TextStyle::BOLD.with(TextStyle::CODE);
                (String::new(), plain, heading.with(TextStyle::UNDERLINED))
            }
            Self::Heading(2) => (String::new(), plain, TextStyle::BOLD.with(TextStyle::CODE)),
            Self::Heading(_) => (String::new(), plain, TextStyle::BOLD),
            Self::Bullet => (bullet.to_owned(), plain, plain),
            Self::Number(number) => (format!("{number} "), plain, plain),
            Self::Quote => (quote.to_owned(), TextStyle::DIM, TextStyle::DIM),
        }
    }

    /// Returns the beginning of the line's further rows.
    fn prefix(&self, shown: &str) -> String {
        match self {
            Self::Quote => shown.to_owned(),
            _ => " ".repeat(width_of(shown)),
        }
    }
}

/// Returns whether the first characters of a line determine its block.
fn has_known_kind(line: &str) -> bool {
    let line = line.trim_start();
    let Some(first) = line.chars().next() else {
        return false;
    };
    match first {
        '|' => true,
        '>' => has_known_kind(&line[1..]),
        // A fence is known at the end of its line.
        '`' | '~' => line.chars().any(|other| other != first) && Code::begin(line).is_none(),
        '#' | '-' | '*' | '+' | '_' | '0'..='9' => {
            let is_marker = |other: char| {
                other == first || other.is_ascii_digit() || matches!(other, ' ' | '.' | ')')
            };
            line.chars().any(|other| !is_marker(other))
        }
        _ => true,
    }
}

/// Returns whether a line is a thematic break: three or more of one of `-`, `*` and `_`, with blanks between them.
fn is_rule(line: &str) -> bool {
    ['-', '*', '_'].into_iter().any(|mark| {
        line.chars()
            .all(|character| character == mark || character == ' ')
            && line.matches(mark).count() >= 3
    })
}

#[cfg(test)]
mod tests;
