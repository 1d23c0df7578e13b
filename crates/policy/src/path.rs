//! Compares paths with the patterns of rules. A rule is decided before any file is opened, so the comparison is textual and does not follow links.

use crate::pattern::matches_pattern;

/// Returns whether the argument's name marks it as a path.
pub(crate) fn is_named(argument: &str) -> bool {
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
fn wanders(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// Removes `.`, `..` and empty parts from a path without looking at the file system.
pub(crate) fn normal(path: &str) -> String {
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
pub(crate) fn is_surely(pattern: &str, path: &str) -> bool {
    is_plain(path) && matches_pattern(own(pattern), path)
}

/// Returns whether a `deny` or `ask` pattern may match the path, or the end of a path that is absolute or contains `..`.
pub(crate) fn may_be(pattern: &str, path: &str) -> bool {
    let pattern = own(pattern);
    let is = |path: &str| {
        // A pattern for everything in a directory includes the directory.
        let directory = pattern.strip_suffix("/**");
        matches_pattern(pattern, path) || directory.is_some_and(|it| matches_pattern(it, path))
    };
    let normal = normal(path);
    if is(path) || is(&normal) {
        return true;
    }
    let at_any_end = format!("**/{pattern}");
    let at_any_end = |path: &str| {
        let directory = at_any_end.strip_suffix("/**");
        matches_pattern(&at_any_end, path) || directory.is_some_and(|it| matches_pattern(it, path))
    };
    wanders(path) && (is(&format!("/{normal}")) || at_any_end(&normal))
}

/// Returns whether the pattern may match a path below a directory.
pub(crate) fn may_be_above(pattern: &str, directory: &str) -> bool {
    if wanders(directory) {
        return true;
    }
    let normal = normal(directory);
    let mut wanted = own(pattern).split('/');
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
fn own(pattern: &str) -> &str {
    pattern.trim_start_matches("./")
}
