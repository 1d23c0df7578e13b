//! Checks the journal against itself, and the rows of the read model against the journal.
//!
//! It detects records that were changed, moved, added or removed from the middle. It detects a truncated tail only if the caller passes the expected
//! end of the stream. Without a key, an attacker who can write the database can forge a valid chain.

pub(super) mod orphans;
pub(super) mod verify_report;

use std::collections::HashMap;
use std::sync::Arc;

use rusqlite::Connection;
use windlass_core::events::Event;
use windlass_core::runs::RunRecord;

use super::SqliteStore;
use super::error::{DbError, DbResult, SqliteError};
use super::journal::ancestry::{Lineage, retained_streams};
use super::journal::fork::open_at;
use super::journal::spans::{IN_ORDER, PLACED_COLUMNS, at};
use super::journal::{ChainWalk, StreamInfo, find, names};
use super::numbers::{int, uint};
use super::open::inspect::damage;
use super::queries::{RunCheck, ThreadRowCheck};
use super::retention::deferred_delete::is_being_removed;
use super::stores::runs::decode as decode_run;
use crate::durable::chain::{Chain, hex};
use crate::durable::record::{RecordBuffer, StoredRecord};
use crate::journal::open_turns::{OpenTurns, TurnChange};
use crate::journal::{ChainCheck, JournalError, StreamKey};
use crate::runs::is_run_stream;
use orphans::orphans;
use verify_report::Finding;

/// The end of a stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StreamHead {
    pub stream: StreamKey,
    /// The number of its newest record.
    pub seq: u64,
    /// The chain at that record, as hex.
    pub chain: String,
}

/// The result of a check.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Report {
    /// The end of each checked stream; store it to detect a truncated tail later.
    pub heads: Vec<StreamHead>,
    /// Number of checked records.
    pub records: u64,
    /// Number of pruned records, of which only the digests were checked.
    pub pruned: u64,
    /// All problems; empty for a valid store.
    pub findings: Vec<Finding>,
}

impl SqliteStore {
    /// Checks every stream, and that every row belongs to a stream.
    pub async fn verify(&self) -> Result<Report, SqliteError> {
        let chain = self.inner.chain.clone();
        self.read(move |reader| {
            let mut report = Report::default();
            let broken = damage(reader).into_iter().map(Finding::general);
            report.findings.extend(broken);
            report.findings.extend(orphans(reader)?);
            let (streams, errors) = names(reader);
            let mut checked = Checked::default();
            let (retained, retained_error) = retained_streams(reader);
            for stream in retained {
                checked.check(reader, &chain, &stream, &mut report);
                // A stream that is being deleted may still have rows, which are not needed any more.
                if !is_being_removed(reader, stream.stream)? {
                    checked.report_row_findings(stream.stream, &mut report);
                }
            }
            // A stream that is only retained for its forks accepts no appends.
            report.heads.clear();
            for stream in &streams {
                checked.check(reader, &chain, stream, &mut report);
            }
            for stream in &streams {
                checked.report(reader, stream, &mut report);
            }
            let errors = errors.into_iter().chain(retained_error);
            let errors = errors.map(|error| SqliteError::from(error).to_string());
            report.findings.extend(errors.map(Finding::general));
            Ok(report)
        })
        .await
    }

    /// Checks one stream, and with an expected head also that it still reaches to there.
    pub async fn verify_stream(
        &self,
        stream: &StreamKey,
        expected: Option<StreamHead>,
    ) -> Result<Report, SqliteError> {
        let (key, chain) = (stream.clone(), self.inner.chain.clone());
        self.read(move |reader| {
            let mut report = stream_report(reader, &chain, &key)?;
            if let Some(expected) = expected {
                check_head(reader, &key, &expected, &mut report)?;
            }
            Ok(report)
        })
        .await
    }
}

/// Checks one stream for the journal.
pub(super) fn check_chain(
    reader: &Connection,
    chain: &Chain,
    key: &StreamKey,
) -> DbResult<ChainCheck> {
    let report = stream_report(reader, chain, key)?;
    let findings = report.findings.into_iter();
    let head = report.heads.into_iter().next();
    let (head, chain) = head.map_or((0, String::new()), |head| (head.seq, head.chain));
    Ok(ChainCheck {
        head,
        chain,
        pruned: report.pruned,
        findings: findings
            .map(|finding| (finding.seq, finding.what))
            .collect(),
    })
}

