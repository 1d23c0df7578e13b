//! Other programs that open the database during writes.

use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Stdio};

use rusqlite::Connection;
use rustix::fs::{FlockOperation, fcntl_lock};
use windlass_store::{Journal, SqliteOptions, SqliteStore};

use super::support::{StoreHome, child_directory, custom, events, key, read, run_again};

const TEST: &str = "sqlite::outside::external_backup_loses_no_commits";

/// A separate process, because the locks in question belong to processes.
struct OutsideWriter {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStdout>>,
}

impl OutsideWriter {
    fn start(directory: &Path) -> Self {
        let mut child = run_again(TEST, directory)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits until the writer reports how many events were acknowledged.
    fn acknowledged(&mut self) -> usize {
        loop {
            let Some(line) = self.lines.next() else {
                panic!("the writer has died");
            };
            let line = line.unwrap();
            if let Some((_, number)) = line.split_once("acknowledged ") {
                return number.parse().unwrap();
            }
        }
    }

    fn resume(&mut self) {
        let stdin = self.child.stdin.as_mut().unwrap();
        stdin.write_all(b"on\n").unwrap();
    }
}

/// Appends, opens its own database like a read-only program, and waits for the signal to continue.
fn write(directory: &Path) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    runtime.block_on(async {
        let options = || SqliteOptions::new(directory);
        let store = SqliteStore::open(options()).await.unwrap();
        let journal = store.journal();
        let claim = journal.claim(&key("s")).await.unwrap();
        let mut signals = std::io::stdin().lines();
        for number in 1.. {
            let event = events(number, [custom("x")]);
            journal.append(&claim, event).await.unwrap();
            if number % 10 == 0 {
                let reader = SqliteStore::open_read_only(options()).await.unwrap();
                assert_eq!(read(&reader, "s").await.unwrap().len() as u64, number);
                reader.close().await;
                let report = format!("acknowledged {number}\n");
                std::io::stdout().write_all(report.as_bytes()).unwrap();
                signals.next().unwrap().unwrap();
            }
        }
    });
}

/// Removes the log as many versions of SQLite do when they close a database that no other process has locked. The newest ones check a second lock
/// first.
fn remove_log_if_unused(home: &StoreHome) {
    let mut options = OpenOptions::new();
    let database = options.read(true).write(true);
    let database = database.open(home.file("windlass.db")).unwrap();
    let locked = fcntl_lock(&database, FlockOperation::NonBlockingLockExclusive);
    if locked.is_ok() {
        for name in ["windlass.db-wal", "windlass.db-shm"] {
            std::fs::remove_file(home.file(name)).unwrap();
        }
    }
}

#[tokio::test]
async fn external_backup_loses_no_commits() {
    if let Some(directory) = child_directory() {
        return std::thread::spawn(move || write(&directory))
            .join()
            .unwrap();
    }
    let home = StoreHome::new();
    let mut writer = OutsideWriter::start(home.path());
    for round in 1..=3 {
        let acknowledged = writer.acknowledged();
        // As `sqlite3 windlass.db "VACUUM INTO …"` does.
        let outside = Connection::open(home.file("windlass.db")).unwrap();
        let count = "SELECT count(*) FROM records";
        let seen: u32 = outside.query_row(count, [], |row| row.get(0)).unwrap();
        assert_eq!(seen as usize, acknowledged);
        let backup = home.file(&format!("backup-{round}"));
        outside
            .execute("VACUUM INTO ?1", [backup.to_str().unwrap()])
            .unwrap();
        outside.close().unwrap();
        remove_log_if_unused(&home);
        writer.resume();
    }
    let acknowledged = writer.acknowledged();
    writer.child.kill().unwrap();
    writer.child.wait().unwrap();
    let store = home.open().await;
    assert_eq!(read(&store, "s").await.unwrap().len(), acknowledged);
    assert!(store.verify().await.unwrap().findings.is_empty());
}
