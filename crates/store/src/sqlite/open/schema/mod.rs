//! The tables, and their migration from earlier versions.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::connect::Location;
use super::inspect::damage;
use super::rights;
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::numbers::first_value;

/// Identifies a database of Windlass, in the header of the file.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"WNDL");

/// One step from a version to the next: its statements, in one transaction.
type MigrationStep = &'static str;

/// The steps from one version to the next. The first may change until the first release. A released step never changes, because later ones build on
/// it.
pub(crate) const STEPS: &[MigrationStep] = &[include_str!("1.sql"), include_str!("2.sql")];

/// The newest version.
pub(crate) const VERSION: u32 = STEPS.len() as u32;

/// Reads the version; a file without tables has 0.
pub(crate) fn version(db: &Connection) -> DbResult<u32> {
    let has_versions: bool = db.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'schema_versions')",
        [],
        first_value,
    )?;
    if !has_versions {
        return Ok(0);
    }
    let newest: Option<u32> = db
        .query_row("SELECT max(version) FROM schema_versions", [], |row| {
            row.get(0)
        })
        .optional()?
        .flatten();
    Ok(newest.unwrap_or(0))
}

/// Returns whether the first version is the released one: earlier ones had the same number.
pub(crate) fn is_known(db: &Connection) -> DbResult<bool> {
    let query = "SELECT 1 FROM pragma_table_info('state') WHERE name = 'folded'";
    Ok(db.prepare(query)?.exists([])?)
}

/// Migrates the tables. Each step is one transaction, and the file is copied before the first one.
pub(crate) fn migrate(db: &mut Connection, location: &Location) -> DbResult<()> {
    migrate_by(db, location, STEPS)
}

fn migrate_by(db: &mut Connection, location: &Location, steps: &[MigrationStep]) -> DbResult<()> {
    let found = version(db)?;
    let known = steps.len() as u32;
    if found > known {
        let path = location.database();
        return Err(SqliteError::NewerSchema { path, found, known }.into());
    }
    if found > 0 && found < known {
        back_up(db, location, found)?;
    }
    for (version, step) in (found + 1..).zip(&steps[found as usize..]) {
        let transaction = db.transaction()?;
        transaction.execute_batch(step)?;
        transaction.execute(
            "INSERT INTO schema_versions (version, applied_at) VALUES (?1, unixepoch())",
            [version],
        )?;
        transaction.commit()?;
    }
    Ok(())
}

/// Copies the unchanged database. An existing copy is from an earlier attempt at the same step; it stays if it is complete.
fn back_up(db: &Connection, location: &Location, version: u32) -> DbResult<()> {
    let path = location
        .directory
        .join(format!("windlass.db.before-version-{}", version + 1));
    if path.exists() && is_whole(&path, version) {
        return Ok(());
    }
    let write_error = SqliteError::io("write", &path);
    // The copy gets its final name once it is complete, so a killed process leaves no partial file under that name.
    let partial = path.with_extension(format!("before-version-{}.partial", version + 1));
    let name = partial
        .to_str()
        .ok_or_else(|| io::Error::other("the path is not UTF-8"))
        .map_err(write_error.clone())?;
    create_empty(&partial).map_err(write_error.clone())?;
    db.execute("VACUUM INTO ?1", [name])?;
    File::open(&partial)
        .and_then(|copy| copy.sync_all())
        .and_then(|()| fs::rename(&partial, &path))
        .and_then(|()| File::open(&location.directory)?.sync_all())
        .map_err(write_error)?;
    Ok(())
}

/// Creates an empty file for SQLite to write a database into.
fn create_empty(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new();
    file.write(true).create_new(true).mode(rights::OF_FILES);
    file.open(path).map(drop)
}

