//! Finding a place in the tree of a session.

use std::ops::ControlFlow;

use chrono::DateTime;
use rusqlite::{Connection, OptionalExtension, Row};
use uuid::Uuid;
use windlass_core::typed_id::SessionId;

use super::super::error::Fault;
use super::super::numbers::uint;
use super::super::times::time;
use crate::files::content::{Content, Encoding};
use crate::files::path::split_last;
use crate::files::view::{Meta, View};

/// What is at a path.
pub(super) enum Spot {
    File(View),
    Directory(View),
    /// Nothing; these directories are missing on the way, the deepest first.
    Missing {
        parents: Vec<String>,
    },
    /// Nothing, and nothing can be: `file` is in the way.
    BelowFile {
        file: String,
    },
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

/// The root is there before anybody makes it, so it has no row, no id and no time of its own.
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

fn entry(
    connection: &Connection,
    session_id: SessionId,
    path: &str,
) -> Result<Option<View>, Fault> {
    if path == "/" {
        return Ok(Some(root(session_id)));
    }
    let mut statement =
        connection.prepare_cached(&format!("{VIEW} WHERE session = ?1 AND path = ?2"))?;
    let found = statement.query_row((session_id.uuid().as_bytes(), path), |row| {
        view(row, session_id)
    });
    Ok(found.optional()?)
}

/// Finds what is at a normalised path.
pub(super) fn find(
    connection: &Connection,
    session_id: SessionId,
    path: &str,
) -> Result<Spot, Fault> {
    match entry(connection, session_id, path)? {
        Some(view) if view.is_directory => return Ok(Spot::Directory(view)),
        Some(view) => return Ok(Spot::File(view)),
        None => {}
    }
    let mut parents = Vec::new();
    let mut place = path;
    while let Some((parent, _)) = split_last(place).filter(|(parent, _)| !parent.is_empty()) {
        match entry(connection, session_id, parent)? {
            Some(view) if view.is_directory => break,
            Some(view) => return Ok(Spot::BelowFile { file: view.path }),
            None => parents.push(parent.to_owned()),
        }
        place = parent;
    }
    Ok(Spot::Missing { parents })
}

/// Lists what is directly in a directory, in the order of names.
pub(super) fn children(
    connection: &Connection,
    session_id: SessionId,
    path: &str,
) -> Result<Vec<View>, Fault> {
    let mut statement = connection.prepare_cached(&format!(
        "{VIEW} WHERE session = ?1 AND parent = ?2 ORDER BY path"
    ))?;
    let views = statement.query_map((session_id.uuid().as_bytes(), path), |row| {
        view(row, session_id)
    })?;
    Ok(views.collect::<Result<_, _>>()?)
}

fn content(row: &Row<'_>, path: &str) -> Result<Content, Fault> {
    let encoding = row.get_ref(1)?.as_str().map_err(rusqlite::Error::from)?;
    let encoding = Encoding::parse(encoding, path)?;
    Ok(Content::stored(row.get(0)?, encoding))
}

/// Reads the content of a file; `None` when no file is there.
pub(super) fn content_of(
    connection: &Connection,
    session_id: SessionId,
    path: &str,
) -> Result<Option<Content>, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT content, encoding FROM files \
         WHERE session = ?1 AND path = ?2 AND content IS NOT NULL",
    )?;
    let mut rows = statement.query((session_id.uuid().as_bytes(), path))?;
    rows.next()?.map(|row| content(row, path)).transpose()
}

/// Shows the files of a session that are not too big, in the order of their paths, until somebody has enough.
pub(super) fn text_files(
    connection: &Connection,
    session_id: SessionId,
    max_bytes: i64,
    mut show: impl FnMut(&str, &Content) -> ControlFlow<()>,
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
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
