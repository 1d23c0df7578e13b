//! Stores in temporary directories, and helpers for tests.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use chrono::DateTime;
use rusqlite::Connection;
use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::events::{
    CustomData, Event, EventContext, EventData, EventRequest, SessionForkedData,
};
use windlass_core::message::Message;
use windlass_core::typed_id::{EventId, MessageId, SessionId, TurnId};
use windlass_store::sqlite::{SqliteOptions, SqliteStore};
use windlass_store::{Batch, Journal, JournalError, SqliteError, StreamKey};

/// A directory that is removed when the test ends.
pub(super) struct StoreHome {
    directory: TempDir,
}

impl StoreHome {
    pub(super) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }

    pub(super) fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.path())
    }

    pub(super) async fn open(&self) -> SqliteStore {
        SqliteStore::open(self.options()).await.unwrap()
    }

    pub(super) async fn refusal(&self) -> SqliteError {
        SqliteStore::open(self.options()).await.unwrap_err()
    }

    /// Copies the files of a store as a crash would leave them.
    pub(super) fn crashed(&self) -> Self {
        let copy = Self::new();
        for name in ["windlass.db", "windlass.db-wal", "windlass.commits"] {
            std::fs::copy(self.file(name), copy.file(name)).unwrap();
        }
        copy
    }

    /// Opens the database without the store.
    pub(super) fn database(&self) -> Connection {
        Connection::open(self.file("windlass.db")).unwrap()
    }
}

/// The environment variable that passes the data directory to a test in a child process.
const CHILD: &str = "WINDLASS_STORE_TEST_CHILD";

/// Starts this program again to run one test in a separate process, which can be killed.
pub(super) fn run_again(test: &str, directory: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(CHILD, directory);
    command
}

/// Returns the directory where this process was started again by a test.
pub(super) fn child_directory() -> Option<PathBuf> {
    std::env::var_os(CHILD).map(PathBuf::from)
}

pub(super) fn key(name: &str) -> StreamKey {
    StreamKey::new(name)
}

/// Builds events numbered from `first_seq`.
pub(super) fn events(first_seq: u64, data: impl IntoIterator<Item = EventData>) -> Batch {
    let numbered = (first_seq..).zip(data).map(|(seq, data)| {
        let request = EventRequest::new(SessionId::from_seed(1), EventContext::default(), data);
        Arc::new(request.into_event(EventId::new(), Some(seq)))
    });
    Batch {
        first_seq,
        records: numbered.collect(),
        ..Batch::default()
    }
}

pub(super) fn custom(text: &str) -> EventData {
    EventData::Custom(CustomData {
        name: "test".into(),
        payload: text.into(),
    })
}

fn of_turn(event_type: &str, mut payload: Value, turn_id: TurnId) -> EventData {
    payload["turn_id"] = json!(turn_id);
    EventData::from_type(event_type, payload).unwrap()
}

pub(super) fn started(turn_id: TurnId) -> EventData {
    let payload = json!({"input_message_id": MessageId::new()});
    of_turn("turn.started", payload, turn_id)
}

pub(super) fn queued(turn_id: TurnId) -> EventData {
    let message = Message::user("queued");
    of_turn("input.queued", json!({ "message": message }), turn_id)
}

pub(super) fn delta(turn_id: TurnId, text: &str) -> EventData {
    of_turn("output.message.delta", json!({"delta": text}), turn_id)
}

pub(super) fn completed(turn_id: TurnId) -> EventData {
    of_turn("turn.completed", json!({"iterations": 1}), turn_id)
}

/// Builds the first own event of a fork.
fn forked(session: u128, at: u64) -> Event {
    let data = SessionForkedData {
        parent_session_id: SessionId::from_seed(1),
        parent_sequence: at,
        record: None,
        dropped_turn_id: None,
        depth: None,
    };
    let session_id = SessionId::from_seed(session);
    let request = EventRequest::new(session_id, EventContext::default(), data);
    Event {
        // Older than any retention limit of the tests.
        ts: DateTime::UNIX_EPOCH,
        ..request.into_event(EventId::new(), None)
    }
}

/// Forks a stream after a record.
pub(super) async fn fork(
    journal: &dyn Journal,
    parent: &str,
    at: u64,
    child: &str,
) -> Result<u64, JournalError> {
    let forked = forked(child.len() as u128 + 10, at);
    let (parent, child) = (key(parent), key(child));
    journal.fork(&parent, at, &child, forked).await
}

/// Claims a stream and appends to it.
pub(super) async fn fill(store: &SqliteStore, name: &str, data: Vec<EventData>) {
    let journal = store.journal();
    let claim = journal.claim(&key(name)).await.unwrap();
    let batch = events(claim.head + 1, data);
    journal.append(&claim, batch).await.unwrap();
}

/// Claims a stream and appends to it, each event in a separate commit.
pub(super) async fn fill_slowly(store: &SqliteStore, name: &str, data: Vec<EventData>) {
    let journal = store.journal();
    let claim = journal.claim(&key(name)).await.unwrap();
    for (seq, data) in (claim.head + 1..).zip(data) {
        journal.append(&claim, events(seq, [data])).await.unwrap();
    }
}

pub(super) async fn read(store: &SqliteStore, name: &str) -> Result<Vec<Arc<Event>>, JournalError> {
    let page = store.journal().read(&key(name), 0, usize::MAX).await?;
    Ok(page.events)
}

pub(super) async fn findings(store: &SqliteStore) -> Vec<String> {
    let findings = store.verify().await.unwrap().findings;
    findings.iter().map(ToString::to_string).collect()
}
