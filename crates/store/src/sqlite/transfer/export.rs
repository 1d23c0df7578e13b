//! Exports everything as JSON lines.
//!
//! The first line names the format. Then come the records of harnesses, agents and sessions, and each stream: its events as stored, to the byte;
//! pruned records, as digests; and a last line with the number and the digest of all. Records that forks share are written once, with the stream that
//! contains them, even if that was removed; the fork refers to the position. A damaged record becomes a line that reports the damage, and the export
//! continues: this is how a damaged database is saved.
//!
//! Streams of jobs are omitted. The state of a queue is in rows of the host, which are not exported, and job records without them cannot be found.

use std::collections::HashMap;
use std::io::{BufWriter, Write};

use rusqlite::Connection;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use windlass_core::typed_id::SessionId;

use crate::durable::chain::{Chain, Digest, hex};
use crate::durable::record::{RecordBuffer, StoredRecord};
use crate::journal::{JournalError, StreamKey};
use crate::sqlite::SqliteStore;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::journal::ancestry::{Lineage, retained_streams};
use crate::sqlite::journal::spans::{IN_ORDER, PLACED_COLUMNS};
use crate::sqlite::journal::{ChainWalk, StreamInfo, names};
use crate::sqlite::numbers::int;
use crate::sqlite::verify::verify_report::Finding;

/// The newest version of the format. An export that needs no later feature has version 1, which earlier programs can read.
pub(crate) const FORMAT: u32 = 3;
const WITH_FORKS: u32 = 2;
const PLAIN: u32 = 1;

/// Prefix of the names of job streams.
pub(crate) const OF_WORK: &str = "work:";

/// One line of an export.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ExportLine {
    /// The first line.
    WindlassExport { format: u32 },
    /// Record of a harness.
    Harness(Box<RawValue>),
    /// Record of an agent.
    Agent(Box<RawValue>),
    /// Record of a session.
    Session(Box<RawValue>),
    /// Start of a stream.
    Stream(String),
    /// Start of a stream that was removed and is retained for its forks.
    #[serde(rename = "kept")]
    RetainedStream(String),
    /// The current stream continues after a record of the `parent`th stream of the export; `chain` is the link of that record.
    Fork {
        parent: u64,
        seq: u64,
        session: SessionId,
        chain: String,
    },
    /// A record of the current stream.
    Record {
        seq: u64,
        version: u32,
        event: Box<RawValue>,
    },
    /// A range of pruned records with their digests.
    Pruned {
        first: u64,
        digests: Vec<String>,
        /// Whether they form whole turns.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        turns: bool,
    },
    /// A range of pruned records without digests; `chain` is the link of the last one.
    Condensed {
        first: u64,
        last: u64,
        chain: String,
        /// Whether they form whole turns.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        turns: bool,
    },
    /// An unreadable record of the current stream.
    Damaged { seq: u64, what: String },
    /// End of the stream, with the digest of all its records.
    End { seq: u64, digest: String },
}

/// The contents of an export.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ExportReport {
    /// How many streams were written.
    pub streams: u64,
    /// Number of records in them.
    pub records: u64,
    /// Number of omitted job streams: the queues of tasks, automations and fleets.
    pub left_out: u64,
    /// The data that could not be exported; empty if all is well.
    pub findings: Vec<Finding>,
}