fn stream_report(reader: &Connection, chain: &Chain, key: &StreamKey) -> DbResult<Report> {
    let mut report = Report::default();
    match find(reader, key)? {
        Some(stream) => check_stream(reader, chain, &stream, &mut report),
        None => report
            .findings
            .push(Finding::of_stream(key, "it is missing")),
    }
    Ok(report)
}

/// The decoded content of a record.
enum RecordContent {
    Event(Arc<Event>),
    OfRun(RunRecord),
}

fn content(stored: &StoredRecord<'_>, key: &StreamKey) -> Result<RecordContent, JournalError> {
    if is_run_stream(key) {
        return decode_run(stored, key).map(RecordContent::OfRun);
    }
    stored.decode(key).map(RecordContent::Event)
}

/// The comparison of a stream with its rows.
enum Checks<'a> {
    Thread(Box<ThreadRowCheck<'a>>),
    Run(Box<RunCheck>),
}

impl<'a> Checks<'a> {
    fn begin(reader: &'a Connection, stream: &StreamInfo) -> DbResult<Self> {
        let (number, key) = (stream.stream, &stream.key);
        Ok(if is_run_stream(key) {
            Self::Run(Box::new(RunCheck::begin(reader, number)?))
        } else {
            Self::Thread(Box::new(ThreadRowCheck::begin(reader, key, number)?))
        })
    }

    fn step(&mut self, content: &RecordContent, (seq, position): (u64, u64)) {
        match (self, content) {
            (Self::Thread(thread), RecordContent::Event(event)) => thread.step(event, position),
            (Self::Run(run), RecordContent::OfRun(record)) => run.step(record, (seq, position)),
            _ => {}
        }
    }

    fn end(self) -> Vec<String> {
        match self {
            Self::Thread(thread) => thread.end(),
            Self::Run(run) => run.end(),
        }
    }
}

/// The findings in the own records of each checked stream.
#[derive(Default)]
struct Checked {
    by_stream: HashMap<u64, Vec<Finding>>,
}

impl Checked {
    /// Checks all own records of a stream. Unreadable ones are findings too.
    fn check(
        &mut self,
        reader: &Connection,
        chain: &Chain,
        stream: &StreamInfo,
        report: &mut Report,
    ) {
        let before = report.findings.len();
        if let Err(error) = walk(reader, chain, stream, report) {
            let what = SqliteError::from(error).to_string();
            report.findings.push(Finding::of_stream(&stream.key, what));
        }
        let found = report.findings.split_off(before);
        self.by_stream.insert(stream.stream, found);
    }

    /// Reports findings in the rows of a stream that is retained for its forks; the forks report those in its records.
    fn report_row_findings(&self, stream: u64, report: &mut Report) {
        let findings = self.by_stream.get(&stream).into_iter().flatten();
        let of_rows = findings.filter(|finding| finding.seq.is_none());
        report.findings.extend(of_rows.cloned());
    }

    /// Reports the findings of a stream, including those in its shared records.
    fn report(&self, reader: &Connection, stream: &StreamInfo, report: &mut Report) {
        let findings_of = |stream: u64| self.by_stream.get(&stream).into_iter().flatten();
        // A broken lineage was reported when the stream was checked.
        if let Ok(lineage) = Lineage::load(reader, &stream.key, stream.stream) {
            for part in lineage.parts.iter().filter(|part| part.last < u64::MAX) {
                let is_shared = |seq: u64| part.after < seq && seq <= part.last;
                let shared = findings_of(part.stream).filter(|it| it.seq.is_some_and(is_shared));
                report.findings.extend(shared.map(|finding| Finding {
                    stream: Some(stream.key.clone()),
                    ..finding.clone()
                }));
            }
        }
        let own = findings_of(stream.stream).cloned();
        report.findings.extend(own);
    }
}

/// Checks one stream and its shared records.
fn check_stream(reader: &Connection, chain: &Chain, stream: &StreamInfo, report: &mut Report) {
    let mut checked = Checked::default();
    if let Ok(lineage) = Lineage::load(reader, &stream.key, stream.stream) {
        for part in lineage.parts.iter().filter(|part| part.last < u64::MAX) {
            let holder = StreamInfo {
                key: part.key.clone(),
                stream: part.stream,
                head: 0,
                open_from: None,
            };
            checked.check(reader, chain, &holder, &mut Report::default());
        }
    }
    checked.check(reader, chain, stream, report);
    checked.report(reader, stream, report);
}

