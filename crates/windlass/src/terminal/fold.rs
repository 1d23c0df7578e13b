//! Wraps streamed prose between words at the width of the terminal.

use unicode_width::UnicodeWidthChar;

/// Wraps lines between words. A word is held back until it is complete; lines of code and tables are not wrapped.
#[derive(Default)]
pub(super) struct Fold {
    /// The number of columns used in the row.
    column: usize,
    /// The incomplete word.
    word: String,
    /// The width of the incomplete word, in columns.
    held: usize,
    /// Whether the beginning of the word is written already, because it fills a row.
    is_begun: bool,
    /// Whether the line is not wrapped.
    is_raw: bool,
    /// Whether the line is inside a fenced code block.
    in_fence: bool,
    /// The first characters of the line.
    head: String,
}

const FENCE: &str = "```";

/// Wraps a text between words into rows of `width` columns.
pub(crate) fn folded(text: &str, width: usize) -> Vec<String> {
    let mut fold = Fold::default();
    let mut out = fold.add(text, width);
    out.push_str(&fold.rest(width));
    out.lines().map(|row| row.trim_end().to_owned()).collect()
}

impl Fold {
    /// Adds a piece and returns the text that can be written now.
    pub(super) fn add(&mut self, piece: &str, width: usize) -> String {
        let mut out = String::with_capacity(piece.len());
        for letter in piece.chars() {
            if self.head.is_empty() {
                self.is_raw = self.in_fence || matches!(letter, ' ' | '\t' | '|');
            }
            if self.head.len() < FENCE.len() {
                self.head.push(letter);
            }
            match letter {
                '\n' => {
                    self.end_word(width, &mut out);
                    out.push('\n');
                    self.in_fence ^= self.head == FENCE;
                    self.begin_line();
                }
                ' ' if !self.is_raw => {
                    self.end_word(width, &mut out);
                    self.column += 1;
                    if self.column <= width {
                        out.push(' ');
                    }
                }
                letter => {
                    self.word.push(letter);
                    self.held += letter.width().unwrap_or_default();
                    // Scripts with wide characters have no spaces, and a word that fills a row cannot be held back.
                    if !self.is_raw && letter.width() == Some(2) {
                        self.end_word(width, &mut out);
                    } else if !self.is_raw && (self.is_begun || self.held >= width) {
                        self.put_word(width, &mut out);
                        self.is_begun = true;
                    }
                }
            }
            if self.is_raw && letter != '\n' {
                self.column += letter.width().unwrap_or_default();
                out.push_str(&std::mem::take(&mut self.word));
                self.held = 0;
            }
        }
        out
    }

    /// Returns the held-back text.
    pub(super) fn rest(&mut self, width: usize) -> String {
        let mut out = String::new();
        self.end_word(width, &mut out);
        out
    }

    fn end_word(&mut self, width: usize, out: &mut String) {
        self.put_word(width, out);
        self.is_begun = false;
    }

    fn put_word(&mut self, width: usize, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let taken = std::mem::take(&mut self.held);
        if self.column > 0 && self.column + taken > width {
            // The terminal itself wraps a word that is longer than a row, so that it can be copied as one word.
            if !self.is_begun {
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
        self.head.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(pieces: &[&str]) -> String {
        let mut fold = Fold::default();
        let mut out: String = pieces.iter().map(|piece| fold.add(piece, 10)).collect();
        out.push_str(&fold.rest(10));
        out
    }

    #[test]
    fn prose_is_broken_between_words_however_it_comes() {
        let whole = "one two three four\nfive";
        let broken = "one two \nthree four\nfive";
        assert_eq!(folded(&[whole]), broken);
        let letters: Vec<String> = whole.chars().map(String::from).collect();
        let letters: Vec<&str> = letters.iter().map(String::as_str).collect();
        assert_eq!(folded(&letters), broken);
        assert_eq!(folded(&["exactly_10 more"]), "exactly_10\nmore");
        assert_eq!(
            folded(&["a_word_that_is_too_long b"]),
            "a_word_that_is_too_long b"
        );
        // Such scripts are wrapped between any two characters.
        assert_eq!(folded(&["日本語 日本語"]), "日本語 日\n本語");
    }

    #[test]
    fn what_has_no_blanks_is_not_held_back_to_its_end() {
        for (long, least) in [("日本語".repeat(20), 19), ("x".repeat(60), 10)] {
            let mut fold = Fold::default();
            let mut held: usize = 0;
            for letter in long.chars() {
                let written = fold.add(&letter.to_string(), 10);
                held = if written.is_empty() { held + 1 } else { 0 };
                assert!(held < least, "{held} letters are held back");
            }
        }
        assert_eq!(folded(&["日本語日本語"]), "日本語日本\n語");
    }

    #[test]
    fn code_and_tables_stay_as_they_are() {
        for raw in [
            "    let number = one + two;\n",
            "| a table | with columns |\n",
            "```rust\nlet number = one + two;\n```\n",
        ] {
            assert_eq!(folded(&[raw]), raw);
        }
        let after = "```\na b c d e f g\n```\none two three";
        assert_eq!(folded(&[after]), "```\na b c d e f g\n```\none two \nthree");
    }
}
