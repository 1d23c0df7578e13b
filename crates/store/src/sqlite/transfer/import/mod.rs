//! Import of an export.
//!
//! An import is one commit: after a crash or an unreadable line, nothing of it remains. It only adds: records and streams that exist are left
//! unchanged and reported. A stream that exists, is damaged or does not match its last line is omitted and reported. Events are imported to the byte,
//! so the chain under the same key is identical. A fork shares its records again: with the imported parent, or with an existing stream that has the
//! same chain.

mod forks;
mod incoming;
#[cfg(test)]
mod killed;
mod records;
mod spool;

use std::io::BufRead;
use std::sync::Arc;

use windlass_core::agent::Agent;
use windlass_core::events::Event;
use windlass_core::harness::Harness;
use windlass_core::runs::RunRecord;
use windlass_core::session::Session;

use super::export::{ExportLine, FORMAT};
use crate::durable::chain::{Digest, hex};
use crate::durable::record::{Encoded, RECORD_VERSION};
use crate::durable::window::Window;
use crate::journal::StreamKey;
use crate::runs::is_run_stream;
use crate::sqlite::error::{DbError, DbResult, SqliteError};
use crate::sqlite::journal::shared_records::drop_unneeded;
use crate::sqlite::journal::{claim, find, remove_whole};
use crate::sqlite::queries;
use crate::sqlite::verify::verify_report::Finding;
use crate::sqlite::write::writer::WriteContext;
use crate::sqlite::{SqliteStore, run_blocking};
use forks::{ForkOrigin, ImportedStream};
use incoming::{ImportedPiece, Incoming, write};
pub use records::ImportedRecords;
use spool::spool;

/// How many pieces of a stream are written together.
const PIECES: usize = 256;

/// The result of an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ImportReport {
    /// How many streams were imported.
    pub streams: u64,
    /// How many records of them.
    pub records: u64,
    /// Results for records of harnesses.
    pub harnesses: ImportedRecords,
    /// Results for records of agents.
    pub agents: ImportedRecords,
    /// Results for records of sessions.
    pub sessions: ImportedRecords,
    /// The omitted data, with reasons.
    pub findings: Vec<Finding>,
}

impl SqliteStore {
    /// Imports JSON lines in the format of [`export`](Self::export), all or nothing.
    ///
    /// They are buffered in a file of the data directory until all have arrived. Other writers wait only while they are imported from there.
    pub async fn import<R: BufRead + Send + 'static>(
        &self,
        lines: R,
    ) -> Result<ImportReport, SqliteError> {
        let store = self.clone();
        run_blocking(move || {
            let writer = store.inner.writer()?;
            let directory = &store.inner.readers.location().directory;
            let lines = spool(directory, lines).map_err(SqliteError::io(
                "buffer the lines of the import in",
                directory,
            ))?;
            Ok(writer.write_blocking(move |work| import(work, lines))?)
        })
        .await
    }
}

fn import(work: &mut WriteContext<'_>, lines: impl BufRead) -> DbResult<ImportReport> {
    let mut import = Import {
        work,
        stream: None,
        results: Vec::new(),
        retained: Vec::new(),
        report: ImportReport::default(),
    };
    import.read(lines)?;
    import.drop_unneeded()?;
    Ok(import.report)
}

struct Import<'a, 'b> {
    work: &'a mut WriteContext<'b>,
    stream: Option<Incoming>,
    /// The results for the streams of the export, in order.
    results: Vec<ImportedStream>,
    /// The streams that were imported only for their forks.
    retained: Vec<u64>,
    report: ImportReport,
}

impl Import<'_, '_> {
    fn read(&mut self, lines: impl BufRead) -> DbResult<()> {
        let mut has_begun = false;
        for (line, text) in (1..).zip(lines.lines()) {
            #[cfg(test)]
            killed::pass(line);
            let wrong = |why: String| SqliteError::Import { line, why };
            let text = text.map_err(|error| wrong(error.to_string()))?;
            let parsed = serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?;
            match parsed {
                ExportLine::WindlassExport { format } if (1..=FORMAT).contains(&format) => {
                    has_begun = true;
                }
                ExportLine::WindlassExport { format } => {
                    let why = format!("format {format} is not known; use a newer Windlass");
                    return Err(wrong(why).into());
                }
                _ if !has_begun => {
                    return Err(wrong("this is not an export of Windlass".into()).into());
                }
                parsed => self.import(parsed).map_err(|error| match error {
                    DbError::Store(SqliteError::Import { why, .. }) => wrong(why).into(),
                    error => error,
                })?,
            }
        }
        if let Some(stream) = self.stream.take() {
            self.omit(stream, "the export ends within it")?;
        }
        Ok(())
    }

