//! Appending: all checks first, then the rows.

use std::sync::Arc;

use chrono::Utc;
use rusqlite::{CachedStatement, Connection};
use windlass_core::events::Event;

use super::heads::Head;
use super::spans::SpanWriter;
use crate::durable::record::Encoded;
use crate::host_records::RowWrite;
use crate::journal::{Claim, JournalError};
use crate::ledger::Settlement;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::numbers::int;
use crate::sqlite::stores::host_records;
use crate::sqlite::stores::ledger;
use crate::sqlite::write::committer::State;
use crate::sqlite::write::stream_notifier::Wakeup;
use crate::sqlite::write::writer::WriteContext;

/// Records to append to a stream.
pub(crate) struct Append {
    pub(crate) stream: u64,
    pub(crate) epoch: u64,
    pub(crate) first_seq: u64,
    pub(crate) records: Vec<Encoded>,
    /// The same records as events for watchers; empty for a run.
    pub(crate) events: Vec<Arc<Event>>,
    /// Rows of the host that become durable with them.
    pub(crate) puts: Vec<RowWrite>,
    /// The spending of the steps that end with them.
    pub(crate) settlements: Vec<Settlement>,
}

impl Append {
    /// Builds an append of records without events for watchers, host rows and settlements.
    pub(crate) fn new((stream, epoch): (u64, u64), first_seq: u64, records: Vec<Encoded>) -> Self {
        Self {
            stream,
            epoch,
            first_seq,
            records,
            events: Vec::new(),
            puts: Vec::new(),
            settlements: Vec::new(),
        }
    }

    /// Writes the records and returns them, so that another thread frees their memory.
    pub(crate) fn run(self, work: &mut WriteContext<'_>) -> DbResult<Vec<Encoded>> {
        let head = work.state.heads.get(work.db, self.stream)?;
        self.check(head)?;
        let at = self.events.last().map_or_else(Utc::now, |event| event.ts);
        host_records::apply(work.db, &self.puts, at)?;
        ledger::settle(work.db, &self.settlements)?;
        if self.records.is_empty() {
            return Ok(self.records);
        }
        let mut head = head.clone();
        let mut insert = Insert::new(work.db)?;
        for record in &self.records {
            head.advance(work.state.heads.chain(), &record.digest);
            head.open.apply(head.seq, record.turn);
            insert.run(work.state, self.stream, &head, record)?;
        }
        insert.end()?;
        let sizes = self.records.iter().map(|record| record.size);
        let written = self.events.into_iter().zip(sizes).collect();
        let wakeup = Wakeup::Head(head.key.clone(), head.seq, written);
        work.state.wakeups.push(wakeup);
        work.state.heads.put(self.stream, head);
        Ok(self.records)
    }

    fn check(&self, head: &Head) -> Result<(), JournalError> {
        let claim = Claim {
            stream: self.stream,
            epoch: self.epoch,
            head: 0,
        };
        let numbers = self.records.iter().map(|record| record.seq);
        claim.check_append((head.epoch, head.seq), self.first_seq, numbers)
    }
}

/// Writes consecutive records.
pub(crate) struct Insert<'a> {
    db: &'a Connection,
    record: CachedStatement<'a>,
    spans: SpanWriter<'a>,
}

impl<'a> Insert<'a> {
    pub(crate) fn new(db: &'a Connection) -> DbResult<Self> {
        Ok(Self {
            db,
            record: db.prepare_cached(
                "INSERT INTO records \
                 (position, stream, seq, version, form, chunk, open_from, at, commits, chain, body) \
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
            )?,
            spans: SpanWriter::new(db)?,
        })
    }

    /// Writes one record; `head` is the stream with the record in it. It can be read after the [end](Self::end).
    pub(crate) fn run(
        &mut self,
        state: &mut State,
        stream: u64,
        head: &Head,
        record: &Encoded,
    ) -> DbResult<()> {
        let (form, body) = record.body();
        if let Some(bytes) = record.blob() {
            self.db.execute_cached(
                "INSERT OR IGNORE INTO blobs (hash, bytes) VALUES (?1, ?2)",
                (body, bytes),
            )?;
        }
        state.position += 1;
        state.is_numbered = true;
        self.record.execute((
            int(state.position),
            int(stream),
            int(head.seq),
            record.version(),
            form.code(),
            record.is_chunk,
            int(head.open.first().unwrap_or(0)),
            record.at,
            int(state.commit),
            head.chain,
            body,
        ))?;
        state.new_records += 1;
        self.spans.add((stream, head.seq), state.position)
    }

    /// Writes the span of the inserted records.
    pub(crate) fn end(&mut self) -> DbResult<()> {
        self.spans.end()
    }
}
