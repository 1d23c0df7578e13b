//! The view of a turn on the terminal, and the questions to the user.

mod call_line;
mod call_result;
mod details;
mod echo;
mod hang_up;
mod line_editor;
mod markdown;
mod notification;
mod plan;
mod proposal;
mod questions;
mod screen;
mod table;
mod text_style;
mod tool_call;
mod transcript;
mod typed_keys;
mod units;
mod word_wrap;

use std::io::{self, IsTerminal};

use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub(crate) use details::Details;
pub(crate) use echo::{EchoOff, SavedTerminalModes, TypedAhead};
pub(crate) use hang_up::hang_up;
pub(crate) use line_editor::{Completion, Entered, LineEditor};
pub(crate) use markdown::Markdown;
pub(crate) use notification::{NOTIFY_AFTER, configure};
pub(crate) use plan::PlanEntry;
pub(crate) use proposal::describe;
pub(crate) use questions::{InputQuestion, PendingQuestion, QuestionAnswer, Questions, decision};
pub(crate) use screen::{FRAME, Screen};
pub(crate) use table::Listing;
pub(crate) use tool_call::{ShownCall, ToolKind, approval_call, main_argument};
pub(crate) use transcript::Transcript;
pub(crate) use typed_keys::{Typed, TypedKeys};
pub(crate) use units::{money, spent, time, tokens};
pub(crate) use word_wrap::wrap_words;

/// Width of a terminal that does not report one.
const DEFAULT_WIDTH: usize = 80;
/// The environment variable for output that a screen reader can follow: no line is redrawn.
pub(crate) const SCREEN_READER: &str = "WINDLASS_SCREEN_READER";
/// The provider's name of the simulated model, which the user does not write.
const SIMULATOR: &str = "llmsim";
/// Minimum and maximum number of rows of a question that are shown at once.
const MIN_ROWS: usize = 10;
const MAX_ROWS: usize = 40;

/// The capabilities of a terminal.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Style {
    /// Whether it is a terminal, so that lines can be redrawn.
    pub(crate) is_live: bool,
    pub(crate) has_colour: bool,
    /// Whether it supports more than ASCII.
    pub(crate) has_unicode: bool,
}

impl Style {
    /// No colours, ASCII only.
    pub(crate) const PLAIN: Self = Self {
        is_live: false,
        has_colour: false,
        has_unicode: false,
    };

    pub(crate) fn for_stderr() -> Self {
        Self::for_stream(&io::stderr())
    }

    pub(crate) fn for_stdout() -> Self {
        Self::for_stream(&io::stdout())
    }

    fn for_stream(stream: &impl IsTerminal) -> Self {
        let set = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        let is_dumb = set("TERM").is_none_or(|term| term == "dumb");
        let is_terminal = stream.is_terminal() && !is_dumb;
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.unwrap_or_default().to_ascii_lowercase();
        Self {
            is_live: is_terminal && !is_for_screen_reader(),
            has_colour: is_terminal && set("NO_COLOR").is_none(),
            has_unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    /// Colours a text.
    pub(crate) fn paint(self, colour: Colour, text: &str) -> String {
        match colour.code() {
            Some(code) if self.has_colour => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }

    /// Returns the prefix of the lines of a question. No other output has it.
    pub(crate) fn mark(self) -> &'static str {
        if self.has_unicode { "▌" } else { "!!" }
    }

    /// Removes the mark of questions, and characters that look like it, from untrusted text. `last` is the preceding character.
    pub(crate) fn unmarked(self, text: &str, last: &mut Option<char>) -> String {
        let mut shown = String::with_capacity(text.len());
        for character in text.chars() {
            // A character without a width does not separate its neighbours.
            if character.width() == Some(0) {
                shown.push(character);
                continue;
            }
            let before = last.replace(character);
            match character {
                '\u{2589}'..='\u{2590}' if self.has_unicode => {
                    shown.extend(character.escape_default())
                }
                '!' if !self.has_unicode && before == Some('!') => shown.push_str(" !"),
                _ => shown.push(character),
            }
        }
        shown
    }

    /// Returns the text between the parts of a line.
    pub(crate) fn separator(self) -> &'static str {
        if self.has_unicode { " · " } else { ", " }
    }

    /// Returns the ellipsis.
    pub(crate) fn dots(self) -> &'static str {
        if self.has_unicode { "…" } else { "..." }
    }

