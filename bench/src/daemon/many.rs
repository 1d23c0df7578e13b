//! Many threads on disk: the cost of a request must not depend on their number.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;
use windlass_core::events::Event;
use windlass_core::session::Session;
use windlass_core::{SessionId, TurnId};
use windlass_store::sqlite::SqliteStore;
use windlass_store::{Batch, Journal, Records, StreamKey};

use super::child::DaemonProcess;
use super::client::BenchClient;
use super::{Error, Result, turns_of_one};
use crate::journal::open;
use crate::report::{Bound, Report};

const FEW: usize = 1_000;
const MANY: usize = 100_000;
/// Number of threads written per batch.
const AT_ONCE: usize = 64;
const TRIES: usize = 9;

/// Measured costs of a daemon with many threads.
struct DaemonCosts {
    start: f64,
    list: f64,
    detail: f64,
    resident: f64,
}

pub async fn measure(report: &mut Report, binary: &Path) -> Result<()> {
    let few = look(report, binary, FEW).await?;
    let many = look(report, binary, MANY).await?;
    for (what, few, many, unit) in [
        ("start to ready", few.start, many.start, "ms"),
        ("GET /v1/threads?limit=50", few.list, many.list, "ms"),
        ("one thread with its turn", few.detail, many.detail, "ms"),
        ("resident set after that", few.resident, many.resident, "MB"),
    ] {
        let name = |threads: usize| format!("{what}, {threads} threads on disk");
        report.figure(&name(FEW), few, unit, Bound::None);
        report.figure(&name(MANY), many, unit, Bound::None);
        let name = format!("{what}, {MANY} threads / {FEW}");
        report.figure(&name, many / few, "ratio", Bound::AtMost(1.5));
    }
    Ok(())
}

async fn look(report: &mut Report, binary: &Path, threads: usize) -> Result<DaemonCosts> {
    report.progress(&format!("writing {threads} threads"));
    let home = tempfile::tempdir()?;
    {
        let daemon = DaemonProcess::start(binary, home.path())?;
        turns_of_one(BenchClient::new(&daemon.address)?, 1).await?;
    }
    fill(&home.path().join("data"), threads - 1).await?;
    report.progress(&format!("a daemon with {threads} threads"));
    drop(DaemonProcess::start(binary, home.path())?);
    let mut starts = Vec::new();
    for _ in 0..TRIES {
        starts.push(DaemonProcess::start(binary, home.path())?.start);
    }
    let daemon = DaemonProcess::start(binary, home.path())?;
    let client = BenchClient::new(&daemon.address)?;
    let list = client.get("/threads?limit=50").await?;
    let list: Vec<serde_json::Value> = serde_json::from_slice(&list)?;
    let id = list.last().and_then(|thread| thread["id"].as_str());
    let detail = format!("/threads/{}", id.ok_or("no thread is listed")?);
    Ok(DaemonCosts {
        start: median(starts),
        list: asked(&client, "/threads?limit=50").await?,
        detail: asked(&client, &detail).await?,
        resident: daemon.resident_bytes() as f64 / 1e6,
    })
}

async fn asked(client: &BenchClient, path: &str) -> Result<f64> {
    let mut spans = Vec::new();
    for _ in 0..TRIES {
        let started = Instant::now();
        client.get(path).await?;
        spans.push(started.elapsed());
    }
    Ok(median(spans))
}

fn median(mut spans: Vec<Duration>) -> f64 {
    spans.sort();
    spans[spans.len() / 2].as_secs_f64() * 1e3
}

/// Writes copies of an existing thread under other IDs.
async fn fill(directory: &Path, threads: usize) -> Result<()> {
    let store = open(directory).await?;
    let sessions = store.records().list_sessions().await?;
    let sample = Sample::read(&store, sessions.last().ok_or("no session")?).await?;
    let sample = Arc::new(sample);
    let mut work = JoinSet::new();
    for _ in 0..threads {
        if work.len() == AT_ONCE {
            work.join_next().await.ok_or("no writer is left")???;
        }
        let (store, sample) = (store.clone(), Arc::clone(&sample));
        work.spawn(async move { sample.write(&store).await });
    }
    while let Some(done) = work.join_next().await {
        done??;
    }
    store.write_rows().await?;
    store.close().await;
    Ok(())
}

/// A thread with one turn, as text.
struct Sample {
    session: String,
    events: Vec<String>,
    names: [String; 2],
}

impl Sample {
    async fn read(store: &SqliteStore, session: &Session) -> Result<Self> {
        let (journal, key) = (store.journal(), StreamKey::from(session.id));
        let events = journal.read(&key, 0, usize::MAX).await?.events;
        let turn = events.iter().find_map(|event| event.context.turn_id);
        let turn = turn.ok_or("the thread has no turn")?;
        Ok(Self {
            session: serde_json::to_string(session)?,
            events: events
                .iter()
                .map(|event| text(&**event))
                .collect::<Result<_>>()?,
            names: [bare(&session.id), bare(&turn)],
        })
    }

    async fn write(&self, store: &SqliteStore) -> Result<()> {
        let (session_id, turn_id) = (SessionId::new(), TurnId::new());
        let names = [bare(&session_id), bare(&turn_id)];
        let session: Session = self.renamed(&self.session, &names)?;
        store.records().add_session(session).await?;
        let events = self.events.iter().map(|event| self.renamed(event, &names));
        let records = events.collect::<Result<Vec<Event>>>()?;
        let claim = store.journal().claim(&StreamKey::from(session_id)).await?;
        let batch = Batch {
            first_seq: 1,
            records: records.into_iter().map(Arc::new).collect(),
            ..Batch::default()
        };
        store.journal().append(&claim, batch).await?;
        Ok(())
    }

    fn renamed<T: DeserializeOwned>(&self, text: &str, names: &[String; 2]) -> Result<T> {
        let text = text.replace(&self.names[0], &names[0]);
        let text = text.replace(&self.names[1], &names[1]);
        Ok(serde_json::from_str(&text)?)
    }
}

fn text(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(Error::from)
}

/// Returns an ID without its prefix, which differs between sessions and threads.
fn bare(id: &impl ToString) -> String {
    let id = id.to_string();
    id.rsplit('_').next().unwrap_or_default().to_owned()
}