/// Returns whether a copy is an undamaged database of a version.
fn is_whole(path: &Path, expected: u32) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let Ok(copy) = Connection::open_with_flags(path, flags) else {
        return false;
    };
    version(&copy).is_ok_and(|found| found == expected) && damage(&copy).is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::open::owner::DirectoryLock;

    #[test]
    fn steps_run_in_order_once_and_after_a_backup() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let first = STEPS[0];
        let steps = [
            first,
            "CREATE TABLE two (x INTEGER)",
            "INSERT INTO two VALUES (3)",
        ];
        let _owner = DirectoryLock::take(&location).unwrap();
        let mut db = location.connect_to_write(None).unwrap();
        migrate_by(&mut db, &location, &steps[..1]).unwrap();
        let backup = directory.path().join("windlass.db.before-version-2");
        assert!(!backup.exists(), "a new database needs no backup");

        migrate_by(&mut db, &location, &steps).unwrap();
        migrate_by(&mut db, &location, &steps).unwrap();
        let rows: u32 = db
            .query_row("SELECT count(*) FROM two", [], |row| row.get(0))
            .unwrap();
        assert_eq!((version(&db).unwrap(), rows), (3, 1));
        assert_eq!(version(&Connection::open(backup).unwrap()).unwrap(), 1);

        let error = migrate_by(&mut db, &location, &steps[..2]).unwrap_err();
        let error = SqliteError::from(error).to_string();
        assert!(
            error.contains("version 3") && error.contains("newer Windlass"),
            "{error}"
        );
    }

    #[test]
    fn incomplete_backup_before_a_step_is_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let _owner = DirectoryLock::take(&location).unwrap();
        let mut db = location.connect_to_write(None).unwrap();
        migrate_by(&mut db, &location, &STEPS[..1]).unwrap();
        let whole = fs::read(location.database()).unwrap();
        let backup = directory.path().join("windlass.db.before-version-2");
        fs::write(&backup, &whole[..whole.len() / 2]).unwrap();
        let steps = [STEPS[0], "CREATE TABLE two (x INTEGER)"];
        migrate_by(&mut db, &location, &steps).unwrap();
        assert!(is_whole(&backup, 1));
    }

    #[test]
    fn failing_step_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let _owner = DirectoryLock::take(&location).unwrap();
        let mut db = location.connect_to_write(None).unwrap();
        let nonsense = "CREATE TABLE two (x INTEGER); CREATE nonsense";
        let steps = [STEPS[0], nonsense];
        assert!(migrate_by(&mut db, &location, &steps).is_err());
        assert_eq!(version(&db).unwrap(), 1);
        assert!(db.prepare("SELECT * FROM two").is_err());
    }

    #[test]
    fn spending_of_turns_is_migrated() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location::new(directory.path());
        let _owner = DirectoryLock::take(&location).unwrap();
        let mut db = location.connect_to_write(None).unwrap();
        migrate_by(&mut db, &location, &STEPS[..1]).unwrap();
        const DAY: i64 = 86_400_000_000;
        for (position, agent, ended_at, cost) in [
            (1, "", Some(3 * DAY), Some(0.1)),
            (2, "", Some(3 * DAY + 5), None),
            (3, "bot", Some(4 * DAY - 1), Some(0.000_000_2)),
            (4, "", None, None),
        ] {
            let tokens = ended_at.map(|_| 10);
            db
                .execute(
                    "INSERT INTO turns (place, stream, turn, first, seq, agent, intent, status, steps, ended_at, model, \
                     provider, input_tokens, output_tokens, cost, view) \
                     VALUES (?1, 1, x'00', 1, 1, ?2, '', 0, 0, ?3, 'm', 'p', ?4, ?4, ?5, '')",
                    (position, agent, ended_at, tokens, cost),
                )
                .unwrap();
        }
        migrate(&mut db, &location).unwrap();
        let mut statement = db
            .prepare("SELECT day, owner, tokens, micro_usd FROM spending ORDER BY owner")
            .unwrap();
        let rows = statement.query_map([], |row| {
            Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))
        });
        let rows: Vec<(i64, String, i64, i64)> = rows.unwrap().map(Result::unwrap).collect();
        let expected = [(3, "", 40, 100_000), (3, "bot", 20, 1)];
        let expected =
            expected.map(|(day, owner, tokens, usd)| (day, owner.to_owned(), tokens, usd));
        assert_eq!(rows, expected);
    }
}