    /// Shortens a text to a width.
    pub(crate) fn cut(self, text: &str, width: usize) -> String {
        let dots = self.dots();
        if width_of(text) <= width {
            return text.to_owned();
        }
        let width = width.saturating_sub(width_of(dots));
        let mut used = 0;
        let fits = |c: &char| {
            used += c.width().unwrap_or_default();
            used <= width
        };
        let start: String = text.chars().take_while(fits).collect();
        start + dots
    }
}

/// The colour of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Colour {
    Plain,
    Dim,
    Bold,
    Good,
    Bad,
    Warning,
}

impl Colour {
    /// Returns the colour of a line of a diff.
    pub(crate) fn of_diff_line(line: &str) -> Self {
        match line.as_bytes().first() {
            Some(b'+') => Self::Good,
            Some(b'-') => Self::Bad,
            Some(b'@') => Self::Dim,
            _ => Self::Plain,
        }
    }

    fn code(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Dim => Some("2"),
            Self::Bold => Some("1"),
            Self::Good => Some("32"),
            Self::Bad => Some("31"),
            Self::Warning => Some("33"),
        }
    }
}

/// Returns whether the user has selected output without redrawn lines.
pub(crate) fn is_for_screen_reader() -> bool {
    std::env::var(SCREEN_READER).is_ok_and(|value| !matches!(value.as_str(), "" | "0"))
}

/// Returns the number of columns of a text.
pub(crate) fn width_of(text: &str) -> usize {
    UnicodeWidthStr::width(text)
}

/// Wraps a line into rows of at most `max_width` columns. A tab counts as eight columns.
pub(crate) fn wrap_rows(line: &str, max_width: usize) -> Vec<String> {
    let mut rows = vec![String::new()];
    let mut used = 0;
    for character in line.chars() {
        let width = match character {
            '\t' => 8,
            character => character.width().unwrap_or_default(),
        };
        if used + width > max_width && used > 0 {
            rows.push(String::new());
            used = 0;
        }
        used += width;
        if let Some(row) = rows.last_mut() {
            row.push(character);
        }
    }
    rows
}

/// Returns how many rows of a question are visible at once.
pub(crate) fn rows() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let rows = size.map(|size| usize::from(size.ws_row));
    // The heading and the prompt take some rows.
    let rows = rows.unwrap_or_default().saturating_sub(4);
    rows.clamp(MIN_ROWS, MAX_ROWS)
}

/// Returns the width of the terminal of stderr, in columns.
pub(crate) fn columns() -> usize {
    let size = rustix::termios::tcgetwinsize(io::stderr()).ok();
    let columns = size.map(|size| usize::from(size.ws_col));
    columns
        .filter(|columns| *columns >= 20)
        .unwrap_or(DEFAULT_WIDTH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_cut_to_its_width() {
        let plain = Style::PLAIN;
        let rich = Style {
            has_unicode: true,
            ..plain
        };
        assert_eq!(plain.cut("abcdef", 6), "abcdef");
        assert_eq!(plain.cut("abcdefg", 6), "abc...");
        assert_eq!(rich.cut("abcdefg", 6), "abcde…");
        // Each of these characters takes two columns.
        assert_eq!(rich.cut("漢字漢字", 6), "漢字…");
        assert_eq!(plain.paint(Colour::Good, "x"), "x");
    }

    #[test]
    fn untrusted_text_cannot_contain_the_mark_of_a_question() {
        let style = |has_unicode| Style {
            has_unicode,
            ..Style::PLAIN
        };
        for has_unicode in [true, false] {
            let style = style(has_unicode);
            let forged = format!("{0} Allow? {0}{0}", style.mark());
            // The text may be split at any character.
            let mut last = None;
            let pieces = forged
                .chars()
                .map(|character| style.unmarked(&character.to_string(), &mut last));
            let shown: String = pieces.collect();
            assert!(!shown.contains(style.mark()), "{shown}");
            assert_eq!(shown, style.unmarked(&forged, &mut None));
        }
        assert_eq!(
            style(true).unmarked("\u{258d} x!!", &mut None),
            "\\u{258d} x!!"
        );
    }

    #[test]
    fn line_is_wrapped_by_display_width() {
        assert_eq!(wrap_rows("", 4), [""]);
        assert_eq!(wrap_rows("abcdefghi", 4), ["abcd", "efgh", "i"]);
        assert_eq!(wrap_rows("漢字漢", 4), ["漢字", "漢"]);
        assert_eq!(wrap_rows("a\tb", 8), ["a", "\t", "b"]);
    }
}
