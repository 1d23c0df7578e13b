//! Making the projections anew.

use rusqlite::Connection;

use super::super::SqliteStore;
use super::super::ancestry::{Lineage, is_kept, kept};
use super::super::error::{Fault, SqliteError};
use super::super::findings::Finding;
use super::super::journal::{StreamInfo, find, names};
use super::super::numbers::int;
use super::super::orphans::remove_orphans;
use super::super::{runs, spans, turn_runs};
use super::base::{base_behind, gone};
use super::batches::remove_from;
use super::fold::Fold;
use super::forks::{fork_base, hide, remove};
use super::load::replay;
use super::marks;
use super::rows::Base;
use super::write::write;
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
    /// Makes the spans of all records anew, and what is listed of all streams from their events; `progress` hears of each.
    ///
    /// Each stream is one commit, and others wait for it. Rows whose records are no longer kept stay.
    pub async fn rebuild(
        &self,
        mut progress: impl FnMut(RebuildProgress) + Send,
    ) -> Result<RebuildReport, SqliteError> {
        self.inner.writer()?.write(spans::rebuild).await?;
        let streams = self.inner.readers.read(|reader| match names(reader) {
            (streams, None) => Ok(streams),
            (_, Some(fault)) => Err(fault),
        });
        let streams = streams.await?;
        let writer = self.inner.writer()?;
        let cleared = writer.write(|work| remove_orphans(work.connection));
        cleared.await?;
        let mut report = RebuildReport::default();
        self.rebuild_kept(&mut report).await?;
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

    /// Makes the rows anew that only forks show. They are older than those of the forks, and made before.
    async fn rebuild_kept(&self, report: &mut RebuildReport) -> Result<(), SqliteError> {
        let kept = self.inner.readers.read(|reader| match kept(reader) {
            (streams, None) => Ok(streams),
            (_, Some(fault)) => Err(fault),
        });
        let mut rebuilt = RebuildReport::default();
        for stream in kept.await? {
            self.rebuild_one(stream, &mut rebuilt).await?;
        }
        report.findings.extend(rebuilt.findings);
        Ok(())
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
            if is_run_stream(&stream.key) {
                return runs::refill(work, &stream);
            }
            work.state.projections.give_up(stream.stream);
            refill(work.connection, &stream)?;
            turn_runs::refill(work.connection, &stream)
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
pub(crate) fn fill_if_empty(connection: &Connection) -> Result<(), Fault> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM threads LIMIT 1")?;
    if statement.exists([])? {
        return Ok(());
    }
    let (streams, trouble) = names(connection);
    trouble.map_or(Ok(()), Err)?;
    for stream in streams {
        if is_run_stream(&stream.key) {
            continue;
        }
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
    let is_hidden = is_kept(connection, number)?;
    let mut statement = connection.prepare_cached("SELECT 1 FROM streams WHERE id = ?1")?;
    if !is_hidden && !statement.exists([int(number)])? {
        return Err(JournalError::Removed(number).into());
    }
    let lineage = Lineage::of(connection, &stream.key, number)?;
    if lineage.is_fork() {
        marks::put(connection, number, &fork_base(connection, &lineage)?)?;
    }
    let mut fold = Fold::after(base(connection, &lineage)?);
    let kept = *fold.taken();
    connection
        .prepare_cached("DELETE FROM threads WHERE stream = ?1")?
        .execute([int(number)])?;
    remove_from(connection, number, kept.places())?;
    marks::remove(connection, number, kept.seq)?;
    replay(connection, &stream.key, number, kept.seq, |event, bytes| {
        fold.weigh(bytes);
        fold.apply(event);
        match fold.is_due() {
            true => write(connection, number, &mut fold),
            false => Ok(()),
        }
    })?;
    write(connection, number, &mut fold)?;
    match is_hidden {
        true => hide(connection, number),
        false => Ok(()),
    }
}

/// Returns where the fold of a stream's own records begins: behind turns whose records are gone, or where it left its parent.
pub(super) fn base(connection: &Connection, lineage: &Lineage) -> Result<Base, Fault> {
    let own = lineage.own();
    match gone(connection, own.stream, u64::MAX)? {
        0 if !lineage.is_fork() => Ok(Base::default()),
        0 => Ok(marks::at(connection, own.stream, own.after)?.unwrap_or_default()),
        gone => base_behind(connection, &own.key, own.stream, gone),
    }
}
