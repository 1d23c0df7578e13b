//! Looking at a database before anything is written to it.

use rusqlite::{Connection, OptionalExtension};

use super::commit_counter::CounterFile;
use super::connect::{DatabaseFile, Location};
use super::schema;
use crate::durable::chain::Chain;
use crate::sqlite::error::{DbResult, SqliteError};
use crate::sqlite::numbers::{first_number, first_value, uint};
use crate::sqlite::options::{OnLostCommits, OpenCheck, SqliteOptions};

/// The identity that the database stores about itself.
pub(crate) struct Identity {
    pub(crate) database: [u8; 16],
    pub(crate) commits: u64,
    pub(crate) position: u64,
}

/// Returns whether a Windlass database exists; a database of another program is an error.
pub(crate) fn has_database(location: &Location) -> Result<bool, SqliteError> {
    match location.look()? {
        DatabaseFile::Nothing => Ok(false),
        DatabaseFile::Ours => Ok(true),
        DatabaseFile::Foreign(what) => Err(SqliteError::Foreign {
            path: location.database(),
            what: what.to_owned(),
        }),
    }
}

/// Facts about the other files that help to explain lost commits.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Evidence {
    pub(crate) counted: CounterFile,
    /// How long the log is.
    pub(crate) log_bytes: u64,
}

impl Evidence {
    /// Returns whether a log exists and ends at a page boundary.
    fn has_whole_log(&self, reader: &Connection) -> DbResult<bool> {
        const HEADER: u64 = 32;
        const HEADER_OF_PAGE: u64 = 24;
        let page = reader.pragma_query_value(None, "page_size", first_number)?;
        let pages = self.log_bytes.checked_sub(HEADER);
        Ok(pages.is_some_and(|bytes| bytes > 0 && bytes % (HEADER_OF_PAGE + page) == 0))
    }
}

/// Checks an existing database.
pub(crate) fn inspect(
    location: &Location,
    reader: &Connection,
    chain: &Chain,
    evidence: Evidence,
    options: &SqliteOptions,
) -> Result<(), SqliteError> {
    let findings = match options.check {
        OpenCheck::Glance => glance(reader),
        OpenCheck::Structure => damage(reader),
        OpenCheck::Nothing => Vec::new(),
    };
    if !findings.is_empty() {
        return Err(SqliteError::Damaged {
            path: location.database(),
            findings,
        });
    }
    if check_version(location, reader)? == 0 {
        return refuse_lost_database(location, evidence.counted, options);
    }
    check_chain_key(location, reader, chain)?;
    match read_identity(reader)? {
        Some(identity) => check_commits(location, reader, &identity, evidence, options),
        None => refuse_lost_database(location, evidence.counted, options),
    }
}

/// Checks the size of the file and both ends of each table. If one is wrong, a full check follows, so that the damage can be named.
fn glance(reader: &Connection) -> Vec<String> {
    let look = || -> rusqlite::Result<bool> {
        // Opened this way if it is shorter than its header claims.
        let is_cut: bool = reader.pragma_query_value(None, "writable_schema", first_value)?;
        let mut tables = reader.prepare(
            "SELECT name, wr FROM pragma_table_list WHERE schema = 'main' AND type = 'table'",
        )?;
        let tables = tables.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
        for table in tables {
            let (name, is_without_rowid): (String, bool) = table?;
            let ends: &[&str] = if is_without_rowid {
                &[""]
            } else {
                &["ORDER BY rowid", "ORDER BY rowid DESC"]
            };
            for end in ends {
                let query = format!("SELECT * FROM main.\"{name}\" {end} LIMIT 1");
                reader.prepare(&query)?.query([])?.next()?;
            }
        }
        Ok(!is_cut)
    };
    match look() {
        Ok(true) => Vec::new(),
        Ok(false) => named(damage(reader), "it is shorter than it says"),
        Err(error) => named(damage(reader), &error.to_string()),
    }
}

/// Adds a finding of our own if the full check found none.
fn named(findings: Vec<String>, what: &str) -> Vec<String> {
    if findings.is_empty() {
        vec![what.to_owned()]
    } else {
        findings
    }
}

/// Runs SQLite's integrity check; returns an empty list for a sound database.
pub(crate) fn damage(reader: &Connection) -> Vec<String> {
    let found = || -> rusqlite::Result<Vec<String>> {
        let mut statement = reader.prepare("PRAGMA quick_check(20)")?;
        let lines = statement.query_map([], first_value::<String>)?;
        lines.collect()
    };
    match found() {
        Ok(lines) if lines == ["ok"] => Vec::new(),
        Ok(lines) => lines,
        Err(error) => vec![error.to_string()],
    }
}

