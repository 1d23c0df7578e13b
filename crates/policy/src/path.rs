//! Compares paths with the patterns of rules. A rule is decided before any file is opened, so the comparison is textual and does not follow links.

use crate::pattern::matches_pattern;

/// Returns whether the argument's name marks it as a path.
pub(crate) fn is_path_argument(argument: &str) -> bool {
    let argument = argument.to_ascii_lowercase();
    let parts = ["path", "file", "directory", "folder"];
    parts.iter().any(|part| argument.contains(part)) || argument == "cwd" || argument == "dir"
}

/// Returns whether a path is relative and has no `.`, `..` or empty part.
fn is_plain(path: &str) -> bool {
    path.split('/')
        .all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Returns whether a path may point outside its base directory: it is absolute or contains `..`.
fn may_leave(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// Removes `.`, `..` and empty parts from a path without looking at the file system.
pub(crate) fn normalize(path: &str) -> String {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// Returns whether an `allow` pattern matches. A path that is not plain never matches.
pub(crate) fn matches_exactly(pattern: &str, path: &str) -> bool {
    is_plain(path) && matches_pattern(trimmed(pattern), path)
}

/// Returns whether a `deny` or `ask` pattern may match the path, or the end of a path that is absolute or contains `..`.
pub(crate) fn may_match(pattern: &str, path: &str) -> bool {
    let pattern = trimmed(pattern);
    // A pattern for everything in a directory includes the directory.
    let matches = |pattern: &str, path: &str| {
        let directory = pattern.strip_suffix("/**");
        matches_pattern(pattern, path) || directory.is_some_and(|it| matches_pattern(it, path))
    };
    let normal = normalize(path);
    if matches(pattern, path) || matches(pattern, &normal) {
        return true;
    }
    let at_any_end = format!("**/{pattern}");
    may_leave(path) && (matches(pattern, &format!("/{normal}")) || matches(&at_any_end, &normal))
}

/// Returns whether the pattern may match a path below a directory.
pub(crate) fn may_match_below(pattern: &str, directory: &str) -> bool {
    if may_leave(directory) {
        return true;
    }
    let normal = normalize(directory);
    let mut wanted = trimmed(pattern).split('/');
    for part in normal.split('/').filter(|part| !part.is_empty()) {
        match wanted.next() {
            Some(wanted) if wanted.contains("**") => return true,
            Some(wanted) if matches_pattern(wanted, part) => {}
            _ => return false,
        }
    }
    wanted.next().is_some()
}

/// Removes a leading `./`.
fn trimmed(pattern: &str) -> &str {
    pattern.trim_start_matches("./")
}
