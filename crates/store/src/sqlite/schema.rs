//! The tables, and the way to them from every earlier version.

use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::connect::Location;
use super::error::{Fault, SqliteError};
use super::inspect::damage;
use super::rights;
use super::{open_streams, projection, spans, turn_runs};

/// Marks a file as ours; readable in its header before anything touches it.
pub(crate) const APPLICATION_ID: i32 = i32::from_be_bytes(*b"WNDL");

/// One step from a version to the next.
#[derive(Clone, Copy)]
struct Step {
    tables: &'static str,
    /// Fills the tables from what is there, in the same transaction.
    fill: fn(&Connection) -> Result<(), Fault>,
}

impl Step {
    const fn of(tables: &'static str) -> Self {
        Self {
            tables,
            fill: |_| Ok(()),
        }
    }
}

/// The steps from one version to the next. A step that has been released is never changed: later ones build on it.
const STEPS: &[Step] = &[
    Step::of(include_str!("schema/1.sql")),
    Step::of(include_str!("schema/2.sql")),
    Step::of(include_str!("schema/3.sql")),
    Step::of(include_str!("schema/4.sql")),
    Step::of(include_str!("schema/5.sql")),
    Step::of(include_str!("schema/6.sql")),
    Step {
        tables: include_str!("schema/7.sql"),
        fill: |connection| spans::with_stand_in(connection, turn_runs::fill),
    },
    Step {
        tables: include_str!("schema/8.sql"),
        fill: spans::fill,
    },
    Step {
        tables: include_str!("schema/9.sql"),
        fill: projection::fill_if_empty,
    },
    Step::of(include_str!("schema/10.sql")),
    Step {
        tables: include_str!("schema/11.sql"),
        fill: open_streams::fill,
    },
];

/// The first version that has projections.
pub(crate) const PROJECTIONS: u32 = 3;

/// The first version that has runs from outside.
pub(crate) const RUNS: u32 = 4;

/// The first version that says where each record of a stream is.
pub(crate) const PLACES: u32 = 5;

/// The first version in which forks share records.
pub(crate) const FORKS: u32 = 6;

/// The first version that has turns as runs.
pub(crate) const TURN_RUNS: u32 = 7;

/// The first version that says where the records of a stream are by spans.
pub(crate) const SPANS: u32 = 8;

/// The first version whose projections are written in batches.
pub(crate) const BATCHES: u32 = 9;

/// The first version whose rows of runs from outside may be older than their records.
pub(crate) const LATE_RUNS: u32 = 10;

/// The first version that lists streams with an open turn, and takes out removed ones step by step.
pub(crate) const OPEN_STREAMS: u32 = 11;

/// The newest version.
pub(crate) const VERSION: u32 = STEPS.len() as u32;

/// Reads the version; a file without tables has 0.
pub(crate) fn version(connection: &Connection) -> Result<u32, Fault> {
    let has_versions: bool = connection.query_row(
        "SELECT EXISTS (SELECT 1 FROM sqlite_schema WHERE name = 'schema_versions')",
        [],
        |row| row.get(0),
    )?;
    if !has_versions {
        return Ok(0);
    }
    let newest: Option<u32> = connection
        .query_row("SELECT max(version) FROM schema_versions", [], |row| {
            row.get(0)
        })
        .optional()?
        .flatten();
    Ok(newest.unwrap_or(0))
}

/// Brings the tables up to date. Each step is one transaction, and before the first one the file is copied.
pub(crate) fn migrate(connection: &mut Connection, location: &Location) -> Result<(), Fault> {
    migrate_by(connection, location, STEPS)
}

fn migrate_by(
    connection: &mut Connection,
    location: &Location,
    steps: &[Step],
) -> Result<(), Fault> {
    let found = version(connection)?;
    let known = steps.len() as u32;
    if found > known {
        let path = location.database();
        return Err(SqliteError::NewerSchema { path, found, known }.into());
    }
    if found == 0 {
        connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    } else if found < known {
        back_up(connection, location, found)?;
    }
    for (version, step) in (found + 1..).zip(&steps[found as usize..]) {
        let transaction = connection.transaction()?;
        transaction.execute_batch(step.tables)?;
        (step.fill)(&transaction)?;
        transaction.execute(
            "INSERT INTO schema_versions (version, applied_at) VALUES (?1, unixepoch())",
            [version],
        )?;
        transaction.commit()?;
    }
    Ok(())
}

