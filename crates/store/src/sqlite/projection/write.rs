//! Writing rows.

use rusqlite::Connection;
use windlass_core::events::TokenUsage;

use super::super::error::Fault;
use super::super::numbers::{int, key};
use super::batches;
use super::codes::Coded;
use super::fold::Fold;
use super::marks;
use super::rows::{ItemRow, MessageRow, ThreadRow, TurnRow};

/// Writes what the tables lack: settled rows with a mark behind them, and the row of the thread.
pub(super) fn write(connection: &Connection, stream: u64, fold: &mut Fold) -> Result<(), Fault> {
    if fold.settled().seq > fold.taken().seq {
        marks::put(connection, stream, fold.base())?;
        let first = fold.taken().places();
        let rows = fold.take();
        if !rows.is_empty() {
            let batch = batches::begin(connection, stream, first)?;
            put_turns(connection, stream, batch, &rows.turns)?;
            put_items(connection, batch, &rows.items)?;
            put_messages(connection, batch, &rows.messages)?;
        }
    }
    if fold.is_begun() {
        put_thread(connection, stream, &fold.thread())?;
        fold.note_shown();
    }
    Ok(())
}

fn put_turns(
    connection: &Connection,
    stream: u64,
    batch: u64,
    rows: &[TurnRow],
) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO turns (key, id, status, first, last, started_at, ended_at, first_item, items, session, input, \
         answer, detail, stream) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)",
    )?;
    for row in rows {
        statement.execute((
            key(batch, row.place),
            row.id.uuid().as_bytes(),
            row.status.code(),
            int(row.first),
            int(row.last),
            row.started_at,
            row.ended_at,
            int(row.first_item),
            int(row.items),
            row.session.uuid().as_bytes(),
            row.input.map(|id| *id.uuid().as_bytes()),
            row.answer.map(|id| *id.uuid().as_bytes()),
            text(&row.detail)?,
            int(stream),
        ))?;
    }
    Ok(())
}

fn put_items(connection: &Connection, batch: u64, rows: &[ItemRow]) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached(
        "INSERT INTO items (key, id, exec, kind, status, first, last, started_at, ended_at, error_code, summary) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
    )?;
    for row in rows {
        statement.execute((
            key(batch, row.place),
            row.id.uuid().as_bytes(),
            row.exec_id.map(|id| *id.uuid().as_bytes()),
            row.kind.code(),
            row.status.code(),
            int(row.first),
            int(row.last),
            row.started_at,
            row.ended_at,
            &row.error_code,
            &row.summary,
        ))?;
    }
    Ok(())
}

fn put_messages(connection: &Connection, batch: u64, rows: &[MessageRow]) -> Result<(), Fault> {
    let mut statement = connection
        .prepare_cached("INSERT INTO messages (key, id, role, seq) VALUES (?1, ?2, ?3, ?4)")?;
    for row in rows {
        statement.execute((
            key(batch, row.place),
            row.id.uuid().as_bytes(),
            row.role.code(),
            int(row.seq),
        ))?;
    }
    Ok(())
}

/// Writes the row of a thread.
pub(super) fn put_thread(
    connection: &Connection,
    stream: u64,
    row: &ThreadRow,
) -> Result<(), Fault> {
    let (now, upto) = (&row.now, &row.upto);
    connection
        .prepare_cached(
            "REPLACE INTO threads (stream, is_open, is_waiting, activity, latest_turn, latest_status, \
             seen, turns, items, messages, usage, upto, upto_turns, upto_items, upto_messages, upto_usage) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16)",
        )?
        .execute((
            int(stream),
            row.is_open,
            row.is_waiting,
            row.activity,
            row.latest.map(|(turn, _)| *turn.uuid().as_bytes()),
            row.latest.map(|(_, status)| status.code()),
            int(now.seq),
            int(now.turns),
            int(now.items),
            int(now.messages),
            usage(now.usage)?,
            int(upto.seq),
            int(upto.turns),
            int(upto.items),
            int(upto.messages),
            usage(upto.usage)?,
        ))?;
    Ok(())
}

pub(super) fn usage(usage: Option<TokenUsage>) -> Result<Option<String>, Fault> {
    usage.map(|usage| text(&usage)).transpose()
}

fn text(value: &impl serde::Serialize) -> Result<String, Fault> {
    serde_json::to_string(value)
        .map_err(|error| Fault::unavailable(format!("a row has no JSON: {error}")))
}
