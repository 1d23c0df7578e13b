//! Searching a directory of the host.

use std::ops::ControlFlow;

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;
use windlass_core::error::Result;
use windlass_core::session_file::GrepMatch;

use super::disk::{Disk, entries};
use super::ignored::Ignored;
use super::read::read_bytes;
use crate::files::content::Content;
use crate::files::path::{MAX_DEPTH, is_temporary};
use crate::files::search::{MAX_SEARCHED_BYTES, Search, path_order};

impl Disk {
    /// Searches all files that are neither ignored nor part of a repository's own records.
    pub(super) fn grep(&self, mut search: Search<'_>) -> Result<Vec<GrepMatch>> {
        let root = self.root_handle("/")?;
        let _ = walk(&root, &mut String::new(), None, 0, &mut search);
        Ok(search.into_hits())
    }
}

/// Goes through a directory in the order of the paths. What cannot be read is left out, as if it were not there.
fn walk(
    directory: &Dir,
    path: &mut String,
    ignored: Option<&Ignored<'_>>,
    depth: usize,
    search: &mut Search<'_>,
) -> ControlFlow<()> {
    let Ok(entries) = entries(directory, path) else {
        return ControlFlow::Continue(());
    };
    let mut entries: Vec<(&str, bool)> = entries
        .iter()
        .filter(|(_, metadata)| metadata.is_dir() || metadata.is_file())
        .filter_map(|(name, metadata)| Some((name.to_str()?, metadata.is_dir())))
        .filter(|(name, _)| *name != ".git" && !is_temporary(name))
        .collect();
    entries.sort_by(|a, b| path_order(*a, *b));

    let has_rules = entries.contains(&(".gitignore", false));
    let own = has_rules
        .then(|| Ignored::read(directory, path, ignored))
        .flatten();
    let ignored = own.as_ref().or(ignored);

    let end = path.len();
    for (name, is_directory) in entries {
        path.push('/');
        path.push_str(name);
        if !ignored.is_some_and(|ignored| ignored.is_ignored(path, is_directory)) {
            if !is_directory {
                search_file(directory, name, path, search)?;
            } else if depth < MAX_DEPTH
                && let Ok(child) = directory.open_dir_nofollow(name)
            {
                walk(&child, path, ignored, depth + 1, search)?;
            }
        }
        path.truncate(end);
    }
    ControlFlow::Continue(())
}

fn search_file(
    directory: &Dir,
    name: &str,
    path: &str,
    search: &mut Search<'_>,
) -> ControlFlow<()> {
    if !search.takes_path(path) {
        return ControlFlow::Continue(());
    }
    let Ok(Some((_, Some(bytes)))) = read_bytes(directory, name, path, MAX_SEARCHED_BYTES) else {
        return ControlFlow::Continue(());
    };
    match Content::from_bytes(bytes).text() {
        Some(text) if search.may_hit(text) => search.take_lines(path, text),
        _ => ControlFlow::Continue(()),
    }
}
