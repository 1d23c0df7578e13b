//! Opening: look first, change later.
//!
//! A file that is not ours, a schema of the future, a wrong key, lost commits and damage are all found before anything
//! is written, so that a refused database is left as it was.

use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension};
use uuid::Uuid;

use super::chain::Chain;
use super::connect::Location;
use super::counter::{self, Count, Counter, Found};
use super::doorbells::Doorbells;
use super::error::{Fault, SqliteError};
use super::heads::Heads;
use super::inner::Inner;
use super::numbers::{int, uint};
use super::options::{OnLostCommits, OpenCheck, SqliteOptions};
use super::owner::Owner;
use super::readers::Readers;
use super::schema;
use super::secrets::Vault;
use super::writer::{State, Thread};

/// What a database says about itself.
struct Identity {
    database: [u8; 16],
    commits: u64,
    position: u64,
}

pub(super) fn open(options: SqliteOptions) -> Result<Inner, SqliteError> {
    let location = Location {
        directory: options.directory.clone(),
    };
    fs::create_dir_all(&location.directory).map_err(|source| SqliteError::Io {
        doing: "make the directory",
        path: location.directory.clone(),
        source,
    })?;
    let owner = Owner::take(&location)?;
    let chain = Chain::new(options.chain_key.clone());
    let counted = read_counter(&location)?;
    // Looked at now, because reading the database makes an empty log.
    let has_log = fs::metadata(location.log()).is_ok_and(|log| log.len() > 0);
    if has_database(&location)? {
        let reader = location.connect_to_read()?;
        inspect(&location, &reader, &chain, (counted, has_log), &options)?;
    } else {
        refuse_lost_database(&location, counted, &options)?;
    }

    let mut connection = location.connect_to_write(options.max_bytes)?;
    schema::migrate(&mut connection, &location)?;
    // A new database gets its identity before it has a log, so that losing the log cannot lose the identity.
    let identity = identify(&connection, &chain)?;
    connection
        .pragma_update(None, "journal_mode", "WAL")
        .map_err(Fault::from)?;
    let counter = Counter::open(
        &location.counter(),
        Count {
            database: identity.database,
            commits: identity.commits,
        },
    )
    .map_err(|source| counter_trouble(&location, source))?;
    let doorbells = Arc::new(Doorbells::default());
    let thread = Thread {
        connection,
        counter,
        _owner: owner,
        doorbells: Arc::clone(&doorbells),
        state: State {
            heads: Heads::new(chain.clone()),
            position: identity.position,
            commit: identity.commits,
            rings: Vec::new(),
            is_numbered: false,
            lost_records: false,
        },
        broken: None,
    };
    let writer = thread
        .start()
        .map_err(|error| SqliteError::Unavailable(format!("no thread can be started: {error}")))?;
    Ok(Inner {
        readers: Readers::new(location),
        chain,
        vault: Vault::new(options.secrets_key),
        retention: options.retention,
        doorbells,
        writer: Some(writer),
    })
}

pub(super) fn open_read_only(options: SqliteOptions) -> Result<Inner, SqliteError> {
    let location = Location {
        directory: options.directory,
    };
    let chain = Chain::new(options.chain_key);
    if !has_database(&location)? {
        return Err(SqliteError::Io {
            doing: "open",
            path: location.database(),
            source: ErrorKind::NotFound.into(),
        });
    }
    let reader = location.connect_to_read()?;
    check_version(&location, &reader)?;
    check_chain_key(&location, &reader, &chain)?;
    Ok(Inner {
        readers: Readers::new(location),
        chain,
        vault: Vault::new(options.secrets_key),
        retention: options.retention,
        doorbells: Arc::default(),
        writer: None,
    })
}

/// Tells whether a database of ours is there, from its first bytes, before SQLite touches the file.
fn has_database(location: &Location) -> Result<bool, SqliteError> {
    let path = location.database();
    let mut header = Vec::new();
    match File::open(&path).and_then(|file| file.take(100).read_to_end(&mut header)) {
        Ok(0) => return Ok(false),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(source) => {
            return Err(SqliteError::Io {
                doing: "read",
                path,
                source,
            });
        }
    }
    let what = if !header.starts_with(b"SQLite format 3\0") {
        "it is not a SQLite file"
    } else if header.get(68..72) != Some(&schema::APPLICATION_ID.to_be_bytes()) {
        "another program has made it"
    } else {
        return Ok(true);
    };
    Err(SqliteError::Foreign {
        path,
        what: what.to_owned(),
    })
}

fn read_counter(location: &Location) -> Result<Found, SqliteError> {
    counter::read(&location.counter()).map_err(|source| counter_trouble(location, source))
}

fn counter_trouble(location: &Location, source: std::io::Error) -> SqliteError {
    SqliteError::Io {
        doing: "use the counter",
        path: location.counter(),
        source,
    }
}

