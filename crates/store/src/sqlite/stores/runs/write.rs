//! Writing runs.

use windlass_core::runs::{RunRecord, RunStarted, RunStatus, RunSummary};

use super::now::{as_stored, current};
use crate::durable::record::Encoded;
use crate::journal::open_turns::OpenTurns;
use crate::journal::{JournalError, StreamKey};
use crate::runs::{StoredRun, run_stream};
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::{DbError, DbResult};
use crate::sqlite::journal::heads::Head;
use crate::sqlite::journal::{Append, claim, find, remove};
use crate::sqlite::numbers::int;
use crate::sqlite::times;
use crate::sqlite::write::writer::WriteContext;

/// A run to add to the journal. The calling task encodes it, so that the writer has less to do.
pub(crate) struct Begin {
    key: StreamKey,
    summary: RunSummary,
    client: String,
    pub(super) record: Encoded,
}

impl Begin {
    pub(crate) fn new(started: RunStarted, client: &str) -> DbResult<Self> {
        let mut summary = RunSummary::new(&started);
        as_stored(&mut summary);
        Ok(Self {
            key: run_stream(&started.run_id),
            summary,
            client: client.to_owned(),
            record: encode(&RunRecord::Started(started), 1)?,
        })
    }

    /// Returns the run, and whether it is new.
    pub(crate) fn run(self, work: &mut WriteContext<'_>) -> DbResult<(StoredRun, bool)> {
        // The ID is usually new: then the stream is created at once, without a look-up.
        let (stream, epoch) = match self.open(work)? {
            Opened::New { stream, epoch } => (stream, epoch),
            Opened::Taken(run) => return Ok((run, false)),
        };
        Append::new((stream, epoch), 1, vec![self.record]).run(work)?;
        let run = StoredRun {
            position: work.state.position,
            summary: self.summary,
            client: self.client,
            epoch,
            stream,
        };
        Ok((run, true))
    }

    /// Creates the stream of the run, unless one with that ID exists. Fails before anything is changed.
    fn open(&self, work: &mut WriteContext<'_>) -> DbResult<Opened> {
        let sql = "INSERT INTO streams (key, epoch, client) VALUES (?1, 1, ?2) \
                 ON CONFLICT (key) DO NOTHING";
        let created = work
            .db
            .execute_cached(sql, [self.key.as_str(), &self.client])?;
        if created > 0 {
            let stream = work.db.last_insert_rowid().cast_unsigned();
            let head = Head {
                key: self.key.clone(),
                epoch: 1,
                seq: 0,
                chain: work.state.heads.chain().start(&self.key),
                open: OpenTurns::default(),
            };
            work.state.heads.put(stream, head);
            return Ok(Opened::New { stream, epoch: 1 });
        }
        if let Some(run) = current(work.db, &self.key)? {
            return Ok(Opened::Taken(run));
        }
        if find(work.db, &self.key)?.is_some_and(|stream| stream.head > 0) {
            let what = "it is not the start of a run";
            return Err(JournalError::damaged(&self.key, 1, what).into());
        }
        // A process that claimed the stream and wrote nothing leaves an empty one.
        let claim = claim(work, &self.key)?;
        note_client(work, claim.stream, &self.client)?;
        Ok(Opened::New {
            stream: claim.stream,
            epoch: claim.epoch,
        })
    }
}

/// The result of creating a stream.
enum Opened {
    New { stream: u64, epoch: u64 },
    Taken(StoredRun),
}

/// Encodes further records of a run; returns the append and the run after it.
pub(crate) fn prepare_append(
    run: &StoredRun,
    records: &[RunRecord],
) -> DbResult<(Append, StoredRun)> {
    check_open(run)?;
    let first_seq = run.head() + 1;
    let mut run = run.clone();
    let numbered = (first_seq..).zip(records);
    let encoded = numbered.map(|(seq, record)| encode(record, seq));
    let encoded = encoded.collect::<DbResult<_>>()?;
    records.iter().for_each(|record| run.summary.apply(record));
    as_stored(&mut run.summary);
    let append = Append::new((run.stream, run.epoch), first_seq, encoded);
    Ok((append, run))
}

fn check_open(run: &StoredRun) -> Result<(), JournalError> {
    match run.summary.status {
        RunStatus::InProgress => Ok(()),
        _ => Err(JournalError::OutOfSequence {
            stream: run.position,
            head: run.head(),
            first_seq: run.head() + 1,
        }),
    }
}

/// Raises the epoch of a run's stream, unless another writer did.
pub(crate) fn take_over(
    work: &mut WriteContext<'_>,
    mut run: StoredRun,
    client: String,
) -> DbResult<StoredRun> {
    check_open(&run)?;
    // The checks of an empty append are the ones needed here.
    Append::new((run.stream, run.epoch), run.head() + 1, Vec::new()).run(work)?;
    run.epoch = claim(work, &run_stream(&run.summary.run_id))?.epoch;
    note_client(work, run.stream, &client)?;
    run.client = client;
    Ok(run)
}

fn note_client(work: &WriteContext<'_>, stream: u64, client: &str) -> DbResult<()> {
    work.db.execute_cached(
        "UPDATE streams SET client = ?2 WHERE id = ?1",
        (int(stream), client),
    )?;
    Ok(())
}

/// Removes the given runs if they ended before a time; returns how many were removed.
pub(crate) fn forget(
    work: &mut WriteContext<'_>,
    before: i64,
    keys: &[StreamKey],
) -> DbResult<usize> {
    let mut forgotten = 0;
    for key in keys {
        let run = current(work.db, key)?;
        let ended_at = run.and_then(|run| run.summary.ended_at);
        if ended_at.is_some_and(|at| at.timestamp_micros() < before) {
            forgotten += usize::from(remove(work, key)?);
        }
    }
    Ok(forgotten)
}

/// Removes a run if it has ended; returns how many records it had.
pub(crate) fn forget_ended(work: &mut WriteContext<'_>, key: &StreamKey) -> DbResult<u64> {
    let run = current(work.db, key)?;
    match run.filter(|run| run.summary.status != RunStatus::InProgress) {
        Some(run) => remove(work, key).map(|_| run.head()),
        None => Ok(0),
    }
}

impl Encoded {
    /// Builds a record of a run from its JSON.
    pub(crate) fn of_run(record: &RunRecord, bytes: Vec<u8>, seq: u64) -> Self {
        let at = record
            .at()
            .map_or_else(|| times::now() / 1000, |at| at.timestamp_millis());
        Self::of_bytes(bytes, seq, at)
    }
}

/// Encodes a record.
fn encode(record: &RunRecord, seq: u64) -> DbResult<Encoded> {
    let bytes = serde_json::to_vec(record)
        .map_err(|error| DbError::unavailable(format!("a record of a run has no JSON: {error}")))?;
    Ok(Encoded::of_run(record, bytes, seq))
}
