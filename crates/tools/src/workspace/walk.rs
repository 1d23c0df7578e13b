//! Walks a tree in the order of its paths.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use cap_fs_ext::DirExt;
use cap_std::fs::Dir;

use super::ignored::IgnoreRules;
use super::path::{MAX_DEPTH, is_temporary};
use super::{FileError, ResolvedWorkspace};

/// Maximum number of entries examined in a walk.
const MAX_ENTRIES: usize = 200_000;

/// A walk over the files below a directory. Links are not followed, and `.git` is skipped.
pub(crate) struct FileWalk<'a> {
    workspace: &'a ResolvedWorkspace,
    include_ignored: bool,
    cancelled: Arc<AtomicBool>,
    seen: usize,
    ignored: IgnoreRules,
    is_complete: bool,
}

/// A regular file found by a walk.
pub(crate) struct WalkedFile<'a> {
    /// Its directory, which is neither hidden nor below a hidden one.
    pub(crate) parent: &'a Arc<Dir>,
    pub(crate) name: &'a str,
    /// Its path, relative to the root.
    pub(crate) path: &'a Path,
}

/// How a walk ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WalkEnd {
    /// All entries were visited, or the visitor stopped the walk.
    Complete,
    /// A limit of the walk was reached.
    LimitReached,
}

impl WalkEnd {
    /// Returns a remark about omitted entries.
    pub(crate) fn remark(self) -> Option<String> {
        let cut = || {
            format!(
                "the tree is too large: only {MAX_ENTRIES} entries were examined; search a subdirectory"
            )
        };
        (self == Self::LimitReached).then(cut)
    }
}

impl<'a> FileWalk<'a> {
    pub(crate) fn new(
        workspace: &'a ResolvedWorkspace,
        include_ignored: bool,
        cancelled: Arc<AtomicBool>,
    ) -> Self {
        Self {
            workspace,
            include_ignored,
            cancelled,
            seen: 0,
            ignored: IgnoreRules::default(),
            is_complete: true,
        }
    }

    /// Visits each regular file below a directory that is not hidden.
    pub(crate) fn files(
        mut self,
        start: &Path,
        mut visit: impl FnMut(WalkedFile<'_>) -> ControlFlow<()>,
    ) -> Result<WalkEnd, FileError> {
        let start = self.workspace.canonical(start)?;
        let directory = Arc::new(self.workspace.open_directory(&start)?);
        if !self.include_ignored {
            self.enter_above(&start);
        }
        let _ = self.descend(&directory, &mut start.clone(), 0, &mut visit);
        Ok(if self.is_complete {
            WalkEnd::Complete
        } else {
            WalkEnd::LimitReached
        })
    }

    /// Reads the ignore rules of the directories above the start.
    fn enter_above(&mut self, start: &Path) {
        let mut above: Vec<_> = start.ancestors().skip(1).collect();
        above.reverse();
        for path in above {
            if let Ok(directory) = self.workspace.open_directory(path) {
                self.ignored.enter(&directory, path);
            }
        }
    }

    /// Unreadable directories are skipped.
    fn descend(
        &mut self,
        directory: &Arc<Dir>,
        path: &mut PathBuf,
        depth: usize,
        visit: &mut impl FnMut(WalkedFile<'_>) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let entered = !self.include_ignored && self.ignored.enter(directory, path);
        for (name, is_directory) in self.sorted_entries(directory)? {
            if self.cancelled.load(Ordering::Relaxed) {
                return ControlFlow::Break(());
            }
            path.push(&name);
            let covered = !self.include_ignored && self.ignored.covers(path, is_directory);
            let flow = if covered {
                ControlFlow::Continue(())
            } else if !is_directory {
                visit(WalkedFile {
                    parent: directory,
                    name: &name,
                    path,
                })
            } else {
                match self.child(directory, &name) {
                    Some(_) if depth == MAX_DEPTH => {
                        self.is_complete = false;
                        ControlFlow::Continue(())
                    }
                    Some(child) => self.descend(&Arc::new(child), path, depth + 1, visit),
                    None => ControlFlow::Continue(()),
                }
            };
            path.pop();
            flow?;
        }
        if entered {
            self.ignored.leave();
        }
        ControlFlow::Continue(())
    }

    fn child(&self, directory: &Dir, name: &str) -> Option<Dir> {
        let child = directory.open_dir_nofollow(name).ok()?;
        let metadata = child.dir_metadata().ok()?;
        (!self.workspace.hidden.is_hidden(&metadata)).then_some(child)
    }

    fn sorted_entries(&mut self, directory: &Dir) -> ControlFlow<(), Vec<(String, bool)>> {
        let mut found = Vec::new();
        let Ok(entries) = directory.entries() else {
            return ControlFlow::Continue(found);
        };
        for entry in entries.flatten() {
            self.seen += 1;
            if self.seen > MAX_ENTRIES {
                self.is_complete = false;
                return ControlFlow::Break(());
            }
            let (Ok(kind), Ok(name)) = (entry.file_type(), entry.file_name().into_string()) else {
                continue;
            };
            let is_reachable = kind.is_dir() || kind.is_file();
            let is_reachable = is_reachable && !self.workspace.hides(&entry);
            if is_reachable && name != ".git" && !is_temporary(&name) {
                found.push((name, kind.is_dir()));
            }
        }
        found.sort_by(path_order);
        ControlFlow::Continue(found)
    }
}

/// Compares two names of one directory by their full paths: `a.txt` sorts before all of `a/`.
fn path_order(a: &(String, bool), b: &(String, bool)) -> std::cmp::Ordering {
    fn sort_key((name, is_directory): &(String, bool)) -> impl Iterator<Item = u8> {
        name.bytes().chain(is_directory.then_some(b'/'))
    }
    sort_key(a).cmp(sort_key(b))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::environments::{Environment, Policy};
    use windlass_process::Hidden;

    #[test]
    fn cancelled_walk_stops() {
        let directory = tempfile::tempdir().unwrap();
        for name in ["a", "b", "c"] {
            std::fs::write(directory.path().join(name), "").unwrap();
        }
        let environment = Environment::new("e", directory.path(), Policy::default()).unwrap();
        let (policy, hidden) = (Policy::default(), Hidden::default());
        let at = ResolvedWorkspace::open(&environment, Path::new(""), policy, hidden).unwrap();
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut seen = 0;
        let walk = FileWalk::new(&at, false, Arc::clone(&cancelled));
        let end = walk.files(Path::new(""), |_| {
            seen += 1;
            cancelled.store(true, Ordering::Relaxed);
            ControlFlow::Continue(())
        });
        assert_eq!((end.unwrap(), seen), (WalkEnd::Complete, 1));
    }
}
