//! Where the fold of a stream's records begins.

use rusqlite::{Connection, OptionalExtension};

use super::super::error::Fault;
use super::super::numbers::{int, uint};
use super::super::schema::{FORKS, version};
use super::batches::{EVERYWHERE, Table};
use super::marks;
use super::rows::{Base, MESSAGE_COLUMNS, Mark, MessageRow, TURN_COLUMNS, TurnRow};
use super::sources::{Sources, range};
use crate::journal::StreamKey;

/// Begins behind turns that can no longer be folded, because records up to `gone` are gone. Their rows are all that is known of
/// them, and before the last mark there that is all: rows may have been forgotten.
pub(super) fn base_behind(
    connection: &Connection,
    name: &StreamKey,
    stream: u64,
    gone: u64,
) -> Result<Base, Fault> {
    let sources = Sources::of(connection, name, stream)?;
    let start = match version(connection)? < FORKS {
        true => Base::default(),
        false => marks::last(connection, stream, gone)?.unwrap_or_default(),
    };
    let turns = (Table::Turns, TURN_COLUMNS);
    let places = start.mark.turns..EVERYWHERE.end;
    let turns = range(connection, turns, &sources, places, TurnRow::read)?;
    let mut mark = Mark {
        seq: gone,
        ..start.mark
    };
    let (mut latest, mut activity) = (start.latest, start.activity);
    for turn in turns.into_iter().take_while(|turn| turn.first <= gone) {
        mark.seq = mark.seq.max(turn.last);
        mark.turns = turn.place + 1;
        mark.items = turn.first_item + turn.items;
        if let Some(usage) = &turn.detail.usage {
            mark.usage.get_or_insert_default().add(usage);
        }
        latest = Some((turn.id, turn.status));
        activity = turn.ended_at.unwrap_or(activity);
    }
    let messages = (Table::Messages, MESSAGE_COLUMNS);
    let places = start.mark.messages..EVERYWHERE.end;
    let messages = range(connection, messages, &sources, places, MessageRow::read)?;
    let kept = messages.iter().rfind(|message| message.seq <= mark.seq);
    mark.messages = kept.map_or(start.mark.messages, |message| message.place + 1);
    Ok(Base {
        mark,
        latest,
        activity,
    })
}

/// Returns up to where whole turns of a stream are gone, as far as a record; 0 where none are. Text chunks that are gone are none of it:
/// they lie within turns.
pub(super) fn gone(connection: &Connection, stream: u64, upto: u64) -> Result<u64, Fault> {
    let mut statement = connection.prepare_cached(
        "SELECT last FROM pruned WHERE stream = ?1 AND first = ?2 AND last <= ?3",
    )?;
    let mut gone = 0;
    while let Some(last) = statement
        .query_row([int(stream), int(gone + 1), int(upto)], |row| uint(row, 0))
        .optional()?
        .filter(|last| *last > gone)
    {
        gone = last;
    }
    Ok(gone.max(noted(connection, stream, upto)?))
}

/// The same, of ranges that say what they are.
fn noted(connection: &Connection, stream: u64, upto: u64) -> Result<u64, Fault> {
    let query = "SELECT coalesce(max(last), 0) FROM pruned \
                 WHERE stream = ?1 AND last <= ?2 AND turns = 1";
    let mut statement = match connection.prepare_cached(query) {
        Ok(statement) => statement,
        Err(_) if version(connection)? < FORKS => return Ok(0),
        Err(error) => return Err(error.into()),
    };
    Ok(statement.query_row([int(stream), int(upto)], |row| uint(row, 0))?)
}
