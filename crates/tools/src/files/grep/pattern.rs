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
    whole: Option<Whole>,
}

/// The same expression for a text as a whole. It matches if any line matches, and sometimes if none does. Most files have no matching line, and one
/// search of the whole text is much faster than one per line.
struct Whole {
    regex: Regex,
    /// Whether it contains line anchors. They match at `
    /// ` only, not at `\r
    /// `.
    looks_at_ends: bool,
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
            whole: Whole::new(pattern, builder),
        })
    }

    /// Returns whether a text may contain a matching line.
    pub(super) fn may_be_in(&self, text: &str) -> bool {
        match &self.whole {
            Some(whole) if whole.looks_at_ends && text.contains('\r') => true,
            Some(whole) => whole.regex.is_match(text),
            None => true,
        }
    }

    pub(super) fn is_in_line(&self, line: &str) -> bool {
        self.line.is_match(line)
    }
}

impl Whole {
    /// Returns `None` if a line alone may match differently than in the text, such as with an anchor for the start of the text.
    fn new(pattern: &str, mut builder: RegexBuilder) -> Option<Self> {
        let parsed = ParserBuilder::new()
            .multi_line(true)
            .build()
            .parse(pattern)
            .ok()?;
        let looks = parsed.properties().look_set();
        let ends = LookSet::singleton(Look::EndLF);
        let starts = LookSet::singleton(Look::StartLF);
        // Word boundaries give the same result in both cases, because a line end is not part of a word.
        let others = looks.subtract(ends.union(starts));
        if others.contains_anchor() {
            return None;
        }
        Some(Self {
            regex: builder.multi_line(true).build().ok()?,
            looks_at_ends: looks.contains(Look::EndLF),
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
        if text.lines().any(|line| pattern.is_in_line(line)) {
            assert!(pattern.may_be_in(text), "{:?} in {text:?}", pattern.line);
        }
    }

    #[test]
    fn a_text_is_not_passed_over_for_what_only_a_line_by_itself_shows() {
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
    fn most_texts_are_passed_over() {
        for (pattern, text, may_be) in [
            ("needle", "straw\nstraw\n", false),
            ("^straw$", "a straw\nstraws\n", false),
            ("^straw", "a straw\nstraws\n", true),
            (r"\bstraw\b", "straws\n", false),
            (r"\Astraw", "a", true),
        ] {
            let pattern = Pattern::new(pattern, false).unwrap();
            assert_eq!(pattern.may_be_in(text), may_be, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_passed_over_that_has_a_line(
            pattern in r"(\^|\$|\\b|\\B|\\A|\\z|\\s|\.|a|b|[|]|\[\^a\]|\(\?m\)|\(\?-m\)|\(\?R\)|\(\?s\)|\*|\+){1,8}",
            text in "[ab \r\n]{0,12}",
        ) {
            check(&pattern, false, &text);
        }
    }
}
