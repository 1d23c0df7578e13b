//! Prose that comes in pieces, broken between words where a line of the terminal ends.

use unicode_width::UnicodeWidthChar;

use super::width_of;

/// Breaks lines between words. A word is held back until it is whole; lines that are code or a table stay as they are.
#[derive(Default)]
pub(super) struct Fold {
    /// How much of the row is taken.
    column: usize,
    /// The word that is not whole yet.
    word: String,
    /// Whether the line stays as it is.
    is_raw: bool,
    /// Whether it is between two lines that begin with three backticks.
    in_fence: bool,
    /// The first letters of the line.
    head: String,
}

const FENCE: &str = "```";

impl Fold {
    /// Takes a piece, and returns what can be written now.
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
                    self.put_word(width, &mut out);
                    out.push('\n');
                    self.in_fence ^= self.head == FENCE;
                    self.begin_line();
                }
                ' ' if !self.is_raw => {
                    self.put_word(width, &mut out);
                    self.column += 1;
                    if self.column <= width {
                        out.push(' ');
                    }
                }
                letter => self.word.push(letter),
            }
            if self.is_raw && letter != '\n' {
                self.column += letter.width().unwrap_or_default();
                out.push_str(&std::mem::take(&mut self.word));
            }
        }
        out
    }

    /// Returns what was held back.
    pub(super) fn rest(&mut self, width: usize) -> String {
        let mut out = String::new();
        self.put_word(width, &mut out);
        out
    }

    fn put_word(&mut self, width: usize, out: &mut String) {
        if self.word.is_empty() {
            return;
        }
        let word = std::mem::take(&mut self.word);
        let taken = width_of(&word);
        if self.column > 0 && self.column + taken > width {
            out.push('\n');
            self.column = 0;
        }
        self.column += taken;
        out.push_str(&word);
    }

    /// Says that somebody else has begun a new line.
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
            "a_word_that_is_too_long\nb"
        );
        assert_eq!(folded(&["日本語 日本語"]), "日本語 \n日本語");
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
