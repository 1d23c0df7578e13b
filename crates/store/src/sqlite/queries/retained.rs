//! The usage of turns whose rows are removed, by thread, day, model and provider.
//!
//! It is added in the transaction that removes the rows, so each turn counts exactly once. The read model cannot rebuild it without the records.

use rusqlite::Connection;

use super::load::{Folded, PositionedRecord};
use super::tables::is_damaged;
use super::tail::{RECORDS, ReadModelRows};
use super::usage::day_of_end;
use crate::durable::record::RecordBuffer;
use crate::journal::StreamKey;
use crate::queries::TurnRow;
use crate::queries::usage::TurnUsage;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::spans::{IN_ORDER, from};
use crate::sqlite::numbers::int;

const COLUMNS: &str = "thread, day, model, provider, ended_at, turns, input_tokens, output_tokens, cache_read_tokens, \
     cache_creation_tokens, reasoning_tokens, cost, priced";

const ADDED: &str = "ON CONFLICT (thread, day, model, provider) DO UPDATE SET \
     ended_at = max(ended_at, excluded.ended_at), turns = turns + excluded.turns, \
     input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens, \
     cache_read_tokens = cache_read_tokens + excluded.cache_read_tokens, \
     cache_creation_tokens = cache_creation_tokens + excluded.cache_creation_tokens, \
     reasoning_tokens = reasoning_tokens + excluded.reasoning_tokens, cost = cost + excluded.cost, \
     priced = priced + excluded.priced";

/// Retains the usage of all turns of a stream that is about to be removed, those included that no row has yet. An open turn ends here.
pub(crate) fn retain_stream(db: &Connection, (stream, key): (u64, &StreamKey)) -> DbResult<()> {
    db
        .execute_cached(&format!(
            "INSERT INTO retained_usage ({COLUMNS}) SELECT ?2, {}, model, provider, max(ended_at), count(*), \
             sum(input_tokens), sum(output_tokens), sum(cache_read_tokens), sum(cache_creation_tokens), \
             sum(reasoning_tokens), total(cost), count(cost) FROM turns INDEXED BY turns_by_stream \
             WHERE stream = ?1 AND ended_at IS NOT NULL GROUP BY 2, 3, 4 {ADDED}",
            day_of_end()
        ), (int(stream), key.as_str()))?;
    let newer = newer_usage(db, stream)?;
    newer.iter().try_for_each(|usage| add(db, usage))
}

/// Retains the usage of one turn whose row is about to be removed.
pub(super) fn retain_turn(db: &Connection, turn: &TurnRow) -> DbResult<()> {
    match TurnUsage::of(turn) {
        Some(usage) => add(db, &usage),
        None => Ok(()),
    }
}

/// Deletes the retained usage of a thread that is imported again with its records.
pub(crate) fn restore(db: &Connection, key: &StreamKey) -> DbResult<()> {
    db.execute_cached(
        "DELETE FROM retained_usage WHERE thread = ?1",
        [key.as_str()],
    )?;
    Ok(())
}

/// Folds the records of a stream that are newer than its rows.
fn newer_usage(db: &Connection, stream: u64) -> DbResult<Vec<TurnUsage>> {
    let mut folded = match Folded::load(db, &ReadModelRows::default(), stream) {
        // A damaged stream can be removed too.
        Err(error) if is_damaged(&error) => return Ok(Vec::new()),
        loaded => loaded?,
    };
    let mut rows = ReadModelRows::default();
    let mut statement = db.prepare_cached(&format!(
        "SELECT {RECORDS}, last FROM placed WHERE stream = ?1 AND {} {IN_ORDER}",
        from!("?2 + 1")
    ))?;
    let mut records = statement.query([stream, folded.seq()].map(int))?;
    let mut buffer = RecordBuffer::default();
    while let Some(row) = records.next()? {
        let record = PositionedRecord::of(db, row, &mut buffer)?;
        folded.apply(db, &record, &mut rows)?;
    }
    let ended = rows.turns.values();
    let ended = ended.filter_map(|(_, turn)| TurnUsage::of(turn));
    Ok(ended.chain(folded.open_usage()).collect())
}

fn add(db: &Connection, usage: &TurnUsage) -> DbResult<()> {
    let sum = &usage.sum;
    db
        .execute_cached(&format!(
            "INSERT INTO retained_usage ({COLUMNS}) \
             SELECT ?1, {}, ?2, ?3, ended_at, 1, ?5, ?6, ?7, ?8, ?9, ?10, ?11 FROM (SELECT ?4 AS ended_at) WHERE true {ADDED}",
            day_of_end()
        ), rusqlite::params![
            usage.thread.as_str(),
            usage.model,
            usage.provider,
            usage.ended_at,
            int(sum.input_tokens),
            int(sum.output_tokens),
            int(sum.cache_read_tokens),
            int(sum.cache_creation_tokens),
            int(sum.reasoning_tokens),
            sum.cost_usd,
            int(sum.priced_turns),
        ])?;
    Ok(())
}