pub(crate) fn check_version(location: &Location, reader: &Connection) -> DbResult<u32> {
    let found = schema::version(reader)?;
    if found > schema::VERSION {
        return Err(SqliteError::NewerSchema {
            path: location.database(),
            found,
            known: schema::VERSION,
        }
        .into());
    }
    if found > 0 && !schema::is_known(reader)? {
        let path = location.database();
        return Err(SqliteError::EarlierSchema { path }.into());
    }
    Ok(found)
}

pub(crate) fn check_chain_key(
    location: &Location,
    reader: &Connection,
    chain: &Chain,
) -> DbResult<()> {
    let stored: Option<Option<Vec<u8>>> = reader
        .query_row("SELECT chain_key FROM state", [], first_value)
        .optional()?;
    let Some(stored) = stored else {
        return Ok(());
    };
    let what = match (stored, chain.key_check()) {
        (None, None) => return Ok(()),
        (Some(stored), Some(given)) if stored == given => return Ok(()),
        (Some(_), Some(_)) => "it is another one",
        (Some(_), None) => "none was given",
        (None, Some(_)) => "it was made without one",
    };
    let path = location.database();
    Err(SqliteError::WrongChainKey { path, what }.into())
}

/// Compares the newest commit with the counter.
fn check_commits(
    location: &Location,
    reader: &Connection,
    identity: &Identity,
    evidence: Evidence,
    options: &SqliteOptions,
) -> Result<(), SqliteError> {
    let found = identity.commits;
    let (count, is_copy) = match evidence.counted {
        CounterFile::Counter(count) => (count, false),
        CounterFile::Copy(count) => (count, true),
        // A backup of the database alone has no counter.
        CounterFile::Missing => return Ok(()),
        CounterFile::Blank if found == 0 => return Ok(()),
        CounterFile::Blank | CounterFile::Unreadable => {
            let what = "windlass.commits was truncated or changed";
            return refuse_or_accept(location, (found, found), what, options);
        }
    };
    let expected = count.commits;
    let what = if count.database != identity.database {
        "windlass.commits belongs to another database than windlass.db"
    } else if expected <= found {
        return Ok(());
    } else if is_copy && evidence.has_whole_log(reader)? {
        tracing::warn!(
            directory = %location.directory.display(), found, expected,
            "this copy was made during writes: it ends before the newest commit in its counter"
        );
        return Ok(());
    } else if evidence.log_bytes > 0 {
        "the log windlass.db-wal was truncated or replaced"
    } else {
        "the log windlass.db-wal is missing, or windlass.db is an old copy"
    };
    refuse_or_accept(location, (found, expected), what, options)
}

/// An empty database is new, unless a counter shows that there was one.
pub(crate) fn refuse_lost_database(
    location: &Location,
    counted: CounterFile,
    options: &SqliteOptions,
) -> Result<(), SqliteError> {
    match counted {
        CounterFile::Counter(count) | CounterFile::Copy(count) if count.commits > 0 => {
            let what = "windlass.db is missing or empty";
            refuse_or_accept(location, (0, count.commits), what, options)
        }
        _ => Ok(()),
    }
}

fn refuse_or_accept(
    location: &Location,
    (found, expected): (u64, u64),
    what: &str,
    options: &SqliteOptions,
) -> Result<(), SqliteError> {
    let path = location.database();
    match options.on_lost_commits {
        OnLostCommits::Refuse => Err(SqliteError::LostCommits {
            path,
            found,
            expected,
            what: what.to_owned(),
        }),
        OnLostCommits::Accept => {
            let path = path.display();
            tracing::warn!(%path, found, expected, what, "the loss of commits was accepted");
            Ok(())
        }
    }
}

pub(crate) fn read_identity(db: &Connection) -> DbResult<Option<Identity>> {
    let stored = db
        .query_row(
            "SELECT database_id, commits, position FROM state",
            [],
            |row| {
                Ok(Identity {
                    database: row.get(0)?,
                    commits: uint(row, 1)?,
                    position: uint(row, 2)?,
                })
            },
        )
        .optional()?;
    let Some(stored) = stored else {
        return Ok(None);
    };
    let newest: Option<(u64, u64)> = db
        .query_row(
            "SELECT commits, position FROM records ORDER BY position DESC LIMIT 1",
            [],
            |row| Ok((uint(row, 0)?, uint(row, 1)?)),
        )
        .optional()?;
    let (commits, position) = newest.unwrap_or_default();
    Ok(Some(Identity {
        database: stored.database,
        commits: stored.commits.max(commits),
        position: stored.position.max(position),
    }))
}
