//! The files that a repository ignores.

use cap_std::fs::Dir;
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use windlass_core::bounds::check_pattern;

use super::error::DiskResult;
use super::read::read_bytes;

/// How big a `.gitignore` may be; a larger one is not read.
const MAX_RULES_BYTES: u64 = 1024 * 1024;

/// The rules of a directory and of those above it.
pub(super) struct IgnoreRules<'a> {
    above: Option<&'a IgnoreRules<'a>>,
    rules: Gitignore,
    /// How much of a path leads to the directory.
    prefix: usize,
}

impl<'a> IgnoreRules<'a> {
    /// Reads the rules of a directory; `None` when it has none.
    pub(super) fn read(
        directory: &Dir,
        path: &str,
        above: Option<&'a Self>,
    ) -> DiskResult<Option<Self>> {
        let read = read_bytes(directory, ".gitignore", path, MAX_RULES_BYTES)?;
        let Some((_, Some(bytes))) = read else {
            return Ok(None);
        };
        let mut builder = GitignoreBuilder::new("");
        for line in String::from_utf8_lossy(&bytes).lines() {
            // As in git, an invalid line does not affect the others.
            if check_pattern(line).is_ok() {
                let _ = builder.add_line(None, line);
            }
        }
        Ok(builder.build().ok().map(|rules| Self {
            above,
            rules,
            prefix: path.len() + 1,
        }))
    }

    /// Returns whether a path is ignored; the nearest directory with a matching rule decides.
    pub(super) fn is_ignored(&self, path: &str, is_directory: bool) -> bool {
        match self.rules.matched(&path[self.prefix..], is_directory) {
            Match::Ignore(_) => true,
            Match::Whitelist(_) => false,
            Match::None => self
                .above
                .is_some_and(|above| above.is_ignored(path, is_directory)),
        }
    }
}
