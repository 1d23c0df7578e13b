//! Forks of a long session: their cost must not depend on its length.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_core::SessionId;
use windlass_core::events::{Event, EventContext, EventData, EventRequest, SessionForkedData};
use windlass_core::typed_id::EventId;
use windlass_runtime::{ForkAt, ForkOptions};
use windlass_store::sqlite::SqliteStore;
use windlass_store::{Batch, Journal, StreamKey};

use super::reading::{LONG, TRIES, reopen, write_long};
use super::workload::open;
use super::{Result, best, broke, directory};
use crate::machine;
use crate::report::{Bound, Report};

pub async fn measure(report: &mut Report) -> Result<()> {
    let place = directory()?;
    report.progress(&format!("forking a session of {LONG} events"));
    let long = write_long(place.path()).await?;
    let store = open(place.path()).await?;
    end_open_turns(&store, long).await?;
    store.close().await;
    fork_sessions(report, place.path(), long).await?;
    fork_streams(report, place.path(), long).await
}

/// Ends the open turn of the recording, so that the session can be forked at its end.
pub async fn end_open_turns(store: &SqliteStore, session_id: SessionId) -> Result<()> {
    let (journal, key) = (store.journal(), StreamKey::from(session_id));
    let status = journal.status(&key).await.map_err(broke)?;
    let first_seq = status.head + 1;
    let ended = (first_seq..).zip(status.open).map(|(seq, turn_id)| {
        // A turn without iterations would count as never started.
        let payload = serde_json::json!({ "turn_id": turn_id, "iterations": 1 });
        let data = EventData::from_type("turn.cancelled", payload).map_err(broke)?;
        let request = EventRequest::new(session_id, EventContext::of_turn(turn_id), data);
        Ok(Arc::new(request.into_event(EventId::new(), Some(seq))))
    });
    let records = ended.collect::<Result<_>>()?;
    let claim = journal.claim(&key).await.map_err(broke)?;
    let batch = Batch {
        first_seq,
        records,
        ..Batch::default()
    };
    journal.append(&claim, batch).await.map_err(broke)
}

/// A complete fork of a session: records, files and values.
async fn fork_sessions(report: &mut Report, place: &Path, long: SessionId) -> Result<()> {
    let mut spans = Vec::new();
    for _ in 0..TRIES {
        let (store, runtime) = reopen(place).await?;
        let started = Instant::now();
        let forking = runtime.fork_session(long, ForkAt::Latest, ForkOptions::new());
        forking.await?;
        spans.push(started.elapsed());
        store.close().await;
    }
    report.figure(
        "fork of a session of 100,000 events, after a restart",
        best(&spans).as_secs_f64() * 1e3,
        "ms",
        Bound::AtMost(10.0),
    );
    Ok(())
}

/// The journal's part of a fork, at the end and in the middle.
async fn fork_streams(report: &mut Report, place: &Path, long: SessionId) -> Result<()> {
    let store = open(place).await?;
    let journal = store.journal();
    let key = StreamKey::from(long);
    let end = journal.status(&key).await.map_err(broke)?.head;
    let page = journal.read(&key, end / 2, 1_000).await.map_err(broke)?;
    let is_idle = |event: &&Arc<Event>| matches!(event.data, EventData::SessionIdled(_));
    let idle = page.events.iter().find(is_idle);
    let middle = idle
        .ok_or_else(|| broke("no turn ends in the middle"))?
        .seq();
    for (name, at) in [("at its end", end), ("in its middle", middle)] {
        let (mut spans, mut bytes) = (Vec::new(), u64::MAX);
        for _ in 0..TRIES {
            let (span, written) = fork(&store, &key, at).await?;
            spans.push(span);
            bytes = bytes.min(written);
        }
        report.figure(
            &format!("fork of its stream, {name}"),
            best(&spans).as_secs_f64() * 1e3,
            "ms",
            Bound::AtMost(5.0),
        );
        report.figure(
            &format!("bytes written by it, {name}"),
            bytes as f64 / 1024.0,
            "KiB",
            Bound::AtMost(64.0),
        );
    }
    store.close().await;
    Ok(())
}

async fn fork(store: &SqliteStore, parent: &StreamKey, at: u64) -> Result<(Duration, u64)> {
    let child = SessionId::new();
    let data = SessionForkedData {
        parent_session_id: child,
        parent_sequence: at,
        record: None,
        dropped_turn_id: None,
        depth: None,
    };
    let forked = EventRequest::new(child, EventContext::default(), data);
    let forked = forked.into_event(EventId::new(), None);
    let (journal, child) = (store.journal(), StreamKey::from(child));
    let (started, before) = (Instant::now(), machine::written());
    let made = journal.fork(parent, at, &child, forked).await;
    let (span, after) = (started.elapsed(), machine::written());
    made.map_err(broke)?;
    Ok((span, after.handed_over - before.handed_over))
}
