//! Highlights code by its comments, texts, numbers and keywords.

use super::super::text_style::TextStyle;

/// The syntax of a group of languages.
pub(super) struct Syntax {
    /// Names of the languages and extensions of their files.
    names: &'static str,
    line_comments: &'static [&'static str],
    block_comment: Option<(&'static str, &'static str)>,
    quotes: &'static [char],
    keywords: &'static str,
    ignores_case: bool,
}

const C_COMMENT: Option<(&str, &str)> = Some(("/*", "*/"));

const SYNTAXES: [Syntax; 8] = [
    Syntax {
        names: "rust rs",
        line_comments: &["//"],
        block_comment: C_COMMENT,
        // A single quote begins a lifetime more often than a character.
        quotes: &['"'],
        keywords: "as async await break const continue crate dyn else enum extern false fn for if impl in let loop match mod move mut pub ref return self Self static struct super trait true type unsafe use where while",
        ignores_case: false,
    },
    Syntax {
        names: "python py",
        line_comments: &["#"],
        block_comment: None,
        quotes: &['"', '\''],
        keywords: "and as assert async await break class continue def del elif else except False finally for from global if import in is lambda None nonlocal not or pass raise return self True try while with yield match case",
        ignores_case: false,
    },
    Syntax {
        names: "javascript js jsx mjs typescript ts tsx node",
        line_comments: &["//"],
        block_comment: C_COMMENT,
        quotes: &['"', '\'', '`'],
        keywords: "abstract as async await break case catch class const continue debugger default delete do else enum export extends false finally for from function if implements import in instanceof interface let new null of private protected public readonly return static super switch this throw true try type typeof undefined var void while yield",
        ignores_case: false,
    },
    Syntax {
        names: "c h cpp c++ cc hpp csharp cs java kotlin kt scala swift php dart zig",
        line_comments: &["//"],
        block_comment: C_COMMENT,
        quotes: &['"', '\''],
        keywords: "abstract auto bool break byte case catch char class const constexpr continue data def default delete do double else enum extends extern false final finally float for foreach fun func guard if implements import include in inline int interface internal is let long namespace new nil null nullptr object operator override package private protected public return short signed sizeof static struct super switch template this throw throws true try typedef typename union unsigned use using val var virtual void volatile when while yield",
        ignores_case: false,
    },
    Syntax {
        names: "go golang",
        line_comments: &["//"],
        block_comment: C_COMMENT,
        quotes: &['"', '\'', '`'],
        keywords: "break case chan const continue default defer else fallthrough false for func go goto if import interface map nil package range return select struct switch true type var",
        ignores_case: false,
    },
    Syntax {
        names: "sh bash shell zsh fish console dockerfile docker make makefile ruby rb perl pl r elixir ex",
        line_comments: &["#"],
        block_comment: None,
        quotes: &['"', '\''],
        keywords: "alias begin break case class continue def do done elif else elsif end esac exit export false fi for foreach function if in local module my nil require return self shift source sub then true unless until use while yield FROM RUN COPY CMD ENV ENTRYPOINT WORKDIR",
        ignores_case: false,
    },
    Syntax {
        names: "json jsonc json5 toml yaml yml ini conf cfg",
        line_comments: &["#", "//"],
        block_comment: None,
        quotes: &['"', '\''],
        keywords: "true false null yes no on off",
        ignores_case: false,
    },
    Syntax {
        names: "sql mysql postgres postgresql sqlite",
        line_comments: &["--"],
        block_comment: C_COMMENT,
        quotes: &['"', '\''],
        keywords: "add all alter and as asc begin between by case commit constraint count create database default delete desc distinct drop else elseif end exists foreign from function group having if in index inner insert into is join key left like limit local nil not null of offset on or order outer primary references repeat return returning right rollback select set table then transaction union unique until update values view when where while with",
        ignores_case: true,
    },
];

