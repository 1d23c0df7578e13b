//! Checking the journal against itself, and the projections against the journal.
//!
//! It finds records that were changed, moved, added or taken out of the middle. A tail that was cut it finds only when it
//! is told where the stream should end; and without a key, who can write the database can make a chain that fits.

use std::sync::Arc;

use rusqlite::Connection;
use windlass_core::events::Event;

use super::SqliteStore;
use super::chain::{Chain, hex};
use super::error::{Fault, SqliteError};
use super::findings::Finding;
use super::inspect::damage;
use super::journal::{StreamInfo, Walk, find, names};
use super::numbers::{int, uint};
use super::projection::Check;
use super::record::{STORED_COLUMNS, Stored};
use super::runs::decode as decode_run;
use super::schema::{PROJECTIONS, version};
use crate::journal::open_turns::{OpenTurns, TurnChange};
use crate::journal::{JournalError, StreamKey};
use crate::runs::is_run_stream;

/// Where a stream ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    /// The stream.
    pub stream: StreamKey,
    /// The number of its newest record.
    pub seq: u64,
    /// The chain at that record, as hex.
    pub chain: String,
}

/// What a check found.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// Where each checked stream ends; keep it to find a cut tail later.
    pub heads: Vec<StreamHead>,
    /// How many records were checked.
    pub records: u64,
    /// How many were pruned, with only their digests checked.
    pub pruned: u64,
    /// Everything that is wrong; empty when all is well.
    pub findings: Vec<Finding>,
}

impl SqliteStore {
    /// Checks every stream, and that nothing is left that belongs to none.
    pub async fn verify(&self) -> Result<Report, SqliteError> {
        let chain = self.inner.chain.clone();
        let report = self.inner.readers.read(move |reader| {
            let mut report = Report::default();
            let broken = damage(reader).into_iter().map(Finding::general);
            report.findings.extend(broken);
            orphans(reader, &mut report)?;
            let (streams, trouble) = names(reader);
            for stream in streams {
                check_stream(reader, &chain, stream, &mut report);
            }
            let trouble = trouble.map(|fault| SqliteError::from(fault).to_string());
            report.findings.extend(trouble.map(Finding::general));
            Ok(report)
        });
        Ok(report.await?)
    }

    /// Checks one stream, and with an expected head also that it still reaches to there.
    pub async fn verify_stream(
        &self,
        stream: &StreamKey,
        expected: Option<StreamHead>,
    ) -> Result<Report, SqliteError> {
        let (key, chain) = (stream.clone(), self.inner.chain.clone());
        let report = self.inner.readers.read(move |reader| {
            let mut report = Report::default();
            match find(reader, &key)? {
                Some(stream) => check_stream(reader, &chain, stream, &mut report),
                None => report
                    .findings
                    .push(Finding::of_stream(&key, "it is missing")),
            }
            if let Some(expected) = expected {
                check_head(reader, &key, &expected, &mut report)?;
            }
            Ok(report)
        });
        Ok(report.await?)
    }
}

/// Reads the event of a record; one of a run is read too, but is no event.
fn event_of(stored: &Stored<'_>, key: &StreamKey) -> Result<Option<Arc<Event>>, JournalError> {
    if is_run_stream(key) {
        return decode_run(stored, key).map(|_| None);
    }
    stored.decode(key).map(Some)
}

/// Checks one stream to its end. What cannot be read is a finding too.
fn check_stream(reader: &Connection, chain: &Chain, stream: StreamInfo, report: &mut Report) {
    let key = stream.key.clone();
    if let Err(fault) = walk(reader, chain, stream, report) {
        let what = SqliteError::from(fault).to_string();
        report.findings.push(Finding::of_stream(&key, what));
    }
}

fn walk(
    reader: &Connection,
    chain: &Chain,
    stream: StreamInfo,
    report: &mut Report,
) -> Result<(), Fault> {
    let transaction = reader.unchecked_transaction()?;
    let mut statement = transaction.prepare_cached(&format!(
        "SELECT {STORED_COLUMNS}, open_from FROM placed \
         WHERE stream = ?1 ORDER BY seq"
    ))?;
    let mut rows = statement.query([int(stream.stream)])?;
    // Where a record cannot be read, what should be listed is not known.
    let is_run = is_run_stream(&stream.key);
    let mut check = match is_run || version(&transaction)? < PROJECTIONS {
        true => None,
        false => Some(Check::begin(&transaction, stream.stream)?),
    };
    let mut walk = Walk::begin(&transaction, chain, stream);
    let mut open = OpenTurns::default();
    while let Some(row) = rows.next()? {
        let stored = Stored::from_row(&transaction, row)?;
        report.records += 1;
        let followed = match walk.step(&stored) {
            Ok(()) => event_of(&stored, walk.key()),
            Err(Fault::Journal(error)) => Err(error),
            Err(fault) => return Err(fault),
        };
        match followed {
            Ok(event) => {
                if let Some(event) = event {
                    check.as_mut().map_or(Ok(()), |check| check.step(&event))?;
                    open.apply(stored.seq, TurnChange::of(&event));
                }
                if open.first().unwrap_or(0) != uint(row, 5)? {
                    let what = "its note of the oldest open turn is wrong";
                    report
                        .findings
                        .push(Finding::of_record(walk.key(), stored.seq, what));
                }
            }
            Err(error) => {
                report.findings.push(Finding::of_error(walk.key(), error));
                walk.resume(&stored);
                check = None;
            }
        }
    }
    if let Err(Fault::Journal(error)) = walk.end() {
        report.findings.push(Finding::of_error(walk.key(), error));
        check = None;
    }
    let differences = check.map_or(Ok(Vec::new()), Check::end)?;
    let differences = differences.into_iter();
    report
        .findings
        .extend(differences.map(|what| Finding::of_stream(walk.key(), what)));
    report.pruned += walk
        .pruned
        .iter()
        .map(|gap| gap.end() - gap.start() + 1)
        .sum::<u64>();
    report.heads.push(StreamHead {
        stream: walk.key().clone(),
        seq: walk.seq(),
        chain: hex(walk.link()),
    });
    Ok(())
}