impl SqliteStore {
    /// Writes everything as JSON lines and returns the writer. Files, values and secrets are not exported.
    pub async fn export<W: Write + Send + 'static>(
        &self,
        out: W,
    ) -> Result<(W, ExportReport), SqliteError> {
        let chain = self.inner.chain.clone();
        self.read(move |reader| {
            let mut export = Exporter {
                out: BufWriter::new(out),
                report: ExportReport::default(),
                numbers: HashMap::new(),
            };
            let has_rows = |query| reader.prepare(query)?.exists([]);
            let has_condensed = has_rows("SELECT 1 FROM pruned WHERE length(digests) = 0 LIMIT 1");
            // If this cannot be determined, assume that there are some.
            let format = match (has_condensed, has_rows("SELECT 1 FROM forks LIMIT 1")) {
                (Ok(false), Ok(false)) => PLAIN,
                (Ok(false), _) => WITH_FORKS,
                _ => FORMAT,
            };
            export.write(&ExportLine::WindlassExport { format })?;
            for table in TABLES {
                export.table(reader, table)?;
            }
            let (streams, names_error) = names(reader);
            let begun = streams
                .into_iter()
                .map(|stream| (stream, ExportLine::Stream as BeginLine));
            let (retained, retained_error) = retained_streams(reader);
            let retained = retained
                .into_iter()
                .map(|stream| (stream, ExportLine::RetainedStream as BeginLine));
            let mut begun: Vec<_> = begun.chain(retained).collect();
            // A fork is younger than its parent.
            begun.sort_unstable_by_key(|(stream, _)| stream.stream);
            for (stream, begin) in begun {
                if stream.key.as_str().starts_with(OF_WORK) {
                    export.report.left_out += 1;
                    continue;
                }
                export.stream(reader, &chain, &stream, begin)?;
            }
            for error in names_error.into_iter().chain(retained_error) {
                export.report_failure(None, Err(error))?;
            }
            let out = export
                .out
                .into_inner()
                .map_err(|error| write_error(error.error()))?;
            Ok((out, export.report))
        })
        .await
    }
}

/// Builds the first line of a stream.
type BeginLine = fn(String) -> ExportLine;

