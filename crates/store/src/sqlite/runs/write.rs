//! Writing runs: records and row in one commit.

use rusqlite::OptionalExtension;
use windlass_core::runs::{RunRecord, RunStarted, RunStatus, RunSummary};

use super::super::error::Fault;
use super::super::heads::Head;
use super::super::journal::{Append, StreamInfo, claim, find, remove};
use super::super::numbers::{int, uint};
use super::super::record::{Encoded, Stored};
use super::super::spans::{IN_ORDER, PLACED_COLUMNS, at};
use super::super::times;
use super::super::writer::Work;
use super::{decode, rows};
use crate::journal::open_turns::OpenTurns;
use crate::journal::{JournalError, StreamKey};
use crate::runs::{Begun, KeptRun, run_stream};

/// A run on its way into the journal. Encoded by whoever asks, so that the writer has less to do.
pub(super) struct Begin {
    key: StreamKey,
    summary: RunSummary,
    client: String,
    pub(super) record: Encoded,
}

impl Begin {
    pub(super) fn new(started: RunStarted, client: &str) -> Result<Self, Fault> {
        Ok(Self {
            key: run_stream(&started.run_id),
            summary: RunSummary::of(&started),
            client: client.to_owned(),
            record: encode(&RunRecord::Started(started), 1)?,
        })
    }

    pub(super) fn run(self, work: &mut Work<'_>) -> Result<Begun, Fault> {
        // Mostly the id is new: then the stream is made at once, and nothing has to be looked up.
        let (stream, epoch) = match self.open(work)? {
            Opened::New { stream, epoch } => (stream, epoch),
            Opened::Taken(run) => return Ok(Begun::Existing(run)),
        };
        let append = Append {
            stream,
            epoch,
            first_seq: 1,
            records: vec![self.record],
            events: Vec::new(),
            loan: None,
        };
        append.run(work)?;
        let run = KeptRun {
            position: work.state.position,
            summary: self.summary,
            client: self.client,
            epoch,
            stream,
        };
        insert(work, &run)?;
        Ok(Begun::New(run))
    }

    /// Makes the stream of the run, unless there is one of that id. It refuses before anything is changed.
    fn open(&self, work: &mut Work<'_>) -> Result<Opened, Fault> {
        let made = work
            .connection
            .prepare_cached(
                "INSERT INTO streams (key, epoch) VALUES (?1, 1) ON CONFLICT (key) DO NOTHING",
            )?
            .execute([self.key.as_str()])?;
        if made > 0 {
            let stream = work.connection.last_insert_rowid().cast_unsigned();
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
        if let Some(run) = rows::get(work.connection, &self.summary.run_id)? {
            return Ok(Opened::Taken(run));
        }
        if find(work.connection, &self.key)?.is_some_and(|stream| stream.head > 0) {
            let what = "the run has records and no row; rebuild the store".to_owned();
            return Err(JournalError::Damaged {
                stream: self.key.to_string(),
                seq: 1,
                what,
            }
            .into());
        }
        // An empty stream is left where somebody claimed it and wrote nothing.
        let claim = claim(work, &self.key)?;
        Ok(Opened::New {
            stream: claim.stream,
            epoch: claim.epoch,
        })
    }
}

/// What came of making a stream.
enum Opened {
    New { stream: u64, epoch: u64 },
    Taken(KeptRun),
}

/// Further records of a run.
pub(super) struct AppendToRun {
    run: KeptRun,
    first_seq: u64,
    pub(super) records: Vec<Encoded>,
}

impl AppendToRun {
    pub(super) fn new(run: &KeptRun, records: Vec<RunRecord>) -> Result<Self, Fault> {
        let first_seq = run.head() + 1;
        check_open(run)?;
        let mut run = run.clone();
        let numbered = (first_seq..).zip(&records);
        let encoded = numbered.map(|(seq, record)| encode(record, seq));
        let encoded = encoded.collect::<Result<_, _>>()?;
        records.iter().for_each(|record| run.summary.apply(record));
        Ok(Self {
            run,
            first_seq,
            records: encoded,
        })
    }

    pub(super) fn run(self, work: &mut Work<'_>) -> Result<KeptRun, Fault> {
        let run = self.run;
        let append = Append {
            stream: run.stream,
            epoch: run.epoch,
            first_seq: self.first_seq,
            records: self.records,
            events: Vec::new(),
            loan: None,
        };
        append.run(work)?;
        update(work, &run)?;
        Ok(run)
    }
}

fn check_open(run: &KeptRun) -> Result<(), JournalError> {
    match run.summary.status {
        RunStatus::InProgress => Ok(()),
        _ => Err(JournalError::OutOfSequence {
            stream: run.position,
            head: run.head(),
            first_seq: run.head() + 1,
        }),
    }
}

/// Raises the epoch of a run's stream, unless somebody else did.
pub(super) fn take_over(
    work: &mut Work<'_>,
    mut run: KeptRun,
    client: String,
) -> Result<KeptRun, Fault> {
    check_open(&run)?;
    // What an append of nothing checks is what must hold here.
    let append = Append {
        stream: run.stream,
        epoch: run.epoch,
        first_seq: run.head() + 1,
        records: Vec::new(),
        events: Vec::new(),
        loan: None,
    };
    append.run(work)?;
    run.epoch = claim(work, &run_stream(&run.summary.run_id))?.epoch;
    work.connection
        .prepare_cached("UPDATE runs SET client = ?2 WHERE position = ?1")?
        .execute((int(run.position), &client))?;
    run.client = client;
    Ok(run)
}

fn insert(work: &Work<'_>, run: &KeptRun) -> Result<(), Fault> {
    let summary = &run.summary;
    work.connection
        .prepare_cached(
            "INSERT INTO runs \
             (position, stream, agent, intent, status, outcome, started_at, ended_at, turns, client) \
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute((
            int(run.position),
            int(run.stream),
            &summary.agent_id,
            &summary.intent,
            summary.status.as_str(),
            summary.outcome.map(|outcome| outcome.as_str()),
            summary.started_at.timestamp_micros(),
            summary.ended_at.map(|at| at.timestamp_micros()),
            int(summary.turn_count),
            &run.client,
        ))?;
    Ok(())
}

