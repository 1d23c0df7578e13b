//! Conversion between rows of the tables and of the read model.

use chrono::{DateTime, Utc};
use rusqlite::types::Type;
use rusqlite::{Connection, Row};
use serde::Serialize;
use serde::de::DeserializeOwned;
use uuid::Uuid;
use windlass_core::items::{TurnView, WaitKind};
use windlass_core::runs::{OutcomeStatus, RunStatus, RunSummary};
use windlass_core::thread_record::ThreadRecord;
use windlass_core::typed_id::{ExecId, TurnId};

use crate::journal::StreamKey;
use crate::queries::usage::TurnUsage;
use crate::queries::{RecordedThread, ThreadRow, ThreadState, TurnRow, UsageSum, WaitRow};
use crate::runs::{PREFIX, StoredRun};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::numbers::{int, uint};
use crate::sqlite::times::time;

const STATES: [ThreadState; 3] = [
    ThreadState::Idle,
    ThreadState::Running,
    ThreadState::Waiting,
];
const WAITS: [WaitKind; 3] = [
    WaitKind::Approval,
    WaitKind::UserInput,
    WaitKind::ExternalTool,
];

/// The kind of a thread; threads that are listed together have the same kind.
pub(super) const CURRENT: i64 = 0;
pub(super) const ARCHIVED: i64 = 1;
pub(super) const UNRECORDED: i64 = 2;

pub(super) fn kind(thread: &ThreadRow) -> i64 {
    match (&thread.record, thread.is_archived()) {
        (None, _) => UNRECORDED,
        (Some(_), true) => ARCHIVED,
        (Some(_), false) => CURRENT,
    }
}

/// Encodes a value as its index in the list of all values.
pub(super) fn code<T: PartialEq>(all: &[T], value: &T) -> i64 {
    let index = all.iter().position(|known| known == value);
    index.map_or(-1, |index| index as i64)
}

fn of_code<T: Copy>(all: &[T], row: &Row<'_>, column: usize) -> rusqlite::Result<T> {
    let code = usize::try_from(uint(row, column)?).unwrap_or(usize::MAX);
    let unknown = || {
        let name = "an unknown code".to_owned();
        rusqlite::Error::InvalidColumnType(column, name, Type::Integer)
    };
    all.get(code).copied().ok_or_else(unknown)
}

