//! Looking up a path in the tree of a session.

use std::ops::ControlFlow;

use chrono::DateTime;
use rusqlite::{Connection, Row};
use uuid::Uuid;
use windlass_core::typed_id::SessionId;

use crate::files::content::{Content, Encoding};
use crate::files::path::split_last;
use crate::files::view::{Meta, View};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::uint;
use crate::sqlite::times::time;

/// The entry at a path.
pub(super) enum SqliteEntry {
    File(View),
    Directory(View),
    /// The path does not exist; these parent directories are missing, the deepest first.
    Missing {
        parents: Vec<String>,
    },
    /// The path cannot exist, because its ancestor `file` is a file.
    BelowFile {
        file: String,
    },
}

impl SqliteEntry {
    /// Returns the existing entry.
    pub(super) fn view(self) -> Option<View> {
        match self {
            Self::File(view) | Self::Directory(view) => Some(view),
            Self::Missing { .. } | Self::BelowFile { .. } => None,
        }
    }
}

const VIEW: &str =
    "SELECT path, id, is_readonly, size, created_at, updated_at, content IS NULL FROM files";

fn view(row: &Row<'_>, session_id: SessionId) -> rusqlite::Result<View> {
    Ok(View {
        session_id,
        path: row.get(0)?,
        meta: Meta {
            id: Uuid::from_bytes(row.get(1)?),
            created_at: time(row, 4)?,
            updated_at: time(row, 5)?,
        },
        is_directory: row.get(6)?,
        is_readonly: row.get(2)?,
        size_bytes: uint(row, 3)?,
    })
}

/// The root exists without being created, so it has no row, ID or time.
fn root(session_id: SessionId) -> View {
    View {
        session_id,
        path: "/".to_owned(),
        meta: Meta {
            id: Uuid::nil(),
            created_at: DateTime::UNIX_EPOCH,
            updated_at: DateTime::UNIX_EPOCH,
        },
        is_directory: true,
        is_readonly: false,
        size_bytes: 0,
    }
}

fn entry(db: &Connection, session_id: SessionId, path: &str) -> DbResult<Option<View>> {
    if path == "/" {
        return Ok(Some(root(session_id)));
    }
    Ok(db.find_row(
        &format!("{VIEW} WHERE session = ?1 AND path = ?2"),
        (session_id.uuid().as_bytes(), path),
        |row| view(row, session_id),
    )?)
}

/// Finds the entry at a normalised path.
pub(super) fn find(db: &Connection, session_id: SessionId, path: &str) -> DbResult<SqliteEntry> {
    match entry(db, session_id, path)? {
        Some(view) if view.is_directory => return Ok(SqliteEntry::Directory(view)),
        Some(view) => return Ok(SqliteEntry::File(view)),
        None => {}
    }
    let mut parents = Vec::new();
    let mut current = path;
    while let Some((parent, _)) = split_last(current).filter(|(parent, _)| !parent.is_empty()) {
        match entry(db, session_id, parent)? {
            Some(view) if view.is_directory => break,
            Some(view) => return Ok(SqliteEntry::BelowFile { file: view.path }),
            None => parents.push(parent.to_owned()),
        }
        current = parent;
    }
    Ok(SqliteEntry::Missing { parents })
}

/// Lists the direct children of a directory, in the order of names.
pub(super) fn children(db: &Connection, session_id: SessionId, path: &str) -> DbResult<Vec<View>> {
    Ok(db.list_rows(
        &format!("{VIEW} WHERE session = ?1 AND parent = ?2 ORDER BY path"),
        (session_id.uuid().as_bytes(), path),
        |row| view(row, session_id),
    )?)
}

fn content(row: &Row<'_>, path: &str) -> DbResult<Content> {
    let encoding = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let encoding = Encoding::parse(encoding, path)?;
    Ok(Content::new(row.get(0)?, encoding))
}

/// Reads the content of a file; `None` if there is no file.
pub(super) fn content_of(
    db: &Connection,
    session_id: SessionId,
    path: &str,
) -> DbResult<Option<Content>> {
    let mut statement = db.prepare_cached(
        "SELECT content, encoding FROM files \
         WHERE session = ?1 AND path = ?2 AND content IS NOT NULL",
    )?;
    let mut rows = statement.query((session_id.uuid().as_bytes(), path))?;
    rows.next()?.map(|row| content(row, path)).transpose()
}

/// Visits the files of a session below the size limit, in the order of their paths, until the visitor breaks.
pub(super) fn text_files(
    db: &Connection,
    session_id: SessionId,
    max_bytes: i64,
    mut show: impl FnMut(&str, &Content) -> ControlFlow<()>,
) -> DbResult<()> {
    let mut statement = db.prepare_cached(
        "SELECT content, encoding, path FROM files \
         WHERE session = ?1 AND content IS NOT NULL AND size <= ?2 ORDER BY path",
    )?;
    let mut rows = statement.query((session_id.uuid().as_bytes(), max_bytes))?;
    while let Some(row) = rows.next()? {
        let path: String = row.get(2)?;
        if show(&path, &content(row, &path)?).is_break() {
            break;
        }
    }
    Ok(())
}
