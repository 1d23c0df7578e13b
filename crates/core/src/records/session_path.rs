//! One spelling for each path of a session's files.

use crate::error::{AgentLoopError, Result};

/// The longest path that any store takes, in bytes.
pub(crate) const MAX_PATH_BYTES: usize = 4096;
/// The longest segment of a path, in bytes: what common file systems allow.
pub(crate) const MAX_NAME_BYTES: usize = 255;

/// Returns the one spelling of a path: `/a/b`, without `/workspace`, doubled slashes, `.` and a final slash.
///
/// `..` is refused rather than resolved: no honest caller needs it, and resolving it invites escapes.
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

/// Returns a path as an error may show it: short, and without control characters.
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
    fn spellings_of_one_path_are_one() {
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
    fn paths_that_no_store_takes_are_refused_by_name() {
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
