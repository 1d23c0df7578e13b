//! Patterns as people and models write them, and hostile ones.

use super::bytes::Bytes;

const WORDS: [&str; 16] = [
    "a",
    "src",
    "lib",
    ".rs",
    "deep",
    "notes.md",
    ".",
    "..",
    "ä",
    "木",
    "\u{1f980}",
    "\u{202e}",
    "a\u{301}",
    " ",
    "-",
    "Z",
];

/// A pattern for paths; braces, brackets and escapes need not be closed.
pub(super) fn path_pattern(bytes: &mut Bytes<'_>) -> String {
    let mut pattern = String::new();
    pieces(bytes, &mut pattern, 0);
    if bytes.one_in(6) {
        // A tower, or a long line of the same.
        let times = bytes.times(6_000 / pattern.len().clamp(1, 6_000));
        pattern = pattern.repeat(times);
    }
    pattern
}

fn pieces(bytes: &mut Bytes<'_>, pattern: &mut String, depth: usize) {
    for _ in 0..1 + bytes.below(6) {
        match bytes.below(14) {
            0..=2 => pattern.push_str(bytes.word(&WORDS)),
            3 => pattern.push('/'),
            4 => pattern.push_str(bytes.word(&["*", "?", "**", "**/", "/**", "/**/", "***"])),
            5 | 6 if depth < 12 => alternatives(bytes, pattern, depth),
            7 => class(bytes, pattern),
            8 => {
                pattern.push('\\');
                pattern.push_str(bytes.word(&["", "*", "{", "}", "[", "\\", "/", "ä", "n"]));
            }
            9 => {
                let stray = [
                    "{", "}", "[", "]", ",", "!", "^", "{,", "{}", "[]", "[!]", "[^]",
                ];
                pattern.push_str(bytes.word(&stray));
            }
            10 => {
                let opening = bytes.word(&["{", "{a,", "[{", "{[}]", "\\{{", "{*,**/"]);
                pattern.push_str(&opening.repeat(bytes.times(40)));
            }
            11 => pattern.push_str(&String::from_utf8_lossy(bytes.take(4))),
            _ => pattern.push_str(bytes.word(&["*", "**/", "*.rs", "*.*", "a*b*c*"])),
        }
    }
}

fn alternatives(bytes: &mut Bytes<'_>, pattern: &mut String, depth: usize) {
    pattern.push('{');
    for _ in 0..bytes.below(4) {
        pieces(bytes, pattern, depth + 1);
        pattern.push(',');
    }
    if !bytes.one_in(8) {
        pattern.push('}');
    }
}

fn class(bytes: &mut Bytes<'_>, pattern: &mut String) {
    pattern.push('[');
    pattern.push_str(bytes.word(&["", "!", "^", "]", "!]"]));
    for _ in 0..bytes.below(4) {
        let part = [
            "a-z",
            "z-a",
            "a-",
            "-",
            "ä-ü",
            "\u{0}-\u{10ffff}",
            "/",
            "[:alpha:]",
            "\\]",
        ];
        pattern.push_str(bytes.word(&part));
    }
    if !bytes.one_in(8) {
        pattern.push(']');
    }
}

/// A regular expression; it need not be one.
pub(super) fn expression(bytes: &mut Bytes<'_>) -> String {
    let mut expression = String::new();
    for _ in 0..1 + bytes.below(8) {
        match bytes.below(8) {
            0 | 1 => expression.push_str(bytes.word(&WORDS)),
            2 => {
                let atom = [
                    ".",
                    "\\w",
                    "\\p{L}",
                    "\\p{Greek}",
                    "[^a]",
                    "[a-z&&[^b]]",
                    "\\b",
                    "^",
                    "$",
                    "(?i)",
                    "(?s-u:.)",
                    "\\x{10ffff}",
                    "\\d",
                    "(?=a)",
                    "\\1",
                    "(?<n>a)",
                ];
                expression.push_str(bytes.word(&atom));
            }
            3 | 4 => {
                let count = [
                    "*",
                    "+",
                    "?",
                    "*?",
                    "{2}",
                    "{0,1000}",
                    "{1000}",
                    "{1,}",
                    "{99999999}",
                    "{5,2}",
                ];
                expression.push_str(bytes.word(&count));
            }
            5 => {
                let times = bytes.times(400);
                let inner = std::mem::take(&mut expression);
                let close = bytes.word(&[")", ")*", "){30}", "|a)", ""]);
                expression = format!("{}{inner}{}", "(".repeat(times), close.repeat(times));
            }
            6 => expression.push_str(bytes.word(&["|", "(a|a)*", "(a*)*b", "(?:", "[", "\\"])),
            _ => {
                let times = bytes.times(20_000 / expression.len().clamp(1, 20_000));
                expression = expression.repeat(times);
            }
        }
    }
    expression
}