/// Looks at a database that was there before.
fn inspect(
    location: &Location,
    reader: &Connection,
    chain: &Chain,
    (counted, has_log): (Found, bool),
    options: &SqliteOptions,
) -> Result<(), SqliteError> {
    if options.check == OpenCheck::Structure {
        let findings = damage(reader);
        if !findings.is_empty() {
            return Err(SqliteError::Damaged {
                path: location.database(),
                findings,
            });
        }
    }
    if check_version(location, reader)? == 0 {
        return refuse_lost_database(location, counted, options);
    }
    check_chain_key(location, reader, chain)?;
    match read_identity(reader)? {
        Some(identity) => check_commits(location, &identity, (counted, has_log), options),
        None => refuse_lost_database(location, counted, options),
    }
}

/// Asks SQLite for what is wrong with the structure; nothing where all is well.
pub(super) fn damage(reader: &Connection) -> Vec<String> {
    let found = || -> rusqlite::Result<Vec<String>> {
        let mut statement = reader.prepare("PRAGMA quick_check(20)")?;
        let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
        lines.collect()
    };
    match found() {
        Ok(lines) if lines == ["ok"] => Vec::new(),
        Ok(lines) => lines,
        Err(error) => vec![error.to_string()],
    }
}

fn check_version(location: &Location, reader: &Connection) -> Result<u32, SqliteError> {
    let found = schema::version(reader)?;
    if found > schema::VERSION {
        return Err(SqliteError::NewerSchema {
            path: location.database(),
            found,
            known: schema::VERSION,
        });
    }
    Ok(found)
}

fn check_chain_key(
    location: &Location,
    reader: &Connection,
    chain: &Chain,
) -> Result<(), SqliteError> {
    let kept: Option<Option<Vec<u8>>> = reader
        .query_row("SELECT chain_key FROM state", [], |row| row.get(0))
        .optional()
        .map_err(Fault::from)?;
    let Some(kept) = kept else {
        return Ok(());
    };
    let what = match (kept, chain.key_check()) {
        (None, None) => return Ok(()),
        (Some(kept), Some(given)) if kept == given => return Ok(()),
        (Some(_), Some(_)) => "it is another one",
        (Some(_), None) => "none was given",
        (None, Some(_)) => "it was made without one",
    };
    Err(SqliteError::WrongChainKey {
        path: location.database(),
        what,
    })
}

/// Compares the newest commit with what the counter has seen.
fn check_commits(
    location: &Location,
    identity: &Identity,
    (counted, has_log): (Found, bool),
    options: &SqliteOptions,
) -> Result<(), SqliteError> {
    let found = identity.commits;
    let lost = |expected, what: &str| SqliteError::LostCommits {
        path: location.database(),
        found,
        expected,
        what: what.to_owned(),
    };
    let error = match counted {
        Found::Counter(count) if count.database != identity.database => lost(
            count.commits,
            "windlass.commits belongs to another database than windlass.db",
        ),
        Found::Counter(count) if count.commits > found && has_log => {
            lost(count.commits, "the log windlass.db-wal was cut or replaced")
        }
        Found::Counter(count) if count.commits > found => lost(
            count.commits,
            "the log windlass.db-wal is missing, or windlass.db is an old copy",
        ),
        Found::Counter(_) => return Ok(()),
        Found::Nothing if found == 0 => return Ok(()),
        Found::Nothing => lost(
            found,
            "windlass.commits is missing, so nobody knows how many",
        ),
        Found::Unreadable => lost(found, "windlass.commits was cut or changed"),
    };
    match options.on_lost_commits {
        OnLostCommits::Refuse => Err(error),
        OnLostCommits::Accept => Ok(()),
    }
}

/// A database without anything in it is new, unless a counter says that there was one.
fn refuse_lost_database(
    location: &Location,
    counted: Found,
    options: &SqliteOptions,
) -> Result<(), SqliteError> {
    match (counted, options.on_lost_commits) {
        (Found::Counter(count), OnLostCommits::Refuse) if count.commits > 0 => {
            Err(SqliteError::LostCommits {
                path: location.database(),
                found: 0,
                expected: count.commits,
                what: "windlass.db is missing or empty".to_owned(),
            })
        }
        _ => Ok(()),
    }
}

fn read_identity(connection: &Connection) -> Result<Option<Identity>, Fault> {
    let kept = connection
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
    let Some(kept) = kept else {
        return Ok(None);
    };
    let newest: Option<(u64, u64)> = connection
        .query_row(
            "SELECT commits, position FROM records ORDER BY position DESC LIMIT 1",
            [],
            |row| Ok((uint(row, 0)?, uint(row, 1)?)),
        )
        .optional()?;
    let (commits, position) = newest.unwrap_or_default();
    Ok(Some(Identity {
        database: kept.database,
        commits: kept.commits.max(commits),
        position: kept.position.max(position),
    }))
}

/// Reads who the database is, after giving a new one its identity.
fn identify(connection: &Connection, chain: &Chain) -> Result<Identity, Fault> {
    if let Some(identity) = read_identity(connection)? {
        return Ok(identity);
    }
    let database = *Uuid::now_v7().as_bytes();
    connection.execute(
        "INSERT INTO state (only, database_id, chain_key, commits, position) VALUES (1, ?1, ?2, ?3, ?3)",
        (database, chain.key_check(), int(0)),
    )?;
    Ok(Identity {
        database,
        commits: 0,
        position: 0,
    })
}
