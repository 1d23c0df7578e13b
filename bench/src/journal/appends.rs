//! Appends per second and bytes written, with one writer and with many.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use windlass_store::sqlite::SqliteStore;
use windlass_store::{Batch, Claim, Journal, StreamKey};

use super::bare::{Bare, Group};
use super::tapped::RecordGroup;
use super::workload::{batches, bytes_of, open, record};
use super::{Result, bare, broke, directory};
use crate::machine::{self, BytesWritten};
use crate::report::{Bound, Report};

/// The two sides alternate, so that other load on the machine affects both.
const ROUNDS: usize = 24;

pub async fn measure(report: &mut Report) -> Result<()> {
    let groups = record(50).await?;
    writers(report, &groups, 1, 500, Bound::AtLeast(0.6)).await?;
    writers(report, &groups, 64, 40, Bound::AtLeast(0.45)).await
}

/// Accumulated costs of one side.
#[derive(Default)]
struct Spent {
    time: Duration,
    to_disk: u64,
    handed_over: u64,
}

impl Spent {
    fn add(&mut self, started: Instant, before: BytesWritten) {
        let now = machine::written();
        self.time += started.elapsed();
        self.to_disk += now.to_disk - before.to_disk;
        self.handed_over += now.handed_over - before.handed_over;
    }
}

/// A stream with its next batches.
struct WriterStream {
    claim: Claim,
    head: u64,
}

async fn writers(
    report: &mut Report,
    groups: &[RecordGroup],
    count: usize,
    each: usize,
    target: Bound,
) -> Result<()> {
    let appends = count * each;
    report.progress(&format!("{ROUNDS} × {appends} appends of {count} at once"));
    let place = directory()?;
    let store = open(&place.path().join("store")).await?;
    let mut bare = bare(place.path())?;
    let mut streams = Vec::new();
    for n in 0..count {
        let key = StreamKey::new(format!("stream {n}"));
        let claim = store.journal().claim(&key).await.map_err(broke)?;
        streams.push(WriterStream { claim, head: 0 });
    }
    let (mut ours, mut theirs) = (Spent::default(), Spent::default());
    let mut with_json = Spent::default();
    let mut commits = 0;
    for round in 0..=ROUNDS {
        let mut work = Vec::new();
        let mut events: Vec<RecordGroup> = Vec::new();
        for stream in &mut streams {
            let batches = batches(groups, stream.head, each);
            for batch in &batches {
                events.push(batch.records.clone());
                stream.head += batch.records.len() as u64;
            }
            work.push((stream.claim.clone(), batches));
        }
        let bytes: Vec<Group> = events
            .iter()
            .map(|group| bytes_of(group))
            .collect::<Result<_>>()?;
        let (before, commits_before) = (machine::written(), store.commits());
        let started = Instant::now();
        append_all(&store, work).await?;
        let taken = store.commits() - commits_before;
        // The first round warms up both.
        if round > 0 {
            ours.add(started, before);
            commits += taken;
        }
        let (started, before) = (Instant::now(), machine::written());
        commit_all(&mut bare, &bytes, taken, |group| Ok(Cow::Borrowed(group)))?;
        if round > 0 {
            theirs.add(started, before);
        }
        let (started, before) = (Instant::now(), machine::written());
        commit_all(&mut bare, &events, taken, |events| {
            bytes_of(events).map(Cow::Owned)
        })?;
        if round > 0 {
            with_json.add(started, before);
        }
    }
    let total = (ROUNDS * appends) as f64;
    let plural = if count == 1 { "writer" } else { "writers" };
    let label = |what: &str| format!("{count} {plural}: {what}");
    report.figure(
        &label("appends per second"),
        total / ours.time.as_secs_f64(),
        "1/s",
        Bound::None,
    );
    report.figure(
        &label("the same, bare SQLite"),
        total / theirs.time.as_secs_f64(),
        "1/s",
        Bound::None,
    );
    report.figure(
        &label("appends per second / bare SQLite"),
        theirs.time.as_secs_f64() / ours.time.as_secs_f64(),
        "ratio",
        Bound::None,
    );
    report.figure(
        &label("the same, where bare SQLite makes the JSON too"),
        with_json.time.as_secs_f64() / ours.time.as_secs_f64(),
        "ratio",
        target,
    );
    report.figure(
        &label("appends per commit"),
        total / commits as f64,
        "appends",
        Bound::None,
    );
    show_bytes(report, &label, &ours, &theirs, total);
    drop(bare);
    store.close().await;
    Ok(())
}

fn show_bytes(
    report: &mut Report,
    label: &impl Fn(&str) -> String,
    ours: &Spent,
    theirs: &Spent,
    appends: f64,
) {
    // A file system in memory reports no disk writes, so the bytes passed to the system are used there.
    let on_disk = theirs.to_disk > 0;
    let bytes = |spent: &Spent| {
        if on_disk {
            spent.to_disk as f64
        } else {
            spent.handed_over as f64
        }
    };
    report.figure(
        &label("bytes written per append"),
        bytes(ours) / appends,
        "B",
        Bound::None,
    );
    report.figure(
        &label("bytes written / bare SQLite"),
        bytes(ours) / bytes(theirs),
        "ratio",
        Bound::AtMost(1.3),
    );
    report.figure(
        &label("bytes handed to the system / bare SQLite"),
        ours.handed_over as f64 / theirs.handed_over as f64,
        "ratio",
        Bound::None,
    );
}

async fn append_all(store: &SqliteStore, work: Vec<(Claim, Vec<Batch>)>) -> Result<()> {
    let journal = Arc::new(store.journal());
    let running: Vec<_> = work
        .into_iter()
        .map(|(claim, batches)| {
            let journal = Arc::clone(&journal);
            tokio::spawn(async move {
                for batch in batches {
                    journal.append(&claim, batch).await?;
                }
                Ok::<_, windlass_store::JournalError>(())
            })
        })
        .collect();
    for writer in running {
        writer.await.map_err(broke)?.map_err(broke)?;
    }
    Ok(())
}

/// Writes the same groups in as many commits, distributed evenly.
fn commit_all<T>(
    bare: &mut Bare,
    groups: &[T],
    commits: u64,
    bytes_of: impl Fn(&T) -> Result<Cow<'_, Group>>,
) -> Result<()> {
    let commits = usize::try_from(commits).map_err(broke)?.max(1);
    for n in 0..commits {
        let (from, to) = (n * groups.len() / commits, (n + 1) * groups.len() / commits);
        let bytes = groups[from..to].iter().map(&bytes_of);
        let bytes = bytes.collect::<Result<Vec<_>>>()?;
        bare.commit(bytes.iter().map(Cow::as_ref)).map_err(broke)?;
    }
    Ok(())
}
