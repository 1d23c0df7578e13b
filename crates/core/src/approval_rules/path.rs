//! Paths and the patterns of rules about them. A rule is decided before anything is touched: it knows the letters of a path, not where links lead.

use super::pattern::matches_pattern;

/// Tells whether an argument is a path, by its name.
pub(super) fn is_named(argument: &str) -> bool {
    let argument = argument.to_ascii_lowercase();
    let parts = ["path", "file", "directory", "folder"];
    parts.iter().any(|part| argument.contains(part)) || argument == "cwd" || argument == "dir"
}

/// Tells whether a path leads where its letters say: it is relative, and has no `.`, `..` or empty part.
fn is_plain(path: &str) -> bool {
    path.split('/')
        .all(|part| !part.is_empty() && part != "." && part != "..")
}

/// Tells whether nobody knows by its letters alone where below the root a path leads.
fn wanders(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|part| part == "..")
}

/// Takes `.`, `..` and empty parts out of a path, as far as that can be done by its letters alone.
pub(super) fn normal(path: &str) -> String {
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

/// Tells whether a path is what a rule that allows names. One that could lead elsewhere than its letters say never is.
pub(super) fn is_surely(pattern: &str, path: &str) -> bool {
    is_plain(path) && matches_pattern(own(pattern), path)
}

/// Tells whether a path may be what a rule that keeps something names: all of it, or its end where it is absolute or goes up.
pub(super) fn may_be(pattern: &str, path: &str) -> bool {
    let pattern = own(pattern);
    let is = |path: &str| {
        // What holds for everything in a directory holds for the directory.
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

/// Tells whether what a pattern names may lie below a directory.
pub(super) fn may_be_above(pattern: &str, directory: &str) -> bool {
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

/// `./a` is `a`, also in a rule.
fn own(pattern: &str) -> &str {
    pattern.trim_start_matches("./")
}
