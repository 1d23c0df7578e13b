//! Files inside hidden directories that have further hard links.

use std::collections::HashSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

use super::Identity;

/// Maximum number of entries examined; hard links of files beyond it are not known.
const MAX_ENTRIES: usize = 100_000;

/// Returns the files below these paths that have more than one hard link.
pub(super) fn files(places: &[PathBuf]) -> HashSet<Identity> {
    let (mut found, mut left, mut seen) = (HashSet::new(), places.to_vec(), 0);
    while let Some(directory) = left.pop() {
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            seen += 1;
            if seen > MAX_ENTRIES {
                return found;
            }
            let Ok(metadata) = entry.metadata() else {
                continue;
            };
            if metadata.is_dir() {
                left.push(entry.path());
            } else if metadata.is_file() && metadata.nlink() > 1 {
                found.insert(Identity::from_metadata(&metadata));
            }
        }
    }
    found
}