type ExportTable = (&'static str, fn(Box<RawValue>) -> ExportLine);

const TABLES: [ExportTable; 3] = [
    ("harnesses", ExportLine::Harness),
    ("agents", ExportLine::Agent),
    ("sessions", ExportLine::Session),
];

struct Exporter<W: Write> {
    out: BufWriter<W>,
    report: ExportReport,
    /// The numbers in the export of the streams of the database.
    numbers: HashMap<u64, u64>,
}

fn write_error(error: &std::io::Error) -> DbError {
    DbError::unavailable(format!("the export cannot be written: {error}"))
}

impl<W: Write> Exporter<W> {
    fn write(&mut self, line: &ExportLine) -> DbResult<()> {
        serde_json::to_writer(&mut self.out, line)
            .map_err(std::io::Error::from)
            .and_then(|()| self.out.write_all(b"\n"))
            .map_err(|error| write_error(&error))
    }

    /// Records a failure of SQLite as a finding; only a failure of the output ends the export.
    fn report_failure(&mut self, stream: Option<&StreamKey>, done: DbResult<()>) -> DbResult<()> {
        match done {
            Err(DbError::Sql(error)) => {
                let what = error.to_string();
                let finding = match stream {
                    Some(stream) => Finding::of_stream(stream, what),
                    None => Finding::general(what),
                };
                self.report.findings.push(finding);
                Ok(())
            }
            done => done,
        }
    }

    fn table(&mut self, reader: &Connection, table: ExportTable) -> DbResult<()> {
        let done = self.rows(reader, table);
        self.report_failure(None, done)
    }

    fn rows(&mut self, reader: &Connection, (table, make): ExportTable) -> DbResult<()> {
        let mut statement = reader.prepare(&format!("SELECT record FROM {table} ORDER BY id"))?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            match RawValue::from_string(row.get(0)?) {
                Ok(record) => self.write(&make(record))?,
                Err(error) => {
                    let what = format!("a record of {table} cannot be read: {error}");
                    self.report.findings.push(Finding::general(what));
                }
            }
        }
        Ok(())
    }

    fn stream(
        &mut self,
        reader: &Connection,
        chain: &Chain,
        stream: &StreamInfo,
        begin: BeginLine,
    ) -> DbResult<()> {
        self.write(&begin(stream.key.to_string()))?;
        self.report.streams += 1;
        self.numbers.insert(stream.stream, self.report.streams);
        let done = self.records(reader, chain, stream);
        self.report_failure(Some(&stream.key), done)
    }

    /// Writes the origin of a fork, or a line that reports that it cannot be found.
    fn fork(&mut self, lineage: &Lineage, link: &Digest) -> DbResult<()> {
        let seq = lineage.own().after;
        let parent = self.numbers.get(&lineage.part_of(seq).stream).copied();
        if let (Some(parent), Some(session)) = (parent, lineage.session) {
            let chain = hex(link);
            self.write(&ExportLine::Fork {
                parent,
                seq,
                session,
                chain,
            })?;
        }
        Ok(())
    }

    fn damaged(&mut self, key: &StreamKey, error: JournalError, seq: u64) -> DbResult<()> {
        let finding = Finding::of_error(key, error);
        self.write(&ExportLine::Damaged {
            seq: finding.seq.unwrap_or(seq),
            what: finding.what.clone(),
        })?;
        self.report.findings.push(finding);
        Ok(())
    }

    fn records(&mut self, reader: &Connection, chain: &Chain, stream: &StreamInfo) -> DbResult<()> {
        let transaction = reader.unchecked_transaction()?;
        let mut statement = transaction.prepare_cached(&format!(
            "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 {IN_ORDER}"
        ))?;
        let mut rows = statement.query([int(stream.stream)])?;
        let walk = Lineage::load(&transaction, &stream.key, stream.stream).and_then(|lineage| {
            let walk = ChainWalk::own(&transaction, chain, lineage.clone())?;
            Ok((lineage, walk))
        });
        let (lineage, mut walk) = match walk {
            Ok(walk) => walk,
            // The shared records are unavailable, and its own records are useless without them.
            Err(DbError::Journal(error)) => return self.damaged(&stream.key, error, 0),
            Err(error) => return Err(error),
        };
        if lineage.is_fork() {
            self.fork(&lineage, walk.link())?;
        }
        let mut total = blake3::Hasher::new();
        let mut buffer = RecordBuffer::default();
        while let Some(row) = rows.next()? {
            let stored = StoredRecord::from_row(&transaction, row, &mut buffer)?;
            match self.record(&mut walk, &stored, &mut total) {
                Err(DbError::Journal(error)) => {
                    let key = walk.key().clone();
                    self.damaged(&key, error, stored.seq)?;
                    walk.resume(&stored);
                }
                done => done?,
            }
        }
        if let Err(DbError::Journal(error)) = walk.end() {
            self.report
                .findings
                .push(Finding::of_error(walk.key(), error));
        }
        self.write(&ExportLine::End {
            seq: walk.seq(),
            digest: hex(total.finalize().as_bytes()),
        })
    }

    fn record(
        &mut self,
        walk: &mut ChainWalk<'_>,
        stored: &StoredRecord<'_>,
        total: &mut blake3::Hasher,
    ) -> DbResult<()> {
        while walk.seq() + 1 < stored.seq {
            let first = walk.seq() + 1;
            walk.step_over_gap()?;
            let turns = walk.has_turns(&(first..=walk.seq()))?;
            if walk.digests.is_empty() {
                total.update(walk.link());
                self.write(&ExportLine::Condensed {
                    first,
                    last: walk.seq(),
                    chain: hex(walk.link()),
                    turns,
                })?;
                continue;
            }
            let (digests, _) = walk.digests.as_chunks::<32>();
            total.update(digests.as_flattened());
            let digests = digests.iter().map(hex).collect();
            self.write(&ExportLine::Pruned {
                first,
                digests,
                turns,
            })?;
        }
        walk.step(stored)?;
        let damaged = |what: String| walk.damaged(stored.seq, &what);
        let (bytes, digest) = stored.checked_bytes().map_err(damaged)?;
        let event = std::str::from_utf8(bytes)
            .map_err(|error| damaged(error.to_string()))
            .and_then(|text| {
                RawValue::from_string(text.to_owned()).map_err(|error| damaged(error.to_string()))
            })?;
        total.update(&digest);
        self.report.records += 1;
        self.write(&ExportLine::Record {
            seq: stored.seq,
            version: stored.json_version(),
            event,
        })
    }
}
