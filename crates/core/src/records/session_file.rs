//! Files of a session, as values.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// The number of leading bytes that decide whether a file is text.
const TEXT_PROBE_BYTES: usize = 8192;

fn text_encoding() -> String {
    "text".to_owned()
}

/// An entry of a directory listing.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileInfo {
    /// Identifies the entry.
    pub id: Uuid,
    /// The session it belongs to.
    pub session_id: Uuid,
    /// The normalised path.
    pub path: String,
    /// The last segment of the path.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether writing it is refused.
    pub is_readonly: bool,
    /// The size of the decoded content.
    pub size_bytes: i64,
    pub created_at: DateTime<Utc>,
    /// When it was last written.
    pub updated_at: DateTime<Utc>,
}

/// A file or directory with its content.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SessionFile {
    /// Identifies the entry.
    pub id: Uuid,
    /// The session it belongs to.
    pub session_id: Uuid,
    /// The normalised path.
    pub path: String,
    /// The last segment of the path.
    pub name: String,
    /// The content in its encoding; `None` for a directory.
    pub content: Option<String>,
    /// `text` or `base64`.
    #[serde(default = "text_encoding")]
    pub encoding: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether writing it is refused.
    pub is_readonly: bool,
    /// The size of the decoded content.
    pub size_bytes: i64,
    pub created_at: DateTime<Utc>,
    /// When it was last written.
    pub updated_at: DateTime<Utc>,
}

/// The metadata of a path.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct FileStat {
    /// The normalised path.
    pub path: String,
    /// The last segment of the path.
    pub name: String,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether writing it is refused.
    pub is_readonly: bool,
    /// The size of the decoded content.
    pub size_bytes: i64,
    pub created_at: DateTime<Utc>,
    /// When it was last written.
    pub updated_at: DateTime<Utc>,
}

/// A line that a search found.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct GrepMatch {
    pub path: String,
    /// The line's number, from 1.
    pub line_number: usize,
    /// The line without its end.
    pub line: String,
}

/// A file that a session starts with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct InitialFile {
    pub path: String,
    /// The content in its encoding.
    pub content: String,
    /// `text` or `base64`.
    #[serde(default = "text_encoding")]
    pub encoding: String,
    /// Whether writing it is refused afterwards.
    #[serde(default)]
    pub is_readonly: bool,
}

impl FileInfo {
    /// Returns the last segment of a path, `/` for the root.
    #[must_use]
    pub fn name_from_path(path: &str) -> String {
        match path.trim_end_matches('/').rsplit('/').next() {
            None | Some("") => "/".to_owned(),
            Some(last) => last.to_owned(),
        }
    }

    /// Returns the parent directory; `None` for the root.
    #[must_use]
    pub fn parent_path(path: &str) -> Option<String> {
        let path = path.trim_end_matches('/');
        match path.rfind('/') {
            _ if path.is_empty() => None,
            Some(0) | None => Some("/".to_owned()),
            Some(end) => Some(path[..end].to_owned()),
        }
    }
}

impl SessionFile {
    /// Tells whether bytes look like text: the first 8192 bytes contain no NUL.
    #[must_use]
    pub fn is_text_content(bytes: &[u8]) -> bool {
        !bytes[..bytes.len().min(TEXT_PROBE_BYTES)].contains(&0)
    }

    /// Returns content and encoding: `text` for valid UTF-8 text, else `base64`.
    #[must_use]
    pub fn encode_content(bytes: &[u8]) -> (String, String) {
        match std::str::from_utf8(bytes) {
            Ok(text) if Self::is_text_content(bytes) => (text.to_owned(), "text".to_owned()),
            _ => (STANDARD.encode(bytes), "base64".to_owned()),
        }
    }

    /// Decodes content in this encoding to bytes.
    pub fn decode_content(content: &str, encoding: &str) -> Result<Vec<u8>, base64::DecodeError> {
        if encoding == "base64" {
            STANDARD.decode(content)
        } else {
            Ok(content.as_bytes().to_vec())
        }
    }
}

/// Counts every occurrence of a piece of a text, including overlapping ones: `aa` is not unique in `aaa`.
#[must_use]
pub fn occurrences(text: &str, piece: &str) -> usize {
    let step = piece.chars().next().map_or(1, char::len_utf8);
    let (mut count, mut from) = (0, 0);
    while let Some(found) = text[from..].find(piece) {
        count += 1;
        from += found + step;
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_parents_of_paths() {
        for (path, name, parent) in [
            ("/", "/", None),
            ("/a", "a", Some("/")),
            ("/a/b", "b", Some("/a")),
            ("/a/b/", "b", Some("/a")),
        ] {
            assert_eq!(FileInfo::name_from_path(path), name);
            assert_eq!(FileInfo::parent_path(path).as_deref(), parent);
        }
    }

    #[test]
    fn content_round_trips_through_its_encoding() {
        for bytes in [&b"text"[..], b"\x00\x01", b"\xff\xfe", b""] {
            let (content, encoding) = SessionFile::encode_content(bytes);
            assert_eq!(
                SessionFile::decode_content(&content, &encoding).unwrap(),
                bytes
            );
        }
    }
}
