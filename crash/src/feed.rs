//! Readers of the feed continue from their cursors while the writing process is killed repeatedly.
//!
//! Many writers in a child append to their own streams. Readers in this process open the database concurrently, read some pages, drop all state
//! except their cursor, and continue. Each reader must receive every record once, and the records of a stream in order.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use windlass_core::events::{CustomData, EventContext, EventRequest};
use windlass_core::typed_id::{EventId, SessionId};
use windlass_store::sqlite::{OpenCheck, SqliteOptions, SqliteStore};
use windlass_store::{Batch, FeedEntry, Journal, JournalError, StreamKey};

use crate::harness::{ChildGuard, KillPlan};
use crate::random::Random;

/// Streams written concurrently.
pub const WRITERS: u64 = 64;
/// Number of readers that follow the feed at the same time.
pub const READERS: u64 = 3;
/// Printed by the child when it starts to write.
const WRITING: &str = "writing";

/// Results of the test.
#[derive(Debug, Clone, Copy, Default)]
pub struct FeedSummary {
    /// How often the child was killed.
    pub kills: u64,
    /// Number of records at the end.
    pub records: u64,
    /// How often readers restarted from their cursors.
    pub restarts: u64,
}

fn stream(writer: u64) -> StreamKey {
    StreamKey::new(format!("writer-{writer}"))
}

fn options(directory: &Path) -> SqliteOptions {
    SqliteOptions::new(directory).with_check(OpenCheck::Glance)
}

/// Writes until it is killed.
pub async fn write(directory: PathBuf, seed: u64) -> Result<(), String> {
    let store = SqliteStore::open(options(&directory)).await;
    let store = store.map_err(|error| error.to_string())?;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..WRITERS {
        let journal = store.journal();
        let random = Random::new(seed ^ writer);
        writers.spawn(append_for_ever(journal, writer, random));
    }
    let mut out = std::io::stdout().lock();
    writeln!(out, "{WRITING}").map_err(|error| error.to_string())?;
    drop(out);
    match writers.join_next().await {
        Some(Ok(Err(error))) => Err(error.to_string()),
        _ => Err("a writer ended".to_owned()),
    }
}

async fn append_for_ever(
    journal: impl Journal,
    writer: u64,
    mut random: Random,
) -> Result<(), JournalError> {
    let claim = journal.claim(&stream(writer)).await?;
    let mut head = claim.head;
    loop {
        let first_seq = head + 1;
        let records = (0..=random.below(3)).map(|_| {
            head += 1;
            let data = CustomData {
                name: "crash.feed".to_owned(),
                payload: json!(writer),
            };
            let session = SessionId::from_seed(u128::from(writer));
            let request = EventRequest::new(session, EventContext::default(), data);
            Arc::new(request.into_event(EventId::new(), Some(head)))
        });
        let batch = Batch {
            first_seq,
            records: records.collect(),
            ..Batch::default()
        };
        journal.append(&claim, batch).await?;
    }
}

/// Records that one reader has seen, and the only state it retains between restarts: its cursor.
struct FeedReader {
    cursor: Option<String>,
    heads: HashMap<StreamKey, u64>,
    restarts: u64,
}

impl FeedReader {
    fn take(&mut self, entry: FeedEntry) -> Result<(), String> {
        let FeedEntry { stream, seq, event } = entry;
        let event = event.map_err(|error| error.to_string())?;
        let head = self.heads.entry(stream.clone()).or_default();
        if seq != *head + 1 || event.seq() != seq {
            return Err(format!("{stream} delivered {seq} after {head}"));
        }
        *head = seq;
        Ok(())
    }

    /// Reads some pages, or all, and drops all state except the cursor.
    async fn read_pages(
        &mut self,
        directory: &Path,
        pages: u64,
        limit: usize,
    ) -> Result<(), String> {
        // Before the first commit of the first child, there is no database to open.
        let Ok(store) = SqliteStore::open_read_only(options(directory)).await else {
            return Ok(());
        };
        self.restarts += 1;
        let journal = store.journal();
        for _ in 0..pages {
            let page = journal.read_after(self.cursor.as_deref(), limit).await;
            let page = page.map_err(|error| error.to_string())?;
            page.entries.into_iter().try_for_each(|it| self.take(it))?;
            self.cursor = Some(page.next);
            if page.is_end {
                break;
            }
        }
        store.close().await;
        Ok(())
    }
}

