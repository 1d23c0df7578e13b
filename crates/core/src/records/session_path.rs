//! The canonical spelling of paths of a session's files.

use crate::error::{AgentLoopError, Result};

/// Length limit of a path, in bytes.
pub(crate) const MAX_PATH_BYTES: usize = 4096;
/// Length limit of a path segment, in bytes: the limit of common file systems.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// Returns the canonical spelling of a path: `/a/b`, without `/workspace`, doubled slashes, `.` and a final slash.
///
/// # Errors
/// The path is too long, or contains a NUL or `..`. A `..` is refused instead of resolved: no legitimate caller needs it.
pub fn normalize(path: &str) -> Result<String> {
    let refuse = |why: &str| Err(AgentLoopError::tool(format!("{why}: {}", shown(path))));
    if path.len() > MAX_PATH_BYTES {
        return refuse("path is too long");
    }
    if path.contains('\0') {
        return refuse("path contains a NUL character");
    }
    let inside = match path.strip_prefix("/workspace") {
        Some(rest) if rest.is_empty() || rest.starts_with('/') => rest,
        _ => path,
    };
    let mut normal = String::with_capacity(inside.len() + 1);
    for segment in inside.split('/') {
        match segment {
            "" | "." => {}
            ".." => return refuse("path traversal rejected"),
            name if name.len() > MAX_NAME_BYTES => return refuse("a name in the path is too long"),
            name => {
                normal.push('/');
                normal.push_str(name);
            }
        }
    }
    if normal.is_empty() {
        normal.push('/');
    }
    Ok(normal)
}

/// Returns a path for an error message: truncated, and without control characters.
fn shown(path: &str) -> String {
    const SHOWN_CHARS: usize = 200;
    let mut text: String = path
        .chars()
        .take(SHOWN_CHARS)
        .map(|c| if c.is_control() { '\u{fffd}' } else { c })
        .collect();
    if path.chars().nth(SHOWN_CHARS).is_some() {
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spellings_of_a_path_are_normalised() {
        for (spelled, normal) in [
            ("", "/"),
            ("/", "/"),
            ("/workspace", "/"),
            ("/workspace/", "/"),
            ("x", "/x"),
            ("/workspace/x", "/x"),
            ("/x/", "/x"),
            ("//a//b", "/a/b"),
            ("/a/./b", "/a/b"),
            ("/workspaces/x", "/workspaces/x"),
            ("/a..b", "/a..b"),
        ] {
            assert_eq!(normalize(spelled).unwrap(), normal, "{spelled}");
        }
    }

    #[test]
    fn unusable_paths_are_refused() {
        for (path, why) in [
            ("/a/../b", "path traversal rejected: /a/../b"),
            ("..", "path traversal rejected: .."),
            ("a\0b", "NUL"),
            (&"n".repeat(256), "too long"),
            (&"a/".repeat(2049), "too long"),
        ] {
            let error = normalize(path).unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
    }
}