fn walk(
    reader: &Connection,
    chain: &Chain,
    stream: &StreamInfo,
    report: &mut Report,
) -> DbResult<()> {
    let transaction = reader.unchecked_transaction()?;
    let mut statement = transaction.prepare_cached(&format!(
        "SELECT {PLACED_COLUMNS}, open_from FROM placed WHERE stream = ?1 {IN_ORDER}"
    ))?;
    let mut rows = statement.query([int(stream.stream)])?;
    let lineage = Lineage::load(&transaction, &stream.key, stream.stream)?;
    // After an unreadable record, the expected rows are unknown.
    let mut checks = Some(Checks::begin(&transaction, stream)?);
    let mut open = OpenNotes {
        open: if lineage.is_fork() {
            open_at(&transaction, &lineage, lineage.own().after)?
        } else {
            OpenTurns::default()
        },
        cut_upto: 0,
    };
    let mut walk = ChainWalk::own(&transaction, chain, lineage)?;
    let mut buffer = RecordBuffer::default();
    while let Some(row) = rows.next()? {
        let stored = StoredRecord::from_row(&transaction, row, &mut buffer)?;
        report.records += 1;
        let followed = match walk.step(&stored) {
            Ok(()) => content(&stored, walk.key()),
            Err(DbError::Journal(error)) => Err(error),
            Err(error) => return Err(error),
        };
        match followed {
            Ok(content) => {
                if let Some(checks) = &mut checks {
                    checks.step(&content, (stored.seq, uint(row, 6)?));
                }
                if let Some(gap) = walk.pruned.last()
                    && *gap.end() + 1 == stored.seq
                    && walk.has_turns(gap)?
                {
                    open.pass_gap(*gap.end());
                }
                if !open.is_right(&content, stored.seq, uint(row, 8)?) {
                    let what = "its note of the oldest open turn is wrong";
                    report
                        .findings
                        .push(Finding::of_record(walk.key(), stored.seq, what));
                }
            }
            Err(error) => {
                report.findings.push(Finding::of_error(walk.key(), error));
                walk.resume(&stored);
                checks = None;
            }
        }
    }
    if let Err(DbError::Journal(error)) = walk.end() {
        report.findings.push(Finding::of_error(walk.key(), error));
        checks = None;
    }
    let differences = checks.map_or_else(Vec::new, Checks::end).into_iter();
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

/// Checks the oldest open turn that each record refers to.
struct OpenNotes {
    open: OpenTurns,
    /// The last record of a gap whose turns may have records after it; 0 if there is none.
    cut_upto: u64,
}

impl OpenNotes {
    /// Skips records of ended turns that retention removed. A process that died during the removal leaves the rest of a turn, and a fork retains the
    /// beginning of one.
    fn pass_gap(&mut self, last: u64) {
        self.open = OpenTurns::default();
        self.cut_upto = last;
    }

    /// Passes a record; returns whether its note is right.
    fn is_right(&mut self, content: &RecordContent, seq: u64, note: u64) -> bool {
        if let RecordContent::Event(event) = content {
            self.open.apply(seq, TurnChange::of(event));
        }
        if (1..=self.cut_upto).contains(&note) {
            return true;
        }
        self.cut_upto = 0;
        self.open.first().unwrap_or(0) == note
    }
}

/// Checks that the record at an earlier end of a stream is still there and unchanged.
fn check_head(
    reader: &Connection,
    key: &StreamKey,
    expected: &StreamHead,
    report: &mut Report,
) -> DbResult<()> {
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
fn link_at(reader: &Connection, key: &StreamKey, seq: u64) -> DbResult<Option<String>> {
    let Some(stream) = find(reader, key)? else {
        return Ok(None);
    };
    let lineage = Lineage::load(reader, key, stream.stream)?;
    let mut statement = reader.prepare_cached(concat!(
        "SELECT chain FROM placed WHERE stream = ?1 AND ",
        at!("?2"),
        " UNION ALL SELECT chain FROM pruned WHERE stream = ?1 AND last = ?2"
    ))?;
    let mut rows = statement.query([int(lineage.part_of(seq).stream), int(seq)])?;
    Ok(match rows.next()? {
        Some(row) => Some(hex(&row.get(0)?)),
        None => None,
    })
}
