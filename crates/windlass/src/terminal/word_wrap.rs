//! Wraps styled, streamed text between words at the width of the terminal.

use unicode_width::UnicodeWidthChar;

use super::text_style::TextStyle;
use super::width_of;

/// Characters that do not begin a row in scripts without spaces.
const CLOSING: &str = "、。，．：；！？）」』】〉》…";
/// Joins two emoji into one.
const JOINER: char = '\u{200d}';

/// Wraps lines between words and holds an incomplete word back. It only appends: its output never moves the cursor.
pub(super) struct WordWrap {
    has_colour: bool,
    /// The number of columns used in the row.
    column: usize,
    /// The parts of the incomplete word, each with one style.
    word: Vec<(String, TextStyle)>,
    /// The width of the incomplete word in columns; too large for joined emoji.
    word_width: usize,
    /// The last character of the incomplete word.
    word_end: Option<char>,
    /// Whether the beginning of the word is written already, because it fills a row.
    is_word_started: bool,
    /// Begins each row of the line but the first.
    prefix: (String, TextStyle),
    /// The style that the terminal has now.
    current: TextStyle,
}

/// Wraps a text between words into rows of `width` columns. Lines that begin with a blank are not wrapped.
pub(crate) fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let (mut wrap, mut out) = (WordWrap::new(false), String::with_capacity(text.len()));
    for line in text.lines() {
        if line.starts_with([' ', '\t']) {
            wrap.put_unwrapped(line, TextStyle::default(), &mut out);
        } else {
            wrap.put(line, TextStyle::default(), width, &mut out);
        }
        wrap.end_line(width, &mut out);
    }
    out.lines().map(|row| row.trim_end().to_owned()).collect()
}

impl WordWrap {
    pub(super) fn new(has_colour: bool) -> Self {
        Self {
            has_colour,
            column: 0,
            word: Vec::new(),
            word_width: 0,
            word_end: None,
            is_word_started: false,
            prefix: (String::new(), TextStyle::default()),
            current: TextStyle::default(),
        }
    }

    /// Adds a part of a line.
    pub(super) fn put(&mut self, text: &str, style: TextStyle, width: usize, out: &mut String) {
        for character in text.chars() {
            if character == ' ' {
                self.end_word(width, out);
                if self.column < width {
                    self.write(" ", style, out);
                    self.column += 1;
                }
                continue;
            }
            if self.may_break_before(character) {
                self.end_word(width, out);
            }
            match self.word.last_mut() {
                Some((part, last)) if *last == style => part.push(character),
                _ => self.word.push((character.to_string(), style)),
            }
            self.word_width += character.width().unwrap_or_default();
            self.word_end = Some(character);
            // A word that fills a row is not held back.
            if self.is_word_started || self.word_width >= width {
                self.write_word(width, out);
                self.is_word_started = true;
            }
        }
    }

    /// Adds a part of a line of code, which only the terminal wraps, so that it can be copied.
    pub(super) fn put_unwrapped(&mut self, text: &str, style: TextStyle, out: &mut String) {
        self.end_word(usize::MAX, out);
        self.write(text, style, out);
        self.column = self.column.saturating_add(width_of(text));
    }

    /// Sets what begins each further row of this line.
    pub(super) fn set_prefix(&mut self, prefix: String, style: TextStyle) {
        self.prefix = (prefix, style);
    }

    pub(super) fn end_line(&mut self, width: usize, out: &mut String) {
        self.end_word(width, out);
        self.reset(out);
        out.push('\n');
        self.begin_line();
    }

    /// Records that the cursor is at the beginning of a line.
    pub(super) fn begin_line(&mut self) {
        self.column = 0;
        self.prefix.0.clear();
    }

    /// Writes the word that was held back.
    pub(super) fn end_word(&mut self, width: usize, out: &mut String) {
        self.write_word(width, out);
        self.is_word_started = false;
        self.word_end = None;
    }

    /// Returns to the plain style.
    pub(super) fn reset(&mut self, out: &mut String) {
        self.change_style(TextStyle::default(), out);
    }

