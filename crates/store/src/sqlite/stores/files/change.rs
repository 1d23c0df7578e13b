//! Changes of a tree: each is checked completely before anything is modified.

use rusqlite::Connection;
use uuid::Uuid;
use windlass_core::session_file::{FileInfo, SessionFile};
use windlass_core::typed_id::SessionId;

use super::path_entry::{SqliteEntry, find};
use crate::files::content::Content;
use crate::files::path::split_last;
use crate::files::quota::{FileQuota, Usage};
use crate::files::rules;
use crate::files::view::View;
use crate::files::writer::WriteOrigin;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult};
use crate::sqlite::numbers::{first_value, int, uint};
use crate::sqlite::times::now;

/// A change of the files of one session in progress.
pub(super) struct FileChange<'a> {
    pub(super) db: &'a Connection,
    pub(super) session: SessionId,
    pub(super) quota: FileQuota,
}

impl FileChange<'_> {
    /// Writes a file and creates its parents.
    pub(super) fn write(
        &self,
        path: &str,
        content: &Content,
        writer: WriteOrigin,
    ) -> DbResult<SessionFile> {
        let (mut replaced, mut parents) = (None, Vec::new());
        match find(self.db, self.session, path)? {
            SqliteEntry::Directory(_) => return Err(rules::is_directory(path).into()),
            SqliteEntry::BelowFile { file } => return Err(rules::below_file(&file, path).into()),
            SqliteEntry::File(file) if file.is_readonly && writer == WriteOrigin::Caller => {
                return Err(rules::read_only(path).into());
            }
            SqliteEntry::File(file) => replaced = Some(file.size_bytes),
            SqliteEntry::Missing { parents: missing } => parents = missing,
        }
        self.check_quota(|after| {
            after.files += u64::from(replaced.is_none());
            after.directories += parents.len() as u64;
            after.bytes = after.bytes.saturating_sub(replaced.unwrap_or(0)) + content.len();
        })?;
        self.make_directories(&parents)?;
        // A replaced file retains its ID and its creation time.
        let sql = "INSERT INTO files \
                 (session, path, parent, id, is_readonly, encoding, size, created_at, updated_at, content) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?8, ?9) ON CONFLICT (session, path) DO UPDATE SET \
                 is_readonly = excluded.is_readonly, encoding = excluded.encoding, size = excluded.size, \
                 updated_at = excluded.updated_at, content = excluded.content";
        self.db.execute_cached(
            sql,
            (
                self.session.uuid().as_bytes(),
                path,
                parent_of(path),
                Uuid::now_v7().as_bytes(),
                writer.marks_read_only(),
                content.encoding().as_str(),
                int(content.len()),
                now(),
                content.bytes(),
            ),
        )?;
        Ok(self.written(path)?.into_file(Some(content)))
    }

    /// Creates a directory and its parents; an existing directory is no error.
    pub(super) fn create_directory(&self, path: &str) -> DbResult<FileInfo> {
        match find(self.db, self.session, path)? {
            SqliteEntry::File(_) => return Err(rules::is_file(path).into()),
            SqliteEntry::BelowFile { file } => return Err(rules::below_file(&file, path).into()),
            SqliteEntry::Directory(view) => return Ok(view.into_info()),
            SqliteEntry::Missing { mut parents } => {
                parents.insert(0, path.to_owned());
                self.check_quota(|after| after.directories += parents.len() as u64)?;
                self.make_directories(&parents)?;
            }
        }
        Ok(self.written(path)?.into_info())
    }

    /// Deletes a path. Returns false if it does not exist, or is a non-empty directory without `recursive`.
    pub(super) fn delete(&self, path: &str, recursive: bool) -> DbResult<bool> {
        if split_last(path).is_none() {
            return Err(rules::root_delete().into());
        }
        match find(self.db, self.session, path)? {
            SqliteEntry::Missing { .. } | SqliteEntry::BelowFile { .. } => return Ok(false),
            SqliteEntry::File(file) if file.is_readonly => {
                return Err(rules::read_only(path).into());
            }
            SqliteEntry::File(_) => {}
            SqliteEntry::Directory(_) => {
                if !recursive && self.below(path, "1")?.is_some() {
                    return Ok(false);
                }
                if let Some(inside) = self.below(path, "is_readonly")? {
                    return Err(rules::read_only_inside(path, &inside).into());
                }
            }
        }
        let (from, to) = inside_of(path);
        self.db.execute_cached(
            "DELETE FROM files WHERE session = ?1 AND (path = ?2 OR path > ?3 AND path < ?4)",
            (self.session.uuid().as_bytes(), path, from, to),
        )?;
        Ok(true)
    }

    /// Returns the first path inside a directory that fulfils a condition.
    fn below(&self, path: &str, kind: &str) -> DbResult<Option<String>> {
        let (from, to) = inside_of(path);
        let sql = format!(
            "SELECT path FROM files WHERE session = ?1 AND path > ?2 AND path < ?3 AND {kind} \
             ORDER BY path LIMIT 1"
        );
        let range = (self.session.uuid().into_bytes(), from, to);
        Ok(self.db.find_row(&sql, range, first_value)?)
    }

    fn written(&self, path: &str) -> DbResult<View> {
        let entry = find(self.db, self.session, path)?.view();
        entry.ok_or_else(|| DbError::unavailable(format!("{path} was written and is missing")))
    }

    /// Creates missing directories. The caller has checked that no segment of the paths is a file.
    fn make_directories(&self, paths: &[String]) -> DbResult<()> {
        let mut statement = self.db.prepare_cached(
            "INSERT INTO files \
             (session, path, parent, id, is_readonly, encoding, size, created_at, updated_at) \
             VALUES (?1, ?2, ?3, ?4, 0, 'text', 0, ?5, ?5)",
        )?;
        for path in paths {
            statement.execute((
                self.session.uuid().as_bytes(),
                path,
                parent_of(path),
                Uuid::now_v7().as_bytes(),
                now(),
            ))?;
        }
        Ok(())
    }

    /// Computes the usage only if there is a quota, because it reads every file of the session.
    fn check_quota(&self, change: impl FnOnce(&mut Usage)) -> DbResult<()> {
        if self.quota.max_files.is_none() && self.quota.max_total_bytes.is_none() {
            return Ok(());
        }
        let sql = "SELECT count(content), count(*) - count(content), coalesce(sum(size), 0) \
                 FROM files WHERE session = ?1";
        let before = self
            .db
            .get_row(sql, [self.session.uuid().as_bytes()], |row| {
                Ok(Usage {
                    files: uint(row, 0)?,
                    directories: uint(row, 1)?,
                    bytes: uint(row, 2)?,
                })
            })?;
        let mut after = before;
        change(&mut after);
        Ok(self.quota.check(self.session, before, after)?)
    }
}

fn parent_of(path: &str) -> &str {
    match split_last(path) {
        Some(("", _)) | None => "/",
        Some((parent, _)) => parent,
    }
}

/// Returns the bounds between which the paths inside a directory sort: `0` is the character after `/`.
fn inside_of(path: &str) -> (String, String) {
    (format!("{path}/"), format!("{path}0"))
}
