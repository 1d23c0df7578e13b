//! The regular expression of a search.

use regex::{Regex, RegexBuilder};
use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Look, LookSet};
use windlass_core::bounds::{MAX_PATTERN_BYTES, OutOfBounds};

use crate::workspace::FileError;

/// Maximum memory of a compiled expression in bytes.
const MAX_REGEX_BYTES: usize = 1024 * 1024;

/// A compiled expression to match lines.
pub(super) struct Pattern {
    line: Regex,
    text_filter: Option<TextFilter>,
}

/// The same expression for a complete text. It matches if any line matches, and sometimes if none does. Most files have no matching line, and one
/// search of the complete text is much faster than one per line.
struct TextFilter {
    regex: Regex,
    /// Whether it contains an anchor for the end of a line, which matches before `\n` but not before `\r\n`.
    has_end_anchor: bool,
}

impl Pattern {
    pub(super) fn new(pattern: &str, ignore_case: bool) -> Result<Self, FileError> {
        let refused = |why: String| FileError::Pattern {
            what: "pattern",
            why,
        };
        // The expression is parsed completely before its memory is limited, and each character class takes time.
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(refused(OutOfBounds::LongPattern.to_string()));
        }
        let mut builder = RegexBuilder::new(pattern);
        builder
            .case_insensitive(ignore_case)
            .size_limit(MAX_REGEX_BYTES);
        let line = builder.build();
        Ok(Self {
            line: line.map_err(|error| refused(error.to_string()))?,
            text_filter: TextFilter::new(pattern, builder),
        })
    }

    /// Returns whether a text may contain a matching line.
    pub(super) fn may_match(&self, text: &str) -> bool {
        self.text_filter.as_ref().is_none_or(|filter| {
            (filter.has_end_anchor && text.contains('\r')) || filter.regex.is_match(text)
        })
    }

    pub(super) fn matches_line(&self, line: &str) -> bool {
        self.line.is_match(line)
    }
}

impl TextFilter {
    /// Returns `None` if a line alone may match differently than in the text, such as with an anchor for the start of the text.
    fn new(pattern: &str, mut builder: RegexBuilder) -> Option<Self> {
        let parsed = ParserBuilder::new()
            .multi_line(true)
            .build()
            .parse(pattern)
            .ok()?;
        let looks = parsed.properties().look_set();
        let line_anchors = LookSet::singleton(Look::EndLF).union(LookSet::singleton(Look::StartLF));
        // Word boundaries give the same result in both cases, because a line end is not part of a word.
        if looks.subtract(line_anchors).contains_anchor() {
            return None;
        }
        Some(Self {
            regex: builder.multi_line(true).build().ok()?,
            has_end_anchor: looks.contains(Look::EndLF),
        })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A text with a matching line must never be skipped.
    fn check(pattern: &str, ignore_case: bool, text: &str) {
        let Ok(pattern) = Pattern::new(pattern, ignore_case) else {
            return;
        };
        if text.lines().any(|line| pattern.matches_line(line)) {
            assert!(pattern.may_match(text), "{:?} in {text:?}", pattern.line);
        }
    }

    #[test]
    fn text_with_a_matching_line_is_not_skipped() {
        for text in [
            "a\nb\nc",
            "a\r\nb\r\nc\r\n",
            "a\rb\nc",
            "\n\n",
            "\r\n",
            "x\nAb\nc d\r\n",
        ] {
            for pattern in [
                "b",
                "^b$",
                "b$",
                "^c",
                r"\Ab",
                r"b\z",
                r"\Ab\z",
                "(?m)^b$",
                "(?-m)^b$",
                "(?R)^b$",
                "(?R)a.b",
                r"\bb\b",
                r"(?-u:\bb\b)",
                r"\b{end}",
                r"\B",
                "a.b",
                "^$",
                r"\s",
                "[^a]",
                "(?s).*",
                "(?s)a.b",
                "(?i)AB",
                "(?x) b # comment",
                r"c\x20d",
                "d$",
                "",
            ] {
                check(pattern, false, text);
                check(pattern, true, text);
            }
        }
    }

    #[test]
    fn texts_without_a_match_are_skipped() {
        for (pattern, text, may_be) in [
            ("needle", "straw\nstraw\n", false),
            ("^straw$", "a straw\nstraws\n", false),
            ("^straw", "a straw\nstraws\n", true),
            (r"\bstraw\b", "straws\n", false),
            (r"\Astraw", "a", true),
        ] {
            let pattern = Pattern::new(pattern, false).unwrap();
            assert_eq!(pattern.may_match(text), may_be, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn random_text_with_a_matching_line_is_not_skipped(
            pattern in r"(\^|\$|\\b|\\B|\\A|\\z|\\s|\.|a|b|[|]|\[\^a\]|\(\?m\)|\(\?-m\)|\(\?R\)|\(\?s\)|\*|\+){1,8}",
            text in "[ab \r\n]{0,12}",
        ) {
            check(&pattern, false, &text);
        }
    }
}
