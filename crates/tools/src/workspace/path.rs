//! Paths in the form that models write.

use std::path::{Component, Path, PathBuf};

use super::FileError;

/// Maximum length of a path in bytes.
const MAX_PATH_BYTES: usize = 4096;
/// Maximum number of components of a path below the root.
pub(crate) const MAX_DEPTH: usize = 128;
/// Maximum number of characters of a path in an error message.
const SHOWN_CHARS: usize = 200;
/// Prefix of the names of files that are being written.
pub(crate) const TEMPORARY_PREFIX: &str = ".windlass-tmp-";

/// Returns a path below the root, without `.` and `..`.
///
/// `..` is resolved textually: the result is resolved below the root again, whatever links there are.
pub(super) fn inside(root: &Path, cwd: &Path, path: &str) -> Result<PathBuf, FileError> {
    let invalid = |why| {
        let path = shortened(path);
        Err(FileError::Invalid { why, path })
    };
    if path.len() > MAX_PATH_BYTES {
        return invalid("it is too long");
    }
    if path.contains('\0') {
        return invalid("it contains a NUL character");
    }
    let outside = || FileError::Outside {
        path: shortened(path),
    };
    let normal = normalized(&root.join(cwd).join(path)).ok_or_else(outside)?;
    let inside = normal.strip_prefix(root).map_err(|_| outside())?;
    if inside
        .iter()
        .any(|name| name.to_str().is_some_and(is_temporary))
    {
        return invalid("names of this form are reserved");
    }
    if inside.iter().count() > MAX_DEPTH {
        return invalid("it has too many parts");
    }
    Ok(inside.to_owned())
}

/// Removes `.` and `..` from an absolute path; `None` if it leads above `/`.
fn normalized(path: &Path) -> Option<PathBuf> {
    let mut normal = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !normal.pop() {
                    return None;
                }
            }
            Component::Normal(_) | Component::RootDir | Component::Prefix(_) => normal.push(part),
        }
    }
    Some(normal)
}

/// Formats a path relative to the working directory if it is below it, and otherwise as absolute.
pub(super) fn shown(root: &Path, cwd: &Path, path: &Path) -> String {
    match path.strip_prefix(cwd) {
        Ok(below) => or_dot(below).display().to_string(),
        Err(_) => root.join(path).display().to_string(),
    }
}

/// Replaces the empty path with `.`, which the system accepts.
pub(super) fn or_dot(path: &Path) -> &Path {
    if path.as_os_str().is_empty() {
        Path::new(".")
    } else {
        path
    }
}

/// Returns whether a name is that of a file that is being written.
pub(crate) fn is_temporary(name: &str) -> bool {
    name.starts_with(TEMPORARY_PREFIX)
}

pub(super) fn temporary_name() -> String {
    format!("{TEMPORARY_PREFIX}{}", uuid::Uuid::now_v7().simple())
}

/// Shortens a path for an error message and removes control characters.
fn shortened(path: &str) -> String {
    let visible = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    let mut text: String = path.chars().take(SHOWN_CHARS).map(visible).collect();
    if path.chars().nth(SHOWN_CHARS).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(path: &str) -> Result<String, String> {
        let found = inside(Path::new("/srv/w"), Path::new("sub"), path);
        found
            .map(|path| path.display().to_string())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn paths_resolve_like_in_a_shell() {
        for (written, found) in [
            ("a", "sub/a"),
            ("", "sub"),
            (".", "sub"),
            ("./a//b/", "sub/a/b"),
            ("../a", "a"),
            ("..", ""),
            ("x/../../y", "y"),
            ("/srv/w/a", "a"),
            ("/srv/w", ""),
            ("/srv/../srv/w/a", "a"),
        ] {
            assert_eq!(find(written).unwrap(), found, "{written}");
        }
    }

    #[test]
    fn path_outside_the_root_is_refused() {
        for written in [
            "../../a",
            "/etc/passwd",
            "/srv/w2/a",
            "/srv/w/../x",
            "../../../../../..",
        ] {
            let error = find(written).unwrap_err();
            assert!(error.starts_with("path_outside_environment: "), "{error}");
            assert!(error.contains(written), "{error}");
        }
    }

    #[test]
    fn invalid_path_is_refused() {
        let (long, deep) = ("n".repeat(5000), "d/".repeat(200));
        for (written, why) in [
            ("a\0b", "NUL"),
            (long.as_str(), "too long"),
            (deep.as_str(), "too many parts"),
            (".windlass-tmp-1", "reserved"),
        ] {
            let error = find(written).unwrap_err();
            assert!(error.contains(why) && error.len() < 1000, "{error}");
        }
    }

    #[test]
    fn shown_path_can_be_used_as_input() {
        let (root, cwd) = (Path::new("/srv/w"), Path::new("sub"));
        for below in ["sub/a", "sub", "other/b", ""] {
            let spelled = shown(root, cwd, Path::new(below));
            let again = inside(root, cwd, &spelled).unwrap();
            assert_eq!(again, Path::new(below), "{spelled}");
        }
    }
}
