//! A kill at each step of taking an import in.

use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::journal::{Batch, Journal, StreamKey};
use crate::sqlite::{SqliteOptions, SqliteStore};
use windlass_core::events::{CustomData, EventContext, EventRequest};
use windlass_core::typed_id::{EventId, SessionId};

const TEST: &str = "sqlite::transfer::import::killed::killed_import_leaves_nothing";
const DIRECTORY: &str = "WINDLASS_STORE_TEST_CHILD";
const LINE: &str = "WINDLASS_STORE_TEST_KILL_AT";

/// Called after each line of an import. A test can make the process end here.
pub(super) fn pass(line: u64) {
    if std::env::var(LINE).is_ok_and(|at| at == line.to_string()) {
        std::process::abort();
    }
}

async fn open(directory: &Path) -> SqliteStore {
    SqliteStore::open(SqliteOptions::new(directory))
        .await
        .unwrap()
}

async fn fill(store: &SqliteStore, name: &str, count: u64) {
    let journal = store.journal();
    let claim = journal.claim(&StreamKey::new(name)).await.unwrap();
    let records = (1..=count).map(|seq| {
        let data = CustomData {
            name: "test".into(),
            payload: "x".into(),
        };
        let request = EventRequest::new(SessionId::from_seed(1), EventContext::default(), data);
        request.into_event(EventId::new(), Some(seq)).into()
    });
    let batch = Batch {
        first_seq: 1,
        records: records.collect(),
        ..Batch::default()
    };
    journal.append(&claim, batch).await.unwrap();
}

#[tokio::test]
async fn killed_import_leaves_nothing() {
    if let Some(directory) = std::env::var_os(DIRECTORY).map(PathBuf::from) {
        let lines = std::fs::read(directory.join("lines")).unwrap();
        let store = open(&directory).await;
        store.import(Cursor::new(lines)).await.unwrap();
        return store.close().await;
    }
    let source = tempfile::tempdir().unwrap();
    let store = open(source.path()).await;
    fill(&store, "few", 3).await;
    fill(&store, "many", 600).await;
    let (lines, _) = store.export(Vec::new()).await.unwrap();
    let count = lines.iter().filter(|byte| **byte == b'\n').count();
    for line in [1, 2, 3, 6, 7, 264, 265, 520, count - 1, count, count + 1] {
        let target = tempfile::tempdir().unwrap();
        std::fs::write(target.path().join("lines"), &lines).unwrap();
        let again = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", TEST, "--test-threads=1"])
            .env(DIRECTORY, target.path())
            .env(LINE, line.to_string())
            .output()
            .unwrap();
        let was_killed = line <= count;
        assert_eq!(
            !again.status.success(),
            was_killed,
            "line {line}: {again:?}"
        );
        let store = open(target.path()).await;
        let streams = store.journal().streams().await.unwrap().len();
        assert_eq!(streams, if was_killed { 0 } else { 2 }, "line {line}");
        assert_eq!(store.verify().await.unwrap().findings, []);
    }
}
