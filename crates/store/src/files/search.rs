//! Searching text, with the same answer on every store.

use std::cmp::Ordering;
use std::ops::ControlFlow;

use regex::{Regex, RegexBuilder};
use windlass_core::bounds::prefix_chars;
use windlass_core::error::{AgentLoopError, Result};
use windlass_core::session_file::GrepMatch;

/// How many hits a search returns at most.
pub const MAX_HITS: usize = 1_000;
/// How many characters of a line a hit shows at most.
pub const MAX_LINE_CHARS: usize = 1_000;
/// How long a pattern may be.
pub const MAX_PATTERN_BYTES: usize = 4_096;
/// How big a file may be to be searched.
pub const MAX_SEARCHED_BYTES: u64 = 16 * 1024 * 1024;

/// How much memory a compiled pattern may take.
const PATTERN_MEMORY: usize = 2 * 1024 * 1024;

/// A search that is given file after file, in the order of [`path_order`].
pub(crate) struct Search<'a> {
    regex: Regex,
    whole_text_check: WholeTextCheck,
    path_pattern: Option<&'a str>,
    hits: Vec<GrepMatch>,
}

/// Whether matching the whole text can rule a file out before it is split into lines.
///
/// `^` and `$` match at each line of the whole text. But `\A`, `\z` and a disabled flag refer to the ends of the searched text, and `$` does not match
/// before `\r\n`. The decision is made from the characters of the pattern; in doubt, every line is searched.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WholeTextCheck {
    RulesOut,
    RulesOutWithoutCarriageReturns,
    Inconclusive,
}

impl WholeTextCheck {
    fn of(pattern: &str) -> Self {
        let ends_of_text = pattern.contains("\\A") || pattern.contains("\\z");
        let switches_flags = pattern.contains('?') && pattern.contains('-');
        if ends_of_text || switches_flags {
            Self::Inconclusive
        } else if pattern.contains('$') {
            Self::RulesOutWithoutCarriageReturns
        } else {
            Self::RulesOut
        }
    }
}

impl<'a> Search<'a> {
    pub(crate) fn new(pattern: &str, path_pattern: Option<&'a str>) -> Result<Self> {
        let refuse = |why: String| {
            let shown: String = pattern.chars().take(200).collect();
            AgentLoopError::tool(format!("invalid search pattern `{shown}`: {why}"))
        };
        if pattern.len() > MAX_PATTERN_BYTES {
            return Err(refuse(format!("longer than {MAX_PATTERN_BYTES} bytes")));
        }
        let regex = RegexBuilder::new(pattern)
            .multi_line(true)
            .size_limit(PATTERN_MEMORY)
            .dfa_size_limit(PATTERN_MEMORY)
            .build()
            .map_err(|error| refuse(error.to_string()))?;
        Ok(Self {
            regex,
            whole_text_check: WholeTextCheck::of(pattern),
            path_pattern,
            hits: Vec::new(),
        })
    }

    /// Returns whether the search needs paths, so that callers can avoid building them.
    pub(crate) const fn has_path_pattern(&self) -> bool {
        self.path_pattern.is_some()
    }

    pub(crate) fn matches_path(&self, path: &str) -> bool {
        self.path_pattern.is_none_or(|part| path.contains(part))
    }

    /// A quick check whether a text may match.
    pub(crate) fn may_match(&self, text: &str) -> bool {
        if text.len() as u64 > MAX_SEARCHED_BYTES {
            return false;
        }
        match self.whole_text_check {
            WholeTextCheck::Inconclusive => true,
            WholeTextCheck::RulesOut => self.regex.is_match(text),
            WholeTextCheck::RulesOutWithoutCarriageReturns => {
                self.regex.is_match(text) || text.contains('\r')
            }
        }
    }

    /// Adds the matching lines of a text; breaks at the limit.
    pub(crate) fn add_matches(&mut self, path: &str, text: &str) -> ControlFlow<()> {
        for (index, line) in text.lines().enumerate() {
            if !self.regex.is_match(line) {
                continue;
            }
            self.hits.push(GrepMatch {
                path: path.to_owned(),
                line_number: index + 1,
                line: prefix_chars(line, MAX_LINE_CHARS).to_owned(),
            });
            if self.hits.len() == MAX_HITS {
                return ControlFlow::Break(());
            }
        }
        ControlFlow::Continue(())
    }

    pub(crate) fn into_hits(self) -> Vec<GrepMatch> {
        self.hits
    }
}

/// Compares two names of one directory by the paths below them.
///
/// Paths inside a directory have a `/` after the directory's name, and some characters sort before it: `a.txt` comes before all of `a/`.
pub(crate) fn path_order(a: (&str, bool), b: (&str, bool)) -> Ordering {
    let (a, a_is_directory) = (a.0.as_bytes(), a.1);
    let (b, b_is_directory) = (b.0.as_bytes(), b.1);
    let common = a.len().min(b.len());
    let next = |name: &[u8], is_directory: bool| {
        name.get(common).copied().or(is_directory.then_some(b'/'))
    };
    a[..common]
        .cmp(&b[..common])
        .then_with(|| next(a, a_is_directory).cmp(&next(b, b_is_directory)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(pattern: &str, text: &str) -> Vec<usize> {
        let mut search = Search::new(pattern, None).unwrap();
        if search.may_match(text) {
            let _ = search.add_matches("/f", text);
        }
        search
            .into_hits()
            .iter()
            .map(|hit| hit.line_number)
            .collect()
    }

    #[test]
    fn whole_text_check_hides_no_line() {
        let text = "one\r\ntwo\nthree\n\nsix";
        for (pattern, expected) in [
            ("one$", &[1][..]),
            ("^two$", &[2]),
            ("\\Athree\\z", &[3]),
            ("(?-m)^six$", &[5]),
            ("(?x) ( ?-m) ^six$", &[5]),
            ("^$", &[4]),
            ("e\\b", &[1, 3]),
            ("o\\nt", &[]),
            ("(?s)one.*six", &[]),
            ("", &[1, 2, 3, 4, 5]),
            ("(?i)SIX", &[5]),
        ] {
            assert_eq!(lines(pattern, text), expected, "{pattern}");
        }
    }

    #[test]
    fn directory_contents_sort_by_path() {
        let mut names = [("a", true), ("a.txt", false), ("a0", false), ("a-b", true)];
        names.sort_by(|a, b| path_order(*a, *b));
        assert_eq!(names.map(|(name, _)| name), ["a-b", "a.txt", "a", "a0"]);
    }
}