    fn import(&mut self, line: ExportLine) -> DbResult<()> {
        let report = &mut self.report;
        let findings = &mut report.findings;
        match line {
            ExportLine::WindlassExport { .. } => Ok(()),
            ExportLine::Harness(record) => {
                let record = parse::<Harness>(record.get())?;
                records::insert(self.work, &record, &mut report.harnesses, findings)
            }
            ExportLine::Agent(record) => {
                let record = parse::<Agent>(record.get())?;
                records::insert(self.work, &record, &mut report.agents, findings)
            }
            ExportLine::Session(record) => {
                let record = parse::<Session>(record.get())?;
                records::insert(self.work, &record, &mut report.sessions, findings)
            }
            ExportLine::Stream(key) => self.begin(StreamKey::new(key), false),
            ExportLine::RetainedStream(key) => self.begin(StreamKey::new(key), true),
            ExportLine::Fork {
                parent,
                seq,
                session,
                chain,
            } => self.begin_fork(ForkOrigin {
                parent: self.parent(parent),
                seq,
                session,
                chain,
            }),
            ExportLine::Record {
                seq,
                version,
                event,
            } => {
                let text = event.get();
                let stream = self.incoming()?;
                let record = if is_run_stream(&stream.key) {
                    let parsed: RunRecord = parse(text)?;
                    Encoded::of_run(&parsed, text.as_bytes().to_vec(), seq)
                } else {
                    let parsed: Arc<Event> = Arc::new(parse(text)?);
                    Encoded::with_bytes(&parsed, text.as_bytes(), &mut stream.window)
                };
                if version != RECORD_VERSION {
                    stream.refuse(seq, &format!("its version {version} is not known"));
                } else if seq != stream.seq + 1 || record.seq != Some(seq) {
                    stream.refuse(seq, "it is out of order");
                }
                stream.total.update(&record.digest);
                (stream.seq, stream.records) = (seq, stream.records + 1);
                self.put(ImportedPiece::Record(record))
            }
            ExportLine::Pruned {
                first,
                digests,
                turns,
            } => {
                let digests: Vec<Digest> = digests
                    .iter()
                    .map(|text| blake3::Hash::from_hex(text).map(|hash| *hash.as_bytes()))
                    .collect::<Result<_, _>>()
                    .map_err(|error| import_error(error.to_string()))?;
                let stream = self.incoming()?;
                if first != stream.seq + 1 {
                    stream.refuse(first, "a pruned range is out of order");
                }
                stream.total.update(digests.as_flattened());
                stream.seq += digests.len() as u64;
                self.put(ImportedPiece::Gap(digests, turns))
            }
            ExportLine::Condensed {
                first,
                last,
                chain,
                turns,
            } => {
                let chain = blake3::Hash::from_hex(&chain)
                    .map_err(|error| import_error(error.to_string()))?;
                let chain = *chain.as_bytes();
                let stream = self.incoming()?;
                if first != stream.seq + 1 || last < first {
                    stream.refuse(first, "a pruned range is out of order");
                }
                stream.total.update(&chain);
                stream.seq = last;
                self.put(ImportedPiece::Condensed { last, chain, turns })
            }
            ExportLine::Damaged { seq, what } => {
                self.incoming()?.refuse(seq, &what);
                Ok(())
            }
            ExportLine::End { seq, digest } => self.end(seq, &digest),
        }
    }

    fn incoming(&mut self) -> DbResult<&mut Incoming> {
        self.stream
            .as_mut()
            .ok_or_else(|| import_error("no stream has begun".to_owned()))
    }

