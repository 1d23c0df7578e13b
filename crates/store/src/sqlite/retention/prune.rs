//! Removes records and retains their links in the chain.
//!
//! The rows are deleted, and their digests stay in one row for the whole range. So the chain still verifies, and readers learn which numbers were
//! pruned. Damaged records are not pruned, because that would make the damage look intended. Shared records of a fork stay, so a gap may follow them.

use rusqlite::Connection;

use super::sweep::{SweepMark, SweepPlan, Swept, SweptRecord, upto_folded};
use crate::durable::chain::Digest;
use crate::durable::record::{RecordBuffer, StoredRecord};
use crate::durable::window::is_other_group;
use crate::journal::StreamKey;
use crate::sqlite::cached::CachedStatements;
use crate::sqlite::error::DbResult;
use crate::sqlite::journal::ChainWalk;
use crate::sqlite::journal::ancestry::{Lineage, shared_upto};
use crate::sqlite::journal::shared_records::drop_blobs;
use crate::sqlite::journal::spans::{self, IN_ORDER, PLACED_COLUMNS, between};
use crate::sqlite::numbers::int;
use crate::sqlite::queries;
use crate::sqlite::write::writer::WriteContext;

/// The maximum number of digests per row: each step rewrites the row.
const MAX_DIGESTS: u64 = 256;

/// The approximate number of records that one commit removes.
const STEP: usize = 64;
/// Their maximum size in bytes: each is read and hashed.
const STEP_BYTES: u64 = 512 * 1024;

/// Records of a stream that one commit removes, and the mark that it stores.
#[derive(Debug, Clone)]
pub(crate) struct Prune {
    key: StreamKey,
    stream: u64,
    numbers: Vec<u64>,
    /// Whether they form whole turns.
    has_turns: bool,
    note: Option<SweepMark>,
}

/// Splits the results of a sweep into commits. Records that may refer to each other stay together.
pub(crate) fn steps(of: &Swept, plan: &SweepPlan, has_turns: bool) -> Vec<Prune> {
    let step = |numbers: Vec<u64>| Prune {
        key: of.key.clone(),
        stream: of.stream,
        numbers,
        has_turns,
        note: None,
    };
    let mut steps = Vec::new();
    let (mut numbers, mut bytes) = (Vec::new(), 0);
    // Pieces of text are neither referred to nor refer.
    let mut may_cut = true;
    let mut before: Option<&SweptRecord> = None;
    for record in &plan.records {
        let is_full = numbers.len() >= STEP || bytes + record.bytes > STEP_BYTES;
        if has_turns && let Some(before) = before {
            may_cut = before.is_boundary || is_other_group(before.seq, record.seq);
        }
        before = Some(record);
        if is_full && may_cut && !numbers.is_empty() {
            steps.push(step(std::mem::take(&mut numbers)));
            bytes = 0;
        }
        numbers.push(record.seq);
        bytes += record.bytes;
    }
    if !numbers.is_empty() {
        steps.push(step(numbers));
    }
    if let Some(last) = steps.last_mut() {
        last.note = plan.note;
    }
    steps
}

impl Prune {
    /// Removes the records; returns how many. Records that became protected since the sweep stay.
    pub(crate) fn run(mut self, work: &mut WriteContext<'_>, now: i64) -> DbResult<u64> {
        let head = work.state.heads.get(work.db, self.stream)?;
        let end = match head.open.first() {
            None => head.seq.saturating_sub(1),
            Some(first_open) => first_open - 1,
        };
        let shared = shared_upto(work.db, self.stream)?;
        // Rows may have been discarded since, for a rebuild.
        let end = end.min(upto_folded(work.db, self.stream)?);
        self.numbers.retain(|seq| shared < *seq);
        if self.numbers.last().is_some_and(|last| *last > end) {
            return Ok(0);
        }
        // Newest first: text chunks between them are already pruned, and a later run of records may refer to an earlier one.
        for run in self.numbers.chunk_by(|a, b| a + 1 == *b).rev() {
            prune_run(work, &self, run, now)?;
        }
        if let Some(note) = self.note {
            put_note(work.db, self.stream, note)?;
        }
        Ok(self.numbers.len() as u64)
    }
}

/// Stores the mark of a sweep for a stream.
pub(crate) fn put_note(db: &Connection, stream: u64, note: SweepMark) -> DbResult<()> {
    let (change, value) = match note {
        SweepMark::Swept(seq) => (
            "UPDATE streams SET swept = max(swept, ?2) WHERE id = ?1",
            seq,
        ),
        SweepMark::Aged(seq) => ("UPDATE streams SET aged = ?2 WHERE id = ?1", seq),
    };
    db.execute_cached(change, [int(stream), int(value)])?;
    Ok(())
}

