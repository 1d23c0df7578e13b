//! Opening: check first, change later.
//!
//! Files of other programs, newer schemas, wrong keys, lost commits and damage are all detected before anything is written. So a rejected database
//! stays unchanged.

pub(super) mod commit_counter;
pub(super) mod connect;
pub(super) mod inspect;
pub(super) mod owner;
pub(super) mod page_check;
pub(super) mod rights;
pub(super) mod schema;

use std::fs;
use std::io::{self, ErrorKind};
use std::sync::Arc;

use rusqlite::Connection;
use uuid::Uuid;

use super::error::{DbError, DbResult, SqliteError, is_damage};
use super::inner::Inner;
use super::journal::heads::Heads;
use super::options::{OpenCheck, SqliteOptions};
use super::queries::row_writer::RowWriter;
use super::queries::tail::{NewerRows, folded};
use super::read::readers::Readers;
use super::retention::deferred_delete;
use super::stores::secrets::SecretCipher;
use super::write::commit_thread;
use super::write::commit_times::CommitTimes;
use super::write::committer::{Committer, State};
use super::write::wal::Wal;
use crate::durable::chain::Chain;
use commit_counter::{CommitCount, Counter, CounterFile};
use connect::{Freshness, Location};
use inspect::{
    Evidence, Identity, check_chain_key, check_version, has_database, inspect, read_identity,
    refuse_lost_database,
};
use owner::DirectoryLock;
use page_check::{PageCheck, PageCheckJob};
use windlass_core::lock::Shared;

pub(super) fn open(options: SqliteOptions) -> Result<Inner, SqliteError> {
    let location = Location::new(&options.directory);
    rights::create_directory(&location.directory)
        .map_err(SqliteError::io("create the directory", &location.directory))?;
    let owner = DirectoryLock::take(&location)?;
    let chain = Chain::new(options.chain_key.clone());
    if has_database(&location)? {
        location.roll_back_first_open()?;
    }
    let evidence = Evidence {
        counted: read_counter(&location)?,
        // Read now, because reading the database creates an empty log.
        log_bytes: fs::metadata(location.log()).map_or(0, |log| log.len()),
    };
    // The reader stays open, because the first connection to open a database reads its whole log.
    let reader = if has_database(&location)? {
        Some(location.connect_to_look()?)
    } else {
        None
    };
    match &reader {
        Some((reader, _)) => inspect(&location, reader, &chain, evidence, &options)?,
        None => refuse_lost_database(&location, evidence.counted, &options)?,
    }

    rights::make_private(&location.directory);
    let mut db = location.connect_to_write(options.max_bytes)?;
    schema::migrate(&mut db, &location)?;
    // A new database gets its identity before it has a log, so that a lost log cannot lose the identity.
    let identity = identify(&db, &chain)?;
    db.pragma_update(None, "journal_mode", "WAL")
        .map_err(DbError::from)?;
    let count = CommitCount {
        database: identity.database,
        commits: identity.commits,
    };
    let counter_error = SqliteError::io("use the counter", &location.counter());
    let counter = Counter::open(&location.counter(), count).map_err(counter_error)?;
    let is_checked = options.check == OpenCheck::Glance && reader.is_some();
    let mut inner = new_inner(location.clone(), chain, options, reader, identity.database);
    let row_writer = Arc::new(RowWriter::default());
    // Rows that a killed process left unwritten are written soon.
    row_writer.note(identity.position.saturating_sub(folded(&db)?));
    let broken = Arc::default();
    let page_check = PageCheck::begin(PageCheckJob {
        location: location.clone(),
        is_checked,
        broken: Arc::clone(&broken),
    })
    .map_err(no_thread)?;
    inner.check = Some(page_check.check());
    let is_removing = deferred_delete::is_any_left(&db)?;
    let committer = Committer {
        wal: Wal::new(location.clone()),
        db,
        counter,
        _owner: owner,
        notifier: Arc::clone(&inner.notifier),
        state: State {
            heads: Heads::new(inner.chain.clone()),
            position: identity.position,
            commit: identity.commits,
            wakeups: Vec::new(),
            is_numbered: false,
            lost_records: false,
            is_removing,
            new_records: 0,
        },
        commits: Arc::default(),
        broken,
        page_check,
        tail: Arc::clone(&inner.tail),
        row_writer: Arc::clone(&row_writer),
        commit_times: CommitTimes::default(),
    };
    let writer = commit_thread::start(committer).map_err(no_thread)?;
    let rows = row_writer.begin(location, Arc::clone(&inner.tail), writer.downgrade());
    rows.map_err(no_thread)?;
    inner.writer = Some(writer);
    Ok(inner)
}

/// Builds the shared state of a store that is opened for reading only.
fn new_inner(
    location: Location,
    chain: Chain,
    options: SqliteOptions,
    reader: Option<(Connection, Freshness)>,
    database: [u8; 16],
) -> Inner {
    Inner {
        readers: Readers::new(location, reader),
        chain,
        cipher: SecretCipher::new(options.secrets_key),
        retention: options.retention,
        expendable_records: options.expendable_records,
        notifier: Arc::default(),
        windows: Shared::default(),
        tail: Arc::new(NewerRows::new(database)),
        writer: None,
        check: None,
    }
}
fn no_thread(error: io::Error) -> SqliteError {
    SqliteError::Unavailable(format!("no thread can be started: {error}"))
}

pub(super) fn open_read_only(options: SqliteOptions) -> Result<Inner, SqliteError> {
    let location = Location::new(&options.directory);
    let chain = Chain::new(options.chain_key.clone());
    if !has_database(&location)? {
        let missing = SqliteError::io("open", &location.database());
        return Err(missing(ErrorKind::NotFound.into()));
    }
    let (reader, sees) = location.connect_to_look().map_err(|error| match error {
        DbError::Sql(error) if is_damage(&error) => SqliteError::Unreadable {
            path: location.database(),
            what: error.to_string(),
        },
        error => error.into(),
    })?;
    // If damage hides the version, the readable part can still be exported.
    match check_version(&location, &reader) {
        Ok(0) => return Err(location.first_open_interrupted()),
        Err(DbError::Sql(error)) if is_damage(&error) => {}
        checked => drop(checked?),
    }
    match check_chain_key(&location, &reader, &chain) {
        Err(DbError::Sql(error)) if is_damage(&error) => {}
        checked => checked?,
    }
    let database = match read_identity(&reader) {
        Ok(Some(identity)) => identity.database,
        Ok(None) => return Err(location.first_open_interrupted()),
        Err(_) => [0; 16],
    };
    Ok(new_inner(
        location,
        chain,
        options,
        Some((reader, sees)),
        database,
    ))
}

fn read_counter(location: &Location) -> Result<CounterFile, SqliteError> {
    let path = location.counter();
    commit_counter::read(&path).map_err(SqliteError::io("use the counter", &path))
}

/// Reads the identity of the database; a new one gets one first.
fn identify(db: &Connection, chain: &Chain) -> DbResult<Identity> {
    if let Some(identity) = read_identity(db)? {
        return Ok(identity);
    }
    let database = *Uuid::now_v7().as_bytes();
    db.execute(
        "INSERT INTO state (only, database_id, chain_key, commits, position) VALUES (1, ?1, ?2, ?3, ?3)",
        (database, chain.key_check(), 0),
    )?;
    Ok(Identity {
        database,
        commits: 0,
        position: 0,
    })
}