/// Copies the database as it is. A copy that is there already was made for the same step, before it failed: it stays if it is
/// whole.
fn back_up(connection: &Connection, location: &Location, version: u32) -> Result<(), Fault> {
    let path = location
        .directory
        .join(format!("windlass.db.before-version-{}", version + 1));
    if path.exists() && is_whole(&path, version) {
        return Ok(());
    }
    let trouble = |source| SqliteError::Io {
        doing: "write",
        path: path.clone(),
        source,
    };
    // It has its name only once it is whole: whoever is killed here leaves something that nobody takes for the copy.
    let partial = path.with_extension(format!("before-version-{}.partial", version + 1));
    let name = partial
        .to_str()
        .ok_or_else(|| trouble(io::Error::other("the path is not UTF-8")))?;
    empty(&partial).map_err(trouble)?;
    connection.execute("VACUUM INTO ?1", [name])?;
    File::open(&partial)
        .and_then(|copy| copy.sync_all())
        .and_then(|()| fs::rename(&partial, &path))
        .and_then(|()| File::open(&location.directory)?.sync_all())
        .map_err(trouble)?;
    Ok(())
}

/// Makes an empty file that SQLite may write a database into.
fn empty(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new();
    file.write(true).create_new(true).mode(rights::OF_FILES);
    file.open(path).map(drop)
}

/// Tells whether a copy is a database of a version from its first page to its last.
fn is_whole(path: &Path, expected: u32) -> bool {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let Ok(copy) = Connection::open_with_flags(path, flags) else {
        return false;
    };
    version(&copy).is_ok_and(|found| found == expected) && damage(&copy).is_empty()
}

#[cfg(test)]
mod tests {
    use super::super::owner::Owner;
    use super::*;

    #[test]
    fn steps_run_in_order_once_and_after_a_backup() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location {
            directory: directory.path().to_owned(),
        };
        let first = STEPS[0];
        let steps = [
            first,
            Step::of("CREATE TABLE two (x INTEGER)"),
            Step::of("INSERT INTO two VALUES (3)"),
        ];
        let _owner = Owner::take(&location).unwrap();
        let mut connection = location.connect_to_write(None).unwrap();
        migrate_by(&mut connection, &location, &steps[..1]).unwrap();
        let backup = directory.path().join("windlass.db.before-version-2");
        assert!(!backup.exists(), "a new database needs no backup");

        migrate_by(&mut connection, &location, &steps).unwrap();
        migrate_by(&mut connection, &location, &steps).unwrap();
        let rows: u32 = connection
            .query_row("SELECT count(*) FROM two", [], |row| row.get(0))
            .unwrap();
        assert_eq!((version(&connection).unwrap(), rows), (3, 1));
        assert_eq!(version(&Connection::open(backup).unwrap()).unwrap(), 1);

        let error = migrate_by(&mut connection, &location, &steps[..2]).unwrap_err();
        let error = SqliteError::from(error).to_string();
        assert!(
            error.contains("version 3") && error.contains("newer Windlass"),
            "{error}"
        );
    }

    #[test]
    fn a_step_that_fails_changes_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let location = Location {
            directory: directory.path().to_owned(),
        };
        let _owner = Owner::take(&location).unwrap();
        let mut connection = location.connect_to_write(None).unwrap();
        let nonsense = Step::of("CREATE TABLE two (x INTEGER); CREATE nonsense");
        let steps = [STEPS[0], nonsense];
        assert!(migrate_by(&mut connection, &location, &steps).is_err());
        assert_eq!(version(&connection).unwrap(), 1);
        assert!(connection.prepare("SELECT * FROM two").is_err());
    }
}