    /// Scripts with wide characters have no spaces between words.
    fn may_break_before(&self, character: char) -> bool {
        let is_wide = |character: char| character.width() == Some(2);
        let Some(end) = self.word_end else {
            return false;
        };
        let is_joined = character.width().unwrap_or_default() == 0 || end == JOINER;
        (is_wide(end) || is_wide(character)) && !is_joined && !CLOSING.contains(character)
    }

    fn write_word(&mut self, width: usize, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        self.word_width = 0;
        let taken: usize = word.iter().map(|(part, _)| width_of(part)).sum();
        // The terminal itself wraps a word that is longer than a row, so that it can be copied as one word.
        if self.column > 0 && self.column + taken > width {
            if self.is_word_started {
                self.column = 0;
            } else {
                self.reset(out);
                out.push('\n');
                let (prefix, style) = self.prefix.clone();
                self.write(&prefix, style, out);
                self.column = width_of(&prefix);
            }
        }
        for (part, style) in &word {
            self.write(part, *style, out);
        }
        self.column += taken;
    }

    fn write(&mut self, text: &str, style: TextStyle, out: &mut String) {
        self.change_style(style, out);
        out.push_str(text);
    }

    fn change_style(&mut self, style: TextStyle, out: &mut String) {
        if self.has_colour && std::mem::replace(&mut self.current, style) != style {
            style.write(out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(pieces: &[&str]) -> String {
        let (mut wrap, mut out) = (WordWrap::new(false), String::new());
        for piece in pieces {
            wrap.put(piece, TextStyle::default(), 10, &mut out);
        }
        wrap.end_word(10, &mut out);
        out
    }

    #[test]
    fn prose_is_wrapped_between_words_for_any_chunks() {
        let whole = "one two three four";
        let broken = "one two \nthree four";
        assert_eq!(wrapped(&[whole]), broken);
        let characters: Vec<String> = whole.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(wrapped(&characters), broken);
        assert_eq!(wrapped(&["exactly_10 more"]), "exactly_10\nmore");
        assert_eq!(
            wrapped(&["a_word_that_is_too_long b"]),
            "a_word_that_is_too_long b"
        );
    }

    #[test]
    fn scripts_without_spaces_are_wrapped_between_characters() {
        assert_eq!(wrapped(&["日本語 日本語"]), "日本語 日\n本語");
        assert_eq!(wrapped(&["日本語日本語"]), "日本語日本\n語");
        // Closing punctuation stays with its character.
        assert_eq!(wrapped(&["日本語日本。語"]), "日本語日\n本。語");
        // So do combining characters and the parts of an emoji.
        assert_eq!(
            wrapped(&["12345678 e\u{301}e\u{301}"]),
            "12345678 \ne\u{301}e\u{301}"
        );
        let family = "👨\u{200d}👩\u{200d}👧";
        assert_eq!(wrapped(&["12345678", family]), format!("12345678{family}"));
        assert_eq!(
            wrapped(&["123456789", family]),
            format!("123456789\n{family}")
        );
    }

    #[test]
    fn text_without_spaces_is_not_held_back() {
        for (long, least) in [("日本語".repeat(20), 3), ("x".repeat(60), 10)] {
            let mut wrap = WordWrap::new(false);
            let mut held: usize = 0;
            for character in long.chars() {
                let mut written = String::new();
                wrap.put(
                    &character.to_string(),
                    TextStyle::default(),
                    10,
                    &mut written,
                );
                held = if written.is_empty() { held + 1 } else { 0 };
                assert!(held < least, "{held} characters are held back");
            }
        }
    }

    #[test]
    fn indented_lines_are_not_wrapped() {
        let code = "    let number = one + two;";
        assert_eq!(wrap_words(code, 10), [code]);
        assert_eq!(
            wrap_words("one two three\nfour", 10),
            ["one two", "three", "four"]
        );
    }

    #[test]
    fn further_rows_begin_with_the_prefix_and_without_a_style() {
        let (mut wrap, mut out) = (WordWrap::new(true), String::new());
        wrap.set_prefix("  ".to_owned(), TextStyle::default());
        wrap.put("one two three", TextStyle::UNDERLINED, 8, &mut out);
        wrap.end_line(8, &mut out);
        let (start, end) = ("\x1b[0;4m", "\x1b[0m");
        assert_eq!(out, format!("{start}one two {end}\n  {start}three{end}\n"));
    }
}