impl Syntax {
    /// Finds the syntax of a language by its name, in lower case.
    pub(super) fn for_language(language: &str) -> Option<&'static Self> {
        let is_named = |syntax: &&Self| syntax.names.split(' ').any(|name| name == language);
        SYNTAXES.iter().find(is_named)
    }

    fn is_keyword(&self, word: &str) -> bool {
        let is_equal = |keyword: &str| {
            keyword == word || self.ignores_case && keyword.eq_ignore_ascii_case(word)
        };
        self.keywords.split(' ').any(is_equal)
    }

    /// Splits a line into parts with their styles. `in_comment` is the state between lines: whether a block comment is open.
    pub(super) fn parts<'a>(
        &self,
        line: &'a str,
        in_comment: &mut bool,
    ) -> Vec<(&'a str, TextStyle)> {
        let (mut parts, mut rest) = (Vec::new(), line);
        while !rest.is_empty() {
            let (length, style) = self.part(rest, in_comment);
            let (part, after) = rest.split_at(length);
            parts.push((part, style));
            rest = after;
        }
        parts
    }

    /// Returns the length and style of the first part of a text that is not empty.
    fn part(&self, text: &str, in_comment: &mut bool) -> (usize, TextStyle) {
        let opened = self
            .block_comment
            .filter(|(open, _)| text.starts_with(open));
        if let Some((open, close)) = opened.or(self.block_comment.filter(|_| *in_comment)) {
            let start = if *in_comment { 0 } else { open.len() };
            let end = text[start..].find(close).map(|at| start + at + close.len());
            *in_comment = end.is_none();
            return (end.unwrap_or(text.len()), TextStyle::DIM);
        }
        if self.line_comments.iter().any(|mark| text.starts_with(mark)) {
            return (text.len(), TextStyle::DIM);
        }
        let length_of = |is_inside: fn(char) -> bool| {
            text.find(|character| !is_inside(character))
                .unwrap_or(text.len())
        };
        let is_word = |character: char| character.is_alphanumeric() || character == '_';
        match text.chars().next() {
            Some(quote) if self.quotes.contains(&quote) => (quoted(text, quote), TextStyle::STRING),
            Some('0'..='9') => (
                length_of(|it| it.is_alphanumeric() || "_.".contains(it)),
                TextStyle::NUMBER,
            ),
            Some(first) if is_word(first) => {
                let length = length_of(|it| it.is_alphanumeric() || it == '_');
                let is_keyword = self.is_keyword(&text[..length]);
                let style = if is_keyword {
                    TextStyle::KEYWORD
                } else {
                    TextStyle::default()
                };
                (length, style)
            }
            first => (first.map_or(1, char::len_utf8), TextStyle::default()),
        }
    }
}

/// Returns the length of a quoted text with its quotes; an unclosed one ends with the line.
fn quoted(text: &str, quote: char) -> usize {
    let mut is_escaped = false;
    for (at, character) in text.char_indices().skip(1) {
        match character {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            character if character == quote => return at + character.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn highlight(language: &str, line: &str) -> Vec<(String, TextStyle)> {
        let parts = Syntax::for_language(language)
            .unwrap()
            .parts(line, &mut false);
        let styled = parts
            .into_iter()
            .filter(|(_, style)| *style != TextStyle::default());
        styled
            .map(|(text, style)| (text.to_owned(), style))
            .collect()
    }

    #[test]
    fn comments_texts_numbers_and_keywords_are_highlighted() {
        let part = |text: &str, style| (text.to_owned(), style);
        assert_eq!(
            highlight("rs", "let x: &'a str = \"a\\\"b\"; // 1"),
            [
                part("let", TextStyle::KEYWORD),
                part("\"a\\\"b\"", TextStyle::STRING),
                part("// 1", TextStyle::DIM),
            ]
        );
        assert_eq!(
            highlight("sql", "SELECT 1.5 -- x"),
            [
                part("SELECT", TextStyle::KEYWORD),
                part("1.5", TextStyle::NUMBER),
                part("-- x", TextStyle::DIM),
            ]
        );
        assert!(Syntax::for_language("brainfuck").is_none());
        assert!(Syntax::for_language("").is_none());
    }

    #[test]
    fn block_comment_continues_on_the_next_line() {
        let c = Syntax::for_language("c").unwrap();
        let mut in_comment = false;
        assert_eq!(
            c.parts("/* int", &mut in_comment),
            [("/* int", TextStyle::DIM)]
        );
        assert!(in_comment);
        let parts = c.parts("x */int", &mut in_comment);
        assert_eq!(
            parts,
            [("x */", TextStyle::DIM), ("int", TextStyle::KEYWORD)]
        );
        assert!(!in_comment);
    }

    #[test]
    fn no_text_is_lost() {
        let odd = "'漢\\字 \"/*é 1é_* // `x` # -- ";
        for syntax in &SYNTAXES {
            let parts = syntax.parts(odd, &mut false);
            assert_eq!(
                parts.into_iter().map(|(text, _)| text).collect::<String>(),
                odd
            );
        }
    }
}