/// Removes consecutive records.
fn prune_run(work: &mut WriteContext<'_>, stream: &Prune, run: &[u64], now: i64) -> DbResult<()> {
    let (Some(&first), Some(&last)) = (run.first(), run.last()) else {
        return Ok(());
    };
    let db = work.db;
    let range = [int(stream.stream), int(first), int(last)];
    let mut digests = Vec::with_capacity(run.len() * 32);
    let mut blobs = Vec::new();
    let end: Digest = {
        let chain = work.state.heads.chain();
        let lineage = Lineage::load(db, &stream.key, stream.stream)?;
        let mut walk = ChainWalk::after(db, chain, lineage, first - 1)?;
        let mut statement = db.prepare_cached(&format!(
            "SELECT {PLACED_COLUMNS} FROM placed WHERE stream = ?1 AND {} {IN_ORDER}",
            between!("?2", "?3")
        ))?;
        let mut rows = statement.query(range)?;
        let mut buffer = RecordBuffer::default();
        while let Some(row) = rows.next()? {
            let stored = StoredRecord::from_row(db, row, &mut buffer)?;
            walk.step(&stored)?;
            let damaged = |what: String| walk.damaged(stored.seq, &what);
            let (_, digest) = stored.checked_bytes().map_err(damaged)?;
            digests.extend_from_slice(&digest);
            blobs.extend(stored.blob.map(<[u8]>::to_vec));
        }
        *walk.link()
    };
    if digests.len() != run.len() * 32 {
        // Another job has removed them.
        return Ok(());
    }
    queries::mark_pruned(db, stream.stream, &(first..=last))?;
    spans::remove(db, stream.stream, first, last)?;
    drop_blobs(db, &blobs)?;
    work.state.lost_records = true;
    let (id, has_turns) = (int(stream.stream), stream.has_turns);
    // The row of the preceding range has capacity, or a separate one is inserted.
    let sql = "UPDATE pruned SET last = ?3, pruned_at = ?4, chain = ?5, \
        digests = CAST(digests || ?6 AS BLOB), turns = max(turns, ?7) \
        WHERE stream = ?1 AND last = ?2 - 1 AND last - first < ?8 AND length(digests) > 0";
    let [_, first, last] = range;
    let row = (
        id,
        first,
        last,
        now,
        &end,
        &digests,
        has_turns,
        int(MAX_DIGESTS),
    );
    if db.execute_cached(sql, row)? == 0 {
        let sql = "INSERT INTO pruned (stream, first, last, pruned_at, chain, digests, turns) \
            VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        db.execute_cached(sql, (id, first, last, now, end, digests, has_turns))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use windlass_core::events::{CustomData, EventContext, EventData, EventRequest};
    use windlass_core::typed_id::{EventId, SessionId, TurnId};

    use super::*;
    use crate::journal::{Batch, Journal};
    use crate::sqlite::options::SqliteOptions;
    use crate::sqlite::retention::sweep::{Until, old_turns, streams};
    use crate::sqlite::{SqliteError, SqliteStore};

    fn turn_event(kind: &str, payload: serde_json::Value, turn: TurnId) -> EventData {
        let mut fields = payload;
        fields["turn_id"] = serde_json::json!(turn);
        EventData::from_type(kind, fields).unwrap()
    }

    const RECORDS: u64 = 200;

    /// Fills a stream with a turn of more records than one commit prunes, and a record after it.
    async fn long_turn(store: &SqliteStore) -> StreamKey {
        let key = StreamKey::new("s");
        let turn = TurnId::new();
        let input =
            serde_json::json!({"input_message_id": windlass_core::typed_id::MessageId::new()});
        let mut data = vec![turn_event("turn.started", input, turn)];
        let record = || CustomData {
            name: "test".to_owned(),
            payload: "x".into(),
        };
        data.extend((0..RECORDS).map(|_| EventData::Custom(record())));
        let end = serde_json::json!({"iterations": 1});
        data.push(turn_event("turn.completed", end, turn));
        data.push(EventData::Custom(record()));
        let events = (1..).zip(data).map(|(seq, data)| {
            let request = EventRequest::new(SessionId::from_seed(1), EventContext::default(), data);
            Arc::new(request.into_event(EventId::new(), Some(seq)))
        });
        let batch = Batch {
            first_seq: 1,
            records: events.collect(),
            ..Batch::default()
        };
        let journal = store.journal();
        let claim = journal.claim(&key).await.unwrap();
        journal.append(&claim, batch).await.unwrap();
        store.write_rows().await.unwrap();
        key
    }

    async fn plan(store: &SqliteStore) -> Result<Vec<Prune>, SqliteError> {
        store
            .read(|reader| {
                let stream = streams(reader, None)?.remove(0);
                let plan = old_turns(reader, &stream, Until::Position(u64::MAX))?;
                Ok(steps(&stream, &plan, true))
            })
            .await
    }

    #[tokio::test]
    async fn half_pruned_turn_is_no_finding_and_is_not_forked() {
        let directory = tempfile::tempdir().unwrap();
        let store = SqliteStore::open(SqliteOptions::new(directory.path()))
            .await
            .unwrap();
        let key = long_turn(&store).await;
        let first = plan(&store).await.unwrap().remove(0);
        // A process that dies here leaves the rest of the turn.
        let writer = store.inner.writer().unwrap();
        let pruned = writer.write(move |work| first.run(work, 0)).await.unwrap();
        assert_eq!(
            pruned, 128,
            "records that may refer to each other go together"
        );

        let report = store.verify().await.unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        let child = StreamKey::new("child");
        let forked = {
            let data = CustomData {
                name: "test".to_owned(),
                payload: "x".into(),
            };
            let request = EventRequest::new(
                SessionId::from_seed(2),
                EventContext::default(),
                EventData::Custom(data),
            );
            request.into_event(EventId::new(), None)
        };
        let fork = store.journal().fork(&key, pruned + 1, &child, forked).await;
        let refusal = fork.unwrap_err().to_string();
        assert!(refusal.contains("removed by retention"), "{refusal}");

        for step in plan(&store).await.unwrap() {
            writer.write(move |work| step.run(work, 0)).await.unwrap();
        }
        let report = store.verify().await.unwrap();
        assert!(report.findings.is_empty(), "{:?}", report.findings);
        assert_eq!((report.records, report.pruned), (1, RECORDS + 2));
    }
}
