//! One process writes to a data directory; the next one learns the owner, and may read.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use windlass_store::sqlite::{SqliteError, SqliteOptions, SqliteStore};

/// A child that works until it is dropped.
struct WorkingChild {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

fn program(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-crash"));
    command.arg("child").arg("--data").arg(directory);
    command.args(["--inputs", "1000000"]).stdin(Stdio::null());
    command
}

impl WorkingChild {
    fn start(directory: &Path) -> Self {
        let mut child = program(directory).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits until it has acknowledged another input.
    fn wait_for_input(&mut self) {
        let line = self.lines.next().expect("the child is gone").unwrap();
        assert!(line.starts_with("acknowledged"), "{line}");
    }
}

impl Drop for WorkingChild {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

#[tokio::test]
async fn second_process_may_only_read_and_is_given_the_pid_of_the_first() {
    let directory = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(directory.path().join("store"));
    let mut first = WorkingChild::start(directory.path());
    first.wait_for_input();
    let pid = first.child.id().to_string();

    let refused = SqliteStore::open(options.clone()).await.unwrap_err();
    assert!(
        matches!(&refused, SqliteError::Locked { holder, .. } if *holder == pid),
        "{refused}"
    );
    let second = program(directory.path()).output().unwrap();
    let errors = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success(), "{errors}");
    assert!(
        errors.contains(&format!("used by process {pid};")) && errors.contains("for reading only"),
        "{errors}"
    );

    let reader = SqliteStore::open_read_only(options.clone()).await.unwrap();
    let streams = reader.journal().streams().await.unwrap();
    assert!(streams.iter().any(|stream| stream.head > 0), "{streams:?}");
    let report = reader.verify().await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    reader.close().await;

    // The first process was not disturbed. A lock ends with its process, however the process ends.
    for _ in 0..8 {
        first.wait_for_input();
    }
    drop(first);
    let store = SqliteStore::open(options).await.unwrap();
    store.close().await;
}