/// Looks for what somebody saw at the end of a stream.
fn check_head(
    reader: &Connection,
    key: &StreamKey,
    expected: &StreamHead,
    report: &mut Report,
) -> Result<(), Fault> {
    let Some(head) = report.heads.first() else {
        return Ok(());
    };
    let seq = expected.seq;
    let what = if head.seq < seq {
        format!(
            "it ends at {}, and {seq} was expected: its tail was cut",
            head.seq
        )
    } else {
        let at = link_at(reader, key, seq)?;
        if at.is_none_or(|link| link == expected.chain) {
            return Ok(());
        }
        format!("its record {seq} is not the one that was seen there")
    };
    report.findings.push(Finding::of_stream(key, what));
    Ok(())
}

/// Returns the stored link of a record, or of a gap that ends with it; `None` inside of a gap and at 0.
fn link_at(reader: &Connection, key: &StreamKey, seq: u64) -> Result<Option<String>, Fault> {
    let mut statement = reader.prepare_cached(
        "SELECT chain FROM placed \
         WHERE stream = (SELECT id FROM streams WHERE key = ?1) AND seq = ?2 \
         UNION ALL SELECT chain FROM pruned JOIN streams ON streams.id = pruned.stream \
         WHERE streams.key = ?1 AND pruned.last = ?2",
    )?;
    let mut rows = statement.query((key.as_str(), int(seq)))?;
    Ok(match rows.next()? {
        Some(row) => Some(hex(&row.get(0)?)),
        None => None,
    })
}

type Orphans = (&'static str, &'static str);

const ORPHANS: [Orphans; 5] = [
    (
        "records belong to no stream",
        "SELECT count(*) FROM records WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "records have no place in their stream",
        "SELECT count(*) FROM records WHERE NOT EXISTS \
         (SELECT 1 FROM places WHERE places.stream = records.stream AND places.seq = records.seq \
         AND places.position = records.position) AND NOT EXISTS \
         (SELECT 1 FROM recent_places WHERE recent_places.stream = records.stream \
         AND recent_places.seq = records.seq AND recent_places.position = records.position)",
    ),
    (
        "places in streams are those of no record",
        "SELECT count(*) FROM (SELECT * FROM places UNION ALL SELECT * FROM recent_places) AS place \
         WHERE NOT EXISTS (SELECT 1 FROM records WHERE records.position = place.position \
         AND records.stream = place.stream AND records.seq = place.seq)",
    ),
    (
        "pruned ranges belong to no stream",
        "SELECT count(*) FROM pruned WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "blobs are named by no record",
        "SELECT count(*) FROM blobs WHERE NOT EXISTS \
         (SELECT 1 FROM records WHERE form = 1 AND body = blobs.hash)",
    ),
];

const PROJECTION_ORPHANS: [Orphans; 4] = [
    (
        "rows of threads belong to no stream",
        "SELECT count(*) FROM threads WHERE stream NOT IN (SELECT id FROM streams)",
    ),
    (
        "rows of turns belong to no stream",
        "SELECT count(*) FROM turns WHERE key >> 32 NOT IN (SELECT id FROM streams)",
    ),
    (
        "rows of items belong to no stream",
        "SELECT count(*) FROM items WHERE key >> 32 NOT IN (SELECT id FROM streams)",
    ),
    (
        "rows of messages belong to no stream",
        "SELECT count(*) FROM messages WHERE key >> 32 NOT IN (SELECT id FROM streams)",
    ),
];

/// Rows that nobody can reach.
fn orphans(reader: &Connection, report: &mut Report) -> Result<(), Fault> {
    let of_projections = match version(reader)? < PROJECTIONS {
        true => &[][..],
        false => &PROJECTION_ORPHANS,
    };
    for (what, query) in ORPHANS.iter().chain(of_projections) {
        match reader.query_row(query, [], |row| uint(row, 0)) {
            Ok(0) => {}
            Ok(count) => report
                .findings
                .push(Finding::general(format!("{count} {what}"))),
            Err(error) => report.findings.push(Finding::general(error.to_string())),
        }
    }
    Ok(())
}