async fn read(
    directory: PathBuf,
    mut random: Random,
    is_over: Arc<AtomicBool>,
) -> Result<FeedReader, String> {
    let mut reader = FeedReader {
        cursor: None,
        heads: HashMap::new(),
        restarts: 0,
    };
    while !is_over.load(Ordering::SeqCst) {
        let (pages, limit) = (1 + random.below(40), 1 + random.below(500));
        let limit = usize::try_from(limit).unwrap_or(1);
        reader.read_pages(&directory, pages, limit).await?;
        tokio::time::sleep(Duration::from_millis(random.below(20))).await;
    }
    reader.read_pages(&directory, u64::MAX, 1000).await?;
    Ok(reader)
}

/// Runs a plan. The error names the violated invariant.
pub async fn run(plan: &KillPlan, mut progress: impl FnMut(u64)) -> Result<FeedSummary, String> {
    let home = tempfile::tempdir().map_err(|error| error.to_string())?;
    let is_over = Arc::new(AtomicBool::new(false));
    let mut readers = tokio::task::JoinSet::new();
    for reader in 0..READERS {
        let random = Random::new(plan.seed.wrapping_add(reader));
        readers.spawn(read(home.path().to_owned(), random, Arc::clone(&is_over)));
    }
    let mut random = Random::new(!plan.seed);
    let mut summary = FeedSummary::default();
    while summary.kills < plan.kills && readers.len() == READERS as usize {
        let mut child = begin(plan, home.path(), random.draw())?;
        tokio::time::sleep(Duration::from_millis(5 + random.below(60))).await;
        child.kill()?;
        summary.kills += 1;
        progress(summary.kills);
        if let Some(ended) = readers.try_join_next() {
            is_over.store(true, Ordering::SeqCst);
            return Err(match ended {
                Ok(Err(broken)) => format!("seed {}: {broken}", plan.seed),
                _ => "a reader ended".to_owned(),
            });
        }
    }
    is_over.store(true, Ordering::SeqCst);
    let truth = heads(home.path()).await?;
    summary.records = truth.values().sum();
    for reader in readers.join_all().await {
        let reader = reader.map_err(|broken| format!("seed {}: {broken}", plan.seed))?;
        summary.restarts += reader.restarts;
        if reader.heads != truth {
            return Err(format!("seed {}: a reader has not seen all", plan.seed));
        }
    }
    Ok(summary)
}

/// Starts a child and waits until it writes.
fn begin(plan: &KillPlan, directory: &Path, seed: u64) -> Result<ChildGuard, String> {
    let mut command = Command::new(&plan.program);
    command.arg("write").arg("--data").arg(directory);
    command.arg("--seed").arg(seed.to_string());
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn();
    let mut child: Child = child.map_err(|error| format!("the child does not start: {error}"))?;
    let output = child.stdout.take().map(BufReader::new);
    let child = ChildGuard(child);
    let mut line = String::new();
    let read = output.map(|mut output| output.read_line(&mut line));
    match read {
        Some(Ok(_)) if line.trim_end() == WRITING => Ok(child),
        _ => Err("the child does not write".to_owned()),
    }
}

/// Returns the number of records of each stream, by reading it.
async fn heads(directory: &Path) -> Result<HashMap<StreamKey, u64>, String> {
    let store = SqliteStore::open(options(directory)).await;
    let store = store.map_err(|error| error.to_string())?;
    let mut heads = HashMap::new();
    for writer in 0..WRITERS {
        let key = stream(writer);
        let page = store.journal().read(&key, 0, usize::MAX).await;
        let page = page.map_err(|error| error.to_string())?;
        if page.head > 0 {
            heads.insert(key, page.events.len() as u64);
        }
    }
    store.close().await;
    Ok(heads)
}
