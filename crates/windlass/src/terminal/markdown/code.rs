//! Fenced code blocks.

use super::super::Colour;
use super::super::text_style::TextStyle;
use super::super::word_wrap::WordWrap;
use super::highlight::Syntax;

/// Maximum length of a line that is highlighted, in bytes.
const MAX_LINE: usize = 2_000;

/// An open code block.
pub(super) struct Code {
    /// The character of the fence, and how often it is repeated.
    fence: (char, usize),
    highlighting: Highlighting,
}

enum Highlighting {
    /// The language is unknown.
    None,
    Diff,
    Syntax {
        syntax: &'static Syntax,
        in_comment: bool,
    },
}

impl Code {
    /// Begins the block of a fence line; `None` if the line is not a fence.
    pub(super) fn begin(line: &str) -> Option<Self> {
        let line = line.trim();
        let mark = line
            .chars()
            .next()
            .filter(|mark| matches!(mark, '`' | '~'))?;
        let length = line
            .chars()
            .take_while(|character| *character == mark)
            .count();
        let info = line.trim_start_matches(mark).trim();
        // Three backticks may also begin code within a line.
        if length < 3 || mark == '`' && info.contains('`') {
            return None;
        }
        let language = info.split([' ', ',', '{', ':']).next().unwrap_or_default();
        let highlighting = match language.to_ascii_lowercase().as_str() {
            "diff" | "patch" => Highlighting::Diff,
            language => match Syntax::for_language(language) {
                Some(syntax) => Highlighting::Syntax {
                    syntax,
                    in_comment: false,
                },
                None => Highlighting::None,
            },
        };
        Some(Self {
            fence: (mark, length),
            highlighting,
        })
    }

    /// Returns whether a line ends the block.
    pub(super) fn is_end(&self, line: &str) -> bool {
        let (mark, length) = self.fence;
        let line = line.trim();
        line.chars().count() >= length && line.chars().all(|character| character == mark)
    }

    /// Writes a line of the block.
    pub(super) fn write(&mut self, line: &str, wrap: &mut WordWrap, out: &mut String) {
        match &mut self.highlighting {
            Highlighting::Syntax { syntax, in_comment } if line.len() <= MAX_LINE => {
                for (part, style) in syntax.parts(line, in_comment) {
                    wrap.put_unwrapped(part, style, out);
                }
            }
            Highlighting::Diff => {
                let style = match Colour::of_diff_line(line) {
                    Colour::Good => TextStyle::ADDED,
                    Colour::Bad => TextStyle::REMOVED,
                    _ => TextStyle::default(),
                };
                wrap.put_unwrapped(line, style, out);
            }
            _ => wrap.put_unwrapped(line, TextStyle::default(), out),
        }
    }
}
