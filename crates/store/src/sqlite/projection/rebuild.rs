//! Making the projections anew.

use rusqlite::{Connection, OptionalExtension};

use super::super::SqliteStore;
use super::super::error::{Fault, SqliteError};
use super::super::findings::Finding;
use super::super::journal::{StreamInfo, find, names};
use super::super::numbers::{int, uint};
use super::super::places;
use super::fold::Fold;
use super::load::{range, replay};
use super::rows::{MESSAGE_COLUMNS, Mark, MessageRow, TURN_COLUMNS, TurnRow};
use super::write::{remove, remove_from, write};
use crate::journal::{JournalError, StreamKey};
use crate::runs::is_run_stream;

/// How far a rebuild is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RebuildProgress {
    /// The stream that was done last.
    pub stream: StreamKey,
    /// How many are done.
    pub done: u64,
    /// How many there are.
    pub total: u64,
}

/// What a rebuild did.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RebuildReport {
    /// How many streams were done.
    pub streams: u64,
    /// Streams that were left as they are because they cannot be read.
    pub findings: Vec<Finding>,
}

impl SqliteStore {
    /// Makes the places of all records anew, and what is listed of all streams from their events; `progress` hears of each.
    ///
    /// Each stream is one commit, and others wait for it. Rows whose records are no longer kept stay.
    pub async fn rebuild(
        &self,
        mut progress: impl FnMut(RebuildProgress) + Send,
    ) -> Result<RebuildReport, SqliteError> {
        self.inner.writer()?.write(places::rebuild).await?;
        let streams = self.inner.readers.read(|reader| match names(reader) {
            (mut streams, None) => {
                streams.retain(|stream| !is_run_stream(&stream.key));
                Ok(streams)
            }
            (_, Some(fault)) => Err(fault),
        });
        let streams = streams.await?;
        let mut report = RebuildReport::default();
        let total = streams.len() as u64;
        for (stream, done) in streams.into_iter().zip(1..) {
            let key = stream.key.clone();
            self.rebuild_one(stream, &mut report).await?;
            progress(RebuildProgress {
                stream: key,
                done,
                total,
            });
        }
        Ok(report)
    }

    /// Makes what is listed of one stream anew.
    pub async fn rebuild_stream(&self, stream: &StreamKey) -> Result<RebuildReport, SqliteError> {
        let key = stream.clone();
        let found = self.inner.readers.read(move |reader| find(reader, &key));
        let mut report = RebuildReport::default();
        match found.await? {
            Some(stream) => self.rebuild_one(stream, &mut report).await?,
            None => report
                .findings
                .push(Finding::of_stream(stream, "it is missing")),
        }
        Ok(report)
    }

    async fn rebuild_one(
        &self,
        stream: StreamInfo,
        report: &mut RebuildReport,
    ) -> Result<(), SqliteError> {
        let key = stream.key.clone();
        let done = self.inner.writer()?.write(move |work| {
            work.state.projections.give_up(stream.stream);
            refill(work.connection, &stream)
        });
        match done.await {
            Ok(()) => report.streams += 1,
            // It was removed meanwhile.
            Err(Fault::Journal(JournalError::Removed(_))) => {}
            Err(Fault::Journal(error)) => report.findings.push(Finding::of_error(&key, error)),
            Err(fault) => return Err(fault.into()),
        }
        Ok(())
    }
}

/// Fills the tables of a database that has had none. A stream that cannot be read stays without.
pub(crate) fn fill(connection: &Connection) -> Result<(), Fault> {
    let (streams, trouble) = names(connection);
    trouble.map_or(Ok(()), Err)?;
    for stream in streams {
        match refill(connection, &stream) {
            Err(Fault::Journal(_)) => remove(connection, stream.stream)?,
            done => done?,
        }
    }
    connection
        .prepare_cached(
            "UPDATE state SET projected = coalesce((SELECT max(position) FROM records), 0)",
        )?
        .execute([])?;
    Ok(())
}

fn refill(connection: &Connection, stream: &StreamInfo) -> Result<(), Fault> {
    let number = stream.stream;
    let mut statement = connection.prepare_cached("SELECT 1 FROM streams WHERE id = ?1")?;
    if !statement.exists([int(number)])? {
        return Err(JournalError::Removed(number).into());
    }
    let mut fold = base(connection, number)?;
    let kept = *fold.taken();
    connection
        .prepare_cached("DELETE FROM threads WHERE stream = ?1")?
        .execute([int(number)])?;
    remove_from(connection, number, [kept.turns, kept.items, kept.messages])?;
    replay(connection, &stream.key, number, kept.seq, |event| {
        fold.apply(event);
        match fold.is_due() {
            true => write(connection, number, &mut fold),
            false => Ok(()),
        }
    })?;
    write(connection, number, &mut fold)
}

/// Begins a fold behind what can no longer be folded: the turns whose first records are gone. Their rows are all that is
/// known of them.
pub(super) fn base(connection: &Connection, stream: u64) -> Result<Fold, Fault> {
    let gone = gone(connection, stream)?;
    if gone == 0 {
        return Ok(Fold::default());
    }
    let everything = 0..1 << 32;
    let turns = ("turns", TURN_COLUMNS);
    let turns = range(connection, turns, stream, everything.clone(), TurnRow::read)?;
    let mut mark = Mark {
        seq: gone,
        ..Mark::default()
    };
    let (mut latest, mut activity) = (None, 0);
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
    let messages = ("messages", MESSAGE_COLUMNS);
    let messages = range(connection, messages, stream, everything, MessageRow::read)?;
    let kept = messages.iter().rfind(|message| message.seq <= mark.seq);
    mark.messages = kept.map_or(0, |message| message.place + 1);
    Ok(Fold::after(mark, latest, activity))
}

/// Returns up to where all records of a stream are gone. Text chunks that are gone are none of it: they lie within turns.
fn gone(connection: &Connection, stream: u64) -> Result<u64, Fault> {
    let mut statement =
        connection.prepare_cached("SELECT last FROM pruned WHERE stream = ?1 AND first = ?2")?;
    let mut gone = 0;
    while let Some(last) = statement
        .query_row([int(stream), int(gone + 1)], |row| uint(row, 0))
        .optional()?
        .filter(|last| *last > gone)
    {
        gone = last;
    }
    Ok(gone)
}