fn uint_or_none(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<u64>> {
    match row.get_ref(column)?.data_type() {
        Type::Null => Ok(None),
        _ => uint(row, column).map(Some),
    }
}

fn micros(at: DateTime<Utc>) -> i64 {
    at.timestamp_micros()
}

fn json<T: Serialize>(value: &T) -> DbResult<String> {
    serde_json::to_string(value)
        .map_err(|error| DbError::unavailable(format!("a row has no JSON: {error}")))
}

fn parse<T: DeserializeOwned>(what: &str, row: &Row<'_>, column: usize) -> DbResult<T> {
    let text = row
        .get_ref(column)?
        .as_str()
        .map_err(rusqlite::Error::from)?;
    serde_json::from_str(text).map_err(|error| {
        let (what, why) = (what.to_owned(), error.to_string());
        SqliteError::DamagedRow { what, why }.into()
    })
}

fn parse_or_none<T: DeserializeOwned>(
    what: &str,
    row: &Row<'_>,
    column: usize,
) -> DbResult<Option<T>> {
    match row.get_ref(column)?.data_type() {
        Type::Null => Ok(None),
        _ => parse(what, row, column).map(Some),
    }
}

/// Returns whether the fault is a row that cannot be read. Such a row is skipped.
pub(super) fn is_damaged(error: &DbError) -> bool {
    use rusqlite::Error::{FromSqlConversionFailure, IntegralValueOutOfRange, InvalidColumnType};
    match error {
        DbError::Store(SqliteError::DamagedRow { .. }) => true,
        DbError::Sql(error) => matches!(
            error,
            FromSqlConversionFailure(..) | IntegralValueOutOfRange(..) | InvalidColumnType(..)
        ),
        _ => false,
    }
}

/// The columns that [`thread`] reads.
pub(super) const THREAD: &str = "threads.stream, streams.key, threads.seq, at, created_at, updated_at, state, latest, \
     preview, turns, items, usage, origin, thread_records.seq, record";

/// The tables of these columns, without rows of removed threads.
pub(super) const THREADS: &str = "threads CROSS JOIN streams ON streams.id = threads.stream \
     LEFT JOIN thread_records ON thread_records.stream = threads.stream";

pub(super) fn thread(row: &Row<'_>) -> DbResult<ThreadRow> {
    let key = StreamKey::new(row.get::<_, String>(1)?);
    let what = format!("the row of thread {key}");
    let record: Option<ThreadRecord> = parse_or_none(&what, row, 14)?;
    let record_seq = uint_or_none(row, 13)?;
    Ok(ThreadRow {
        seq: uint(row, 2)?,
        at: time(row, 3)?,
        created_at: time(row, 4)?,
        updated_at: time(row, 5)?,
        state: of_code(&STATES, row, 6)?,
        latest: parse_or_none(&what, row, 7)?,
        preview: row.get(8)?,
        turns: uint(row, 9)?,
        items: uint(row, 10)?,
        usage: parse_or_none(&what, row, 11)?,
        origin: parse_or_none(&what, row, 12)?,
        record: record
            .zip(record_seq)
            .map(|(record, seq)| RecordedThread { seq, record }.into()),
        stream: key,
    })
}

/// Finds the row of a thread.
pub(super) fn find_thread(db: &Connection, stream: u64) -> DbResult<Option<ThreadRow>> {
    let query = format!("SELECT {THREAD} FROM {THREADS} WHERE threads.stream = ?1");
    let mut statement = db.prepare_cached(&query)?;
    let mut rows = statement.query([int(stream)])?;
    rows.next()?.map(thread).transpose()
}

pub(super) fn put_thread(db: &Connection, stream: u64, thread: &ThreadRow) -> DbResult<()> {
    let latest = thread.latest.as_ref().map(json).transpose()?;
    let usage = thread.usage.as_ref().map(json).transpose()?;
    let origin = thread.origin.as_ref().map(json).transpose()?;
    let sql = "INSERT INTO threads (stream, seq, at, created_at, updated_at, kind, state, agent, latest, preview, turns, \
             items, usage, origin) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14) \
             ON CONFLICT (stream) DO UPDATE SET seq = excluded.seq, at = excluded.at, created_at = excluded.created_at, \
             updated_at = excluded.updated_at, kind = excluded.kind, state = excluded.state, agent = excluded.agent, \
             latest = excluded.latest, preview = excluded.preview, turns = excluded.turns, items = excluded.items, \
             usage = excluded.usage, origin = excluded.origin WHERE excluded.seq >= seq";
    db.execute_cached(
        sql,
        rusqlite::params![
            int(stream),
            int(thread.seq),
            micros(thread.at),
            micros(thread.created_at),
            micros(thread.updated_at),
            kind(thread),
            code(&STATES, &thread.state),
            thread.agent().unwrap_or_default(),
            latest,
            thread.preview,
            int(thread.turns),
            int(thread.items),
            usage,
            origin,
        ],
    )?;
    // The record can be large and rarely changes, so it is in a separate table.
    if let Some(record) = &thread.record {
        let sql = "INSERT INTO thread_records (stream, seq, record) VALUES (?1, ?2, ?3) ON CONFLICT (stream) \
                 DO UPDATE SET seq = excluded.seq, record = excluded.record WHERE excluded.seq > seq";
        db.execute_cached(sql, (int(stream), int(record.seq), json(&record.record)?))?;
    }
    Ok(())
}

/// The columns that [`turn`] reads.
pub(super) const TURN: &str = "turns.stream, place, turn, first, last, turns.seq, turns.agent, intent, turns.status, outcome, \
     steps, view, pruned";

/// Reads the row of a turn without its waits; the caller passes the key of its stream.
pub(super) fn turn(row: &Row<'_>, stream: &StreamKey) -> DbResult<TurnRow> {
    let id = TurnId::from_uuid(Uuid::from_bytes(row.get(2)?));
    let view: TurnView = parse(&format!("the row of turn {id}"), row, 11)?;
    let agent: String = row.get(6)?;
    Ok(TurnRow {
        stream: stream.clone(),
        position: uint(row, 1)?,
        first_seq: uint(row, 3)?,
        last_seq: uint_or_none(row, 4)?,
        seq: uint(row, 5)?,
        view,
        agent: Some(agent).filter(|agent| !agent.is_empty()),
        intent: row.get(7)?,
        run_status: of_code(&RunStatus::ALL, row, 8)?,
        outcome: outcome(row, 9)?,
        steps: uint(row, 10)?,
        waits: Vec::new(),
        is_shared: false,
        is_pruned: row.get(12)?,
    })
}

fn outcome(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<OutcomeStatus>> {
    match row.get::<_, Option<i64>>(column)? {
        Some(_) => of_code(&OutcomeStatus::ALL, row, column).map(Some),
        None => Ok(None),
    }
}

pub(super) fn put_turn(db: &Connection, stream: u64, turn: &TurnRow) -> DbResult<()> {
    let used = TurnUsage::of(turn).map(|usage| usage.sum);
    let tokens = |of: fn(&UsageSum) -> u64| used.as_ref().map(|used| int(of(used)));
    let cost = used.filter(|used| used.priced_turns > 0);
    let sql = "INSERT INTO turns (place, stream, turn, first, last, seq, agent, intent, status, outcome, steps, ended_at, \
             model, provider, input_tokens, output_tokens, cache_read_tokens, cache_creation_tokens, reasoning_tokens, \
             cost, view) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, \
             ?20, ?21) ON CONFLICT (place) DO UPDATE SET last = excluded.last, seq = excluded.seq, \
             status = excluded.status, outcome = excluded.outcome, steps = excluded.steps, ended_at = excluded.ended_at, \
             model = excluded.model, provider = excluded.provider, input_tokens = excluded.input_tokens, \
             output_tokens = excluded.output_tokens, cache_read_tokens = excluded.cache_read_tokens, \
             cache_creation_tokens = excluded.cache_creation_tokens, reasoning_tokens = excluded.reasoning_tokens, \
             cost = excluded.cost, view = excluded.view WHERE excluded.seq >= seq";
    db.execute_cached(
        sql,
        rusqlite::params![
            int(turn.position),
            int(stream),
            turn.view.id.uuid().as_bytes(),
            int(turn.first_seq),
            turn.last_seq.map(int),
            int(turn.seq),
            turn.agent.as_deref().unwrap_or_default(),
            turn.intent,
            code(&RunStatus::ALL, &turn.run_status),
            turn.outcome
                .map(|outcome| code(&OutcomeStatus::ALL, &outcome)),
            int(turn.steps),
            turn.view.ended_at.map(micros),
            turn.model(),
            turn.provider(),
            tokens(|used| used.input_tokens),
            tokens(|used| used.output_tokens),
            tokens(|used| used.cache_read_tokens),
            tokens(|used| used.cache_creation_tokens),
            tokens(|used| used.reasoning_tokens),
            cost.map(|used| used.cost_usd),
            json(&turn.view)?,
        ],
    )?;
    Ok(())
}

/// The columns that [`wait`] reads.
pub(super) const WAIT: &str = "exec, turn, kind, waits.seq, is_open";

pub(super) fn wait(row: &Row<'_>, stream: &StreamKey) -> rusqlite::Result<WaitRow> {
    Ok(WaitRow {
        stream: stream.clone(),
        exec_id: ExecId::from_uuid(Uuid::from_bytes(row.get(0)?)),
        turn_id: TurnId::from_uuid(Uuid::from_bytes(row.get(1)?)),
        kind: of_code(&WAITS, row, 2)?,
        seq: uint(row, 3)?,
        is_open: row.get(4)?,
    })
}

pub(super) fn put_wait(db: &Connection, stream: u64, wait: &WaitRow) -> DbResult<()> {
    let sql = "INSERT INTO waits (exec, stream, turn, kind, seq, is_open) VALUES (?1, ?2, ?3, ?4, ?5, ?6) \
             ON CONFLICT (exec, stream) DO UPDATE SET turn = excluded.turn, kind = excluded.kind, seq = excluded.seq, \
             is_open = excluded.is_open WHERE excluded.seq > seq OR (excluded.seq = seq AND excluded.is_open < is_open)";
    db.execute_cached(
        sql,
        (
            wait.exec_id.uuid().as_bytes(),
            int(stream),
            wait.turn_id.uuid().as_bytes(),
            code(&WAITS, &wait.kind),
            int(wait.seq),
            wait.is_open,
        ),
    )?;
    Ok(())
}

/// The columns that [`run`] reads, and their tables. The table of streams has the epoch of a run.
pub(super) const RUN: &str = "runs.position, streams.key, agent, intent, status, outcome, started_at, ended_at, turns, \
     client, streams.epoch, streams.id FROM runs CROSS JOIN streams ON streams.id = runs.stream";

pub(super) fn run(row: &Row<'_>) -> rusqlite::Result<StoredRun> {
    let key: String = row.get(1)?;
    let ended_at = match row.get::<_, Option<i64>>(7)? {
        Some(_) => Some(time(row, 7)?),
        None => None,
    };
    Ok(StoredRun {
        position: uint(row, 0)?,
        summary: RunSummary {
            run_id: key.strip_prefix(PREFIX).unwrap_or(&key).to_owned(),
            agent_id: row.get(2)?,
            intent: row.get(3)?,
            started_at: time(row, 6)?,
            ended_at,
            status: of_code(&RunStatus::ALL, row, 4)?,
            outcome: outcome(row, 5)?,
            turn_count: uint(row, 8)?,
            session_id: None,
            waiting_for: Vec::new(),
        },
        client: row.get::<_, Option<String>>(9)?.unwrap_or_default(),
        epoch: uint(row, 10)?,
        stream: uint(row, 11)?,
    })
}

/// Finds the row of a run.
pub(super) fn find_run(db: &Connection, stream: u64) -> DbResult<Option<StoredRun>> {
    Ok(db.find_row(
        &format!("SELECT {RUN} WHERE runs.stream = ?1"),
        [int(stream)],
        run,
    )?)
}

pub(super) fn put_run(db: &Connection, run: &StoredRun) -> DbResult<()> {
    let summary = &run.summary;
    let sql = "INSERT INTO runs (stream, position, agent, intent, status, outcome, started_at, ended_at, turns) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) ON CONFLICT (stream) DO UPDATE SET \
             status = excluded.status, outcome = excluded.outcome, ended_at = excluded.ended_at, turns = excluded.turns \
             WHERE excluded.turns + (excluded.status > 0) >= turns + (status > 0)";
    db.execute_cached(
        sql,
        rusqlite::params![
            int(run.stream),
            int(run.position),
            summary.agent_id,
            summary.intent,
            code(&RunStatus::ALL, &summary.status),
            summary
                .outcome
                .map(|outcome| code(&OutcomeStatus::ALL, &outcome)),
            micros(summary.started_at),
            summary.ended_at.map(micros),
            int(summary.turn_count),
        ],
    )?;
    Ok(())
}

/// Reads the rows of turns that a query selects.
pub(super) fn turns_of(
    db: &Connection,
    query: &str,
    parameters: impl rusqlite::Params,
    stream: &StreamKey,
) -> DbResult<Vec<TurnRow>> {
    let mut statement = db.prepare_cached(query)?;
    let mut rows = statement.query(parameters)?;
    let mut turns = Vec::new();
    while let Some(row) = rows.next()? {
        turns.push(turn(row, stream)?);
    }
    Ok(turns)
}
