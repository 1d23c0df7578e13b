//! Searching a directory of the host.

use std::ops::ControlFlow;

use cap_std::fs::Dir;
use windlass_core::error::Result;
use windlass_core::session_file::GrepMatch;

use super::disk::{DirectoryStep, DiskRoot, OPEN_LEVELS, entries, step};
use super::error::DiskResult;
use super::ignored::IgnoreRules;
use super::read::read_bytes;
use crate::files::content::Content;
use crate::files::path::{MAX_DEPTH, is_temporary};
use crate::files::search::{MAX_SEARCHED_BYTES, Search, path_order};

impl DiskRoot {
    /// Searches all files that are neither ignored nor part of a repository's own records.
    pub(super) fn grep(&self, search: Search<'_>) -> Result<Vec<GrepMatch>> {
        let mut walk = SearchWalk {
            disk: self,
            path: String::new(),
            search,
        };
        let root = self.root_handle("/")?;
        let _ = walk.directory(root, None, 0)?;
        Ok(walk.search.into_hits())
    }
}

/// A search on its way through a tree, in the order of the paths.
struct SearchWalk<'a> {
    disk: &'a DiskRoot,
    /// The path of the current entry.
    path: String,
    search: Search<'a>,
}

impl SearchWalk<'_> {
    fn directory(
        &mut self,
        directory: Dir,
        ignored: Option<&IgnoreRules<'_>>,
        depth: usize,
    ) -> Result<ControlFlow<()>> {
        let Some(entries) = searchable(entries(&directory, &self.path))? else {
            return Ok(ControlFlow::Continue(()));
        };
        let mut entries: Vec<(&str, bool)> = entries
            .iter()
            .filter(|(_, metadata)| metadata.is_dir() || metadata.is_file())
            .filter_map(|(name, metadata)| Some((name.to_str()?, metadata.is_dir())))
            .filter(|(name, _)| *name != ".git" && !is_temporary(name))
            .collect();
        entries.sort_by(|a, b| path_order(*a, *b));

        let has_rules = entries.contains(&(".gitignore", false));
        let own = if has_rules {
            searchable(IgnoreRules::read(&directory, &self.path, ignored))?.flatten()
        } else {
            None
        };
        let ignored = own.as_ref().or(ignored);

        let end = self.path.len();
        let mut directory = Some(directory);
        for (name, is_directory) in entries {
            let Some(open) = self.reopen(&mut directory)? else {
                break;
            };
            self.path.push('/');
            self.path.push_str(name);
            let mut flow = ControlFlow::Continue(());
            if ignored.is_some_and(|ignored| ignored.is_ignored(&self.path, is_directory)) {
                // Neither the entry nor anything inside it is searched.
            } else if !is_directory {
                flow = self.file(open, name)?;
            } else if depth < MAX_DEPTH
                && let Some(DirectoryStep::Into(child)) = searchable(step(open, name, &self.path))?
            {
                if depth >= OPEN_LEVELS {
                    directory = None;
                }
                flow = self.directory(child, ignored, depth + 1)?;
            }
            self.path.truncate(end);
            if flow.is_break() {
                return Ok(flow);
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Returns the directory at the current path; `None` if it no longer exists.
    fn reopen<'d>(&self, directory: &'d mut Option<Dir>) -> DiskResult<Option<&'d Dir>> {
        if directory.is_none() {
            *directory = searchable(self.disk.open_directory(&self.path))?.flatten();
        }
        Ok(directory.as_ref())
    }

    fn file(&mut self, directory: &Dir, name: &str) -> Result<ControlFlow<()>> {
        if !self.search.matches_path(&self.path) {
            return Ok(ControlFlow::Continue(()));
        }
        let read = read_bytes(directory, name, &self.path, MAX_SEARCHED_BYTES);
        let Some(Some((_, Some(bytes)))) = searchable(read)? else {
            return Ok(ControlFlow::Continue(()));
        };
        Ok(match Content::from_bytes(bytes).text() {
            Some(text) if self.search.may_match(text) => self.search.add_matches(&self.path, text),
            _ => ControlFlow::Continue(()),
        })
    }
}

/// Returns `None` for a path that a search may omit.
fn searchable<T>(result: DiskResult<T>) -> DiskResult<Option<T>> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.is_unsearchable() => Ok(None),
        Err(error) => Err(error),
    }
}
