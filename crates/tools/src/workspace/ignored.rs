//! The ignore rules of a repository.

use std::io::Read;
use std::path::{Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, OpenOptions};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};
use windlass_core::bounds::check_pattern;

/// Maximum number of bytes read of a `.gitignore`. Compiling rules takes much longer than reading them.
const MAX_RULES_BYTES: u64 = 64 * 1024;
/// Maximum number of bytes of rules read in one walk, across all directories.
const MAX_WALK_BYTES: u64 = 1024 * 1024;

/// The rules of the directories from the root down to the current directory of a walk.
#[derive(Default)]
pub(crate) struct IgnoreRules {
    layers: Vec<Layer>,
    /// Number of bytes of rules read so far.
    read: u64,
}

struct Layer {
    directory: PathBuf,
    rules: Gitignore,
}

impl IgnoreRules {
    /// Adds the rules of a directory. Returns whether it has any.
    pub(crate) fn enter(&mut self, directory: &Dir, path: &Path) -> bool {
        let limit = MAX_RULES_BYTES.min(MAX_WALK_BYTES - self.read);
        let Some((rules, bytes)) = rules_of(directory, limit) else {
            return false;
        };
        self.read += bytes;
        self.layers.push(Layer {
            directory: path.to_owned(),
            rules,
        });
        true
    }

    /// Removes the rules of the last directory.
    pub(crate) fn leave(&mut self) {
        self.layers.pop();
    }

    /// Returns whether a path is ignored; the nearest directory with a matching rule decides.
    pub(crate) fn covers(&self, path: &Path, is_directory: bool) -> bool {
        for layer in self.layers.iter().rev() {
            let Ok(below) = path.strip_prefix(&layer.directory) else {
                continue;
            };
            match layer.rules.matched(below, is_directory) {
                Match::Ignore(_) => return true,
                Match::Whitelist(_) => return false,
                Match::None => {}
            }
        }
        false
    }
}

/// Returns the rules of a directory, and the number of bytes read.
fn rules_of(directory: &Dir, limit: u64) -> Option<(Gitignore, u64)> {
    let mut options = OpenOptions::new();
    options.read(true).follow(FollowSymlinks::No).nonblock(true);
    let file = directory.open_with(".gitignore", &options).ok()?;
    if !file.metadata().ok()?.is_file() {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(limit).read_to_end(&mut bytes).ok()?;
    let mut builder = GitignoreBuilder::new("");
    for line in String::from_utf8_lossy(&bytes).lines() {
        // As in git, an invalid line does not affect the others.
        if check_pattern(line).is_ok() {
            let _ = builder.add_line(None, line);
        }
    }
    Some((builder.build().ok()?, bytes.len() as u64))
}