/// Brings the row up to date. An open run only has more turns: no index changes.
fn update(work: &Work<'_>, run: &KeptRun) -> Result<(), Fault> {
    let summary = &run.summary;
    let (position, turns) = (int(run.position), int(summary.turn_count));
    if summary.status == RunStatus::InProgress {
        work.connection
            .prepare_cached("UPDATE runs SET turns = ?2 WHERE position = ?1")?
            .execute([position, turns])?;
        return Ok(());
    }
    work.connection
        .prepare_cached(
            "UPDATE runs SET turns = ?2, status = ?3, outcome = ?4, ended_at = ?5 WHERE position = ?1",
        )?
        .execute((
            position,
            turns,
            summary.status.as_str(),
            summary.outcome.map(|outcome| outcome.as_str()),
            summary.ended_at.map(|at| at.timestamp_micros()),
        ))?;
    Ok(())
}

/// Makes or changes the row of a run from a record that was just written at the newest position.
pub(in super::super) fn project(
    work: &mut Work<'_>,
    stream: u64,
    key: &StreamKey,
    record: &RunRecord,
) -> Result<(), Fault> {
    if let RunRecord::Started(started) = record {
        let run = KeptRun {
            position: work.state.position,
            summary: RunSummary::of(started),
            client: String::new(),
            epoch: 0,
            stream,
        };
        return insert(work, &run);
    }
    let run_id = key.as_str().strip_prefix(crate::runs::PREFIX);
    if let Some(mut run) = rows::get(work.connection, run_id.unwrap_or_default())? {
        run.summary.apply(record);
        update(work, &run)?;
    }
    Ok(())
}

/// Makes the row of a run anew from its records. Which connection may write is not in them, so that stays.
pub(in super::super) fn refill(work: &mut Work<'_>, stream: &StreamInfo) -> Result<(), Fault> {
    let connection = work.connection;
    let number = int(stream.stream);
    let client = {
        let mut statement = connection.prepare_cached(concat!(
            "SELECT client FROM runs WHERE position = (SELECT position FROM placed WHERE stream = ?1 AND ",
            at!("1"),
            ")"
        ))?;
        let client = statement.query_row([number], |row| row.get::<_, String>(0));
        client.optional()?.unwrap_or_default()
    };
    let mut run: Option<KeptRun> = None;
    {
        let mut statement = connection.prepare_cached(&format!(
            "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 {IN_ORDER}"
        ))?;
        let mut rows = statement.query([number])?;
        let mut buffer = Vec::new();
        while let Some(row) = rows.next()? {
            let stored = Stored::from_row(connection, row, &mut buffer)?;
            let (_, record) = decode(&stored, &stream.key)?;
            match (&mut run, &record) {
                (None, RunRecord::Started(started)) => {
                    run = Some(KeptRun {
                        position: uint(row, 6)?,
                        summary: RunSummary::of(started),
                        client: client.clone(),
                        epoch: 0,
                        stream: stream.stream,
                    });
                }
                (Some(run), record) => run.summary.apply(record),
                (None, _) => {}
            }
        }
    }
    let Some(run) = run else {
        return Ok(());
    };
    connection
        .prepare_cached("DELETE FROM runs WHERE position = ?1")?
        .execute([int(run.position)])?;
    insert(work, &run)
}

/// Removes runs that ended before a time. Runs end in about the order in which they began, so the walk from the oldest
/// one stops at the first that began too late.
pub(super) fn forget(work: &mut Work<'_>, before: i64, limit: usize) -> Result<usize, Fault> {
    let old: Vec<String> = {
        let mut statement = work.connection.prepare_cached(
            "SELECT streams.key FROM runs JOIN streams ON streams.id = runs.stream \
             WHERE runs.position < coalesce((SELECT position FROM runs WHERE started_at >= ?1 ORDER BY position \
             LIMIT 1), 9223372036854775807) AND ended_at < ?1 ORDER BY runs.position LIMIT ?2",
        )?;
        let rows = statement
            .query_map((before, i64::try_from(limit).unwrap_or(i64::MAX)), |row| {
                row.get(0)
            })?;
        rows.collect::<Result<_, _>>()?
    };
    for key in &old {
        remove(work, &StreamKey::new(key.as_str()))?;
    }
    Ok(old.len())
}

impl Encoded {
    /// Takes a record of a run whose JSON is at hand.
    pub(in super::super) fn of_run(record: &RunRecord, bytes: Vec<u8>, seq: u64) -> Self {
        let at = record
            .at()
            .map_or_else(|| times::now() / 1000, |at| at.timestamp_millis());
        Self::of_bytes(bytes, seq, at)
    }
}

/// Makes a record ready to be written.
fn encode(record: &RunRecord, seq: u64) -> Result<Encoded, Fault> {
    let bytes = serde_json::to_vec(record)
        .map_err(|error| Fault::unavailable(format!("a record of a run has no JSON: {error}")))?;
    Ok(Encoded::of_run(record, bytes, seq))
}