    fn begin(&mut self, key: StreamKey, is_retained: bool) -> DbResult<()> {
        if let Some(stream) = self.stream.take() {
            self.omit(stream, "it has no end")?;
        }
        let mut refused = None;
        let mut number = 0;
        let mut result = ImportedStream::Omitted;
        if let Some(existing) = find(self.work.db, &key)? {
            refused = Some(Finding::of_stream(&key, "it exists already"));
            result = ImportedStream::Existing(existing.stream);
        } else {
            number = claim(self.work, &key)?.stream;
        }
        self.results.push(result);
        self.stream = Some(Incoming {
            key,
            refused,
            is_retained,
            number,
            seq: 0,
            records: 0,
            total: blake3::Hasher::new(),
            waiting: Vec::new(),
            window: Window::default(),
        });
        Ok(())
    }

    /// Returns the result for the parent of a fork.
    fn parent(&self, number: u64) -> ImportedStream {
        let number = usize::try_from(number).unwrap_or(usize::MAX);
        let before = self.results.len().saturating_sub(1);
        let parents = self.results.get(..before).unwrap_or_default();
        let found = number.checked_sub(1).and_then(|index| parents.get(index));
        found.copied().unwrap_or(ImportedStream::Omitted)
    }

    fn begin_fork(&mut self, origin: ForkOrigin) -> DbResult<()> {
        let stream = self.incoming()?;
        if stream.seq > 0 {
            let why = "a fork begins before its records";
            return Err(import_error(why.to_owned()));
        }
        let (number, seq) = (stream.number, origin.seq);
        stream.seq = seq;
        if stream.refused.is_some() {
            return Ok(());
        }
        if let Err(why) = forks::begin(self.work, number, &origin)? {
            self.incoming()?.refuse(seq, why);
        }
        Ok(())
    }

    /// Removes parents that were retained for forks that the import omitted.
    fn drop_unneeded(&mut self) -> DbResult<()> {
        let retained = std::mem::take(&mut self.retained);
        let mut newest_first = retained.into_iter().rev();
        newest_first.try_for_each(|stream| drop_unneeded(self.work, stream))
    }

    fn put(&mut self, piece: ImportedPiece) -> DbResult<()> {
        let stream = self.incoming()?;
        if stream.refused.is_none() {
            // The pieces end with a record, which contains the state from which the writer continues.
            let is_record = matches!(piece, ImportedPiece::Record(..));
            stream.waiting.push(piece);
            if is_record && stream.waiting.len() >= PIECES {
                return self.flush();
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> DbResult<()> {
        let stream = self.incoming()?;
        let (number, pieces) = (stream.number, std::mem::take(&mut stream.waiting));
        write(self.work, number, pieces)
    }

    fn end(&mut self, seq: u64, digest: &str) -> DbResult<()> {
        let stream = self.incoming()?;
        if stream.seq != seq || hex(stream.total.finalize().as_bytes()) != digest {
            stream.refuse(
                seq,
                "the records before it are not those that were exported",
            );
        } else if matches!(stream.waiting.last(), Some(piece) if !matches!(piece, ImportedPiece::Record(..)))
        {
            stream.refuse(seq, "the newest record is never pruned, but here it is");
        }
        if stream.refused.is_none() {
            self.flush()?;
        }
        let Some(stream) = self.stream.take() else {
            return Ok(());
        };
        if stream.refused.is_some() {
            return self.omit(stream, "");
        }
        let number = stream.number;
        if stream.is_retained {
            forks::hide(self.work, number)?;
            self.retained.push(number);
        } else {
            queries::restore(self.work.db, &stream.key)?;
        }
        if let Some(result) = self.results.last_mut() {
            *result = ImportedStream::Imported(number);
        }
        self.report.streams += 1;
        self.report.records += stream.records;
        Ok(())
    }

    /// Rolls back the written part of a stream.
    fn omit(&mut self, stream: Incoming, why: &str) -> DbResult<()> {
        let key = stream.key.clone();
        let finding = stream
            .refused
            .unwrap_or_else(|| Finding::of_stream(&key, why));
        self.report.findings.push(finding);
        if stream.number > 0 {
            remove_whole(self.work, &key)?;
        }
        Ok(())
    }
}

fn import_error(why: String) -> DbError {
    SqliteError::Import { line: 0, why }.into()
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> DbResult<T> {
    serde_json::from_str(text).map_err(|error| import_error(error.to_string()))
}
