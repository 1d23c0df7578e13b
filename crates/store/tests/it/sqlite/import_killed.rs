//! A kill in the middle of an import.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;

use windlass_core::typed_id::TurnId;
use windlass_store::SqliteStore;

use super::support::{StoreHome, child_directory, completed, custom, fill, run_again, started};

const TEST: &str = "sqlite::import_killed::import_killed_while_reading_leaves_nothing";
const LINES: &str = "lines";
const KILL_AT: &str = "WINDLASS_STORE_TEST_KILL_AT";

/// Reads lines, and ends the process before one of them.
struct Deadly {
    lines: BufReader<File>,
    left: u64,
}

impl Read for Deadly {
    fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
        Err(std::io::Error::other("it is read by lines"))
    }
}

impl BufRead for Deadly {
    fn fill_buf(&mut self) -> std::io::Result<&[u8]> {
        let buffer = self.lines.fill_buf()?;
        // One line at a time.
        let end = buffer.iter().position(|byte| *byte == b'\n');
        Ok(&buffer[..end.map_or(buffer.len(), |end| end + 1)])
    }

    fn consume(&mut self, amount: usize) {
        self.lines.consume(amount);
        self.left -= 1;
        if self.left == 0 {
            std::process::abort();
        }
    }
}

async fn import(directory: &Path) {
    let left = std::env::var(KILL_AT).unwrap().parse().unwrap();
    let lines = BufReader::with_capacity(1 << 20, File::open(directory.join(LINES)).unwrap());
    let options = windlass_store::SqliteOptions::new(directory);
    let store = SqliteStore::open(options).await.unwrap();
    store.import(Deadly { lines, left }).await.unwrap();
}

#[tokio::test]
async fn import_killed_while_reading_leaves_nothing() {
    if let Some(directory) = child_directory() {
        return import(&directory).await;
    }
    let source = StoreHome::new();
    let store = source.open().await;
    let turn = TurnId::new();
    fill(&store, "small", vec![started(turn), completed(turn)]).await;
    let texts = (0..600).map(|number| custom(&number.to_string()));
    let many = [vec![started(turn)], texts.collect(), vec![completed(turn)]].concat();
    fill(&store, "many", many).await;
    let (lines, report) = store.export(Vec::new()).await.unwrap();
    assert_eq!(report.streams, 2);
    let count = lines.iter().filter(|byte| **byte == b'\n').count();

    for kill_at in [2, 4, 5, 100, 300, 400, 600, count] {
        let home = StoreHome::new();
        std::fs::write(home.file(LINES), &lines).unwrap();
        let mut child = run_again(TEST, home.path());
        let killed = child.env(KILL_AT, kill_at.to_string()).output().unwrap();
        assert!(!killed.status.success(), "{killed:?}");
        let store = home.open().await;
        let streams = store.journal().streams().await.unwrap();
        assert!(streams.is_empty(), "killed at line {kill_at}: {streams:?}");
        assert!(store.verify().await.unwrap().findings.is_empty());
    }
}
