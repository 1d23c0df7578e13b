//! Wraps streamed prose between words at the width of the terminal.

use unicode_width::UnicodeWidthChar;

/// Wraps lines between words. An incomplete word is held back; lines of code and tables are not wrapped.
#[derive(Default)]
pub(super) struct WordWrap {
    /// The number of columns used in the row.
    column: usize,
    /// The incomplete word.
    word: String,
    /// The width of the incomplete word, in columns.
    word_width: usize,
    /// Whether the beginning of the word is written already, because it fills a row.
    is_word_started: bool,
    /// Whether the line is not wrapped.
    is_raw: bool,
    /// Whether the line is inside a fenced code block.
    in_fence: bool,
    /// The first characters of the line.
    line_start: String,
}

const FENCE: &str = "```";

/// Wraps a text between words into rows of `width` columns.
pub(crate) fn wrap_words(text: &str, width: usize) -> Vec<String> {
    let mut wrap = WordWrap::default();
    let mut out = wrap.add(text, width);
    out.push_str(&wrap.finish(width));
    out.lines().map(|row| row.trim_end().to_owned()).collect()
}

impl WordWrap {
    /// Adds a piece and returns the text that can be written now.
    pub(super) fn add(&mut self, piece: &str, width: usize) -> String {
        let mut out = String::with_capacity(piece.len());
        for character in piece.chars() {
            if self.line_start.is_empty() {
                self.is_raw = self.in_fence || matches!(character, ' ' | '\t' | '|');
            }
            if self.line_start.len() < FENCE.len() {
                self.line_start.push(character);
            }
            match character {
                '\n' => {
                    self.end_word(width, &mut out);
                    out.push('\n');
                    self.in_fence ^= self.line_start == FENCE;
                    self.begin_line();
                }
                ' ' if !self.is_raw => {
                    self.end_word(width, &mut out);
                    self.column += 1;
                    if self.column <= width {
                        out.push(' ');
                    }
                }
                character => {
                    self.word.push(character);
                    self.word_width += character.width().unwrap_or_default();
                    // Scripts with wide characters have no spaces, and a word that fills a row cannot be held back.
                    if !self.is_raw && character.width() == Some(2) {
                        self.end_word(width, &mut out);
                    } else if !self.is_raw && (self.is_word_started || self.word_width >= width) {
                        self.write_word(width, &mut out);
                        self.is_word_started = true;
                    }
                }
            }
            if self.is_raw && character != '\n' {
                self.column += character.width().unwrap_or_default();
                out.push_str(&std::mem::take(&mut self.word));
                self.word_width = 0;
            }
        }
        out
    }

    /// Returns the held-back text.
    pub(super) fn finish(&mut self, width: usize) -> String {
        let mut out = String::new();
        self.end_word(width, &mut out);
        out
    }

    fn end_word(&mut self, width: usize, out: &mut String) {
        self.write_word(width, out);
        self.is_word_started = false;
    }

    fn write_word(&mut self, width: usize, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let taken = std::mem::take(&mut self.word_width);
        if self.column > 0 && self.column + taken > width {
            // The terminal itself wraps a word that is longer than a row, so that it can be copied as one word.
            if !self.is_word_started {
                out.push('\n');
            }
            self.column = 0;
        }
        self.column += taken;
        out.push_str(&word);
    }

    /// Records that other output has started a new line.
    pub(super) fn begin_line(&mut self) {
        self.column = 0;
        self.line_start.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrap_words(pieces: &[&str]) -> String {
        let mut wrap = WordWrap::default();
        let mut out: String = pieces.iter().map(|piece| wrap.add(piece, 10)).collect();
        out.push_str(&wrap.finish(10));
        out
    }

    #[test]
    fn prose_is_wrapped_between_words_for_any_chunks() {
        let whole = "one two three four\nfive";
        let broken = "one two \nthree four\nfive";
        assert_eq!(wrap_words(&[whole]), broken);
        let characters: Vec<String> = whole.chars().map(String::from).collect();
        let characters: Vec<&str> = characters.iter().map(String::as_str).collect();
        assert_eq!(wrap_words(&characters), broken);
        assert_eq!(wrap_words(&["exactly_10 more"]), "exactly_10\nmore");
        assert_eq!(
            wrap_words(&["a_word_that_is_too_long b"]),
            "a_word_that_is_too_long b"
        );
        // Such scripts are wrapped between any two characters.
        assert_eq!(wrap_words(&["日本語 日本語"]), "日本語 日\n本語");
    }

    #[test]
    fn text_without_spaces_is_not_held_back() {
        for (long, least) in [("日本語".repeat(20), 19), ("x".repeat(60), 10)] {
            let mut wrap = WordWrap::default();
            let mut held: usize = 0;
            for character in long.chars() {
                let written = wrap.add(&character.to_string(), 10);
                held = if written.is_empty() { held + 1 } else { 0 };
                assert!(held < least, "{held} characters are held back");
            }
        }
        assert_eq!(wrap_words(&["日本語日本語"]), "日本語日本\n語");
    }

    #[test]
    fn code_and_tables_are_not_wrapped() {
        for raw in [
            "    let number = one + two;\n",
            "| a table | with columns |\n",
            "```rust\nlet number = one + two;\n```\n",
        ] {
            assert_eq!(wrap_words(&[raw]), raw);
        }
        let after = "```\na b c d e f g\n```\none two three";
        assert_eq!(
            wrap_words(&[after]),
            "```\na b c d e f g\n```\none two \nthree"
        );
    }
}
