//! Paths of session files.

use windlass_core::error::{AgentLoopError, Result};
use windlass_core::normalize_session_path;

/// How many segments a path may have; every walk over a tree recurses at most this deep.
pub const MAX_DEPTH: usize = 256;

/// The prefix of temporary files that a store on disk writes.
const TEMPORARY_PREFIX: &str = ".windlass-tmp-";

/// Returns the normalised path, or the reason why every store rejects it.
pub(crate) fn checked(path: &str) -> Result<String> {
    let path = normalize_session_path(path)?;
    let mut depth = 0;
    for name in segments(&path) {
        depth += 1;
        if is_temporary(name) {
            return Err(AgentLoopError::tool(format!(
                "names that begin with {TEMPORARY_PREFIX} are reserved: {path}"
            )));
        }
    }
    if depth > MAX_DEPTH {
        return Err(AgentLoopError::tool(format!(
            "path has more than {MAX_DEPTH} segments: {path}"
        )));
    }
    Ok(path)
}

/// Returns the names on the way to a normalised path; the root has none.
pub(crate) fn segments(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// Splits a normalised path into its directory and its name; the root has no name.
pub(crate) fn split_last(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once('/').filter(|(_, name)| !name.is_empty())
}

/// Returns the path of a child.
pub(crate) fn join(directory: &str, name: &str) -> String {
    let directory = directory.trim_end_matches('/');
    let mut path = String::with_capacity(directory.len() + 1 + name.len());
    path.push_str(directory);
    path.push('/');
    path.push_str(name);
    path
}

/// Returns a form of a normalised path that normalisation does not change again.
pub(crate) fn stable_form(path: &str) -> String {
    format!(".{path}")
}

/// Returns whether a name is that of a temporary file of a write in progress.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX)
}

/// Returns a name for a file that is being written.
#[cfg(feature = "real-disk")]
pub(crate) fn temporary_name() -> String {
    format!("{TEMPORARY_PREFIX}{}", uuid::Uuid::now_v7().simple())
}
