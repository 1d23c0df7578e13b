//! One process writes to a data directory; the next one learns the owner, and may read.

use std::io::{BufRead, BufReader, Lines};
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

use windlass_store::sqlite::{SqliteError, SqliteOptions, SqliteStore};

/// A child that works until it is dropped.
struct Working {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

fn program(directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-crash"));
    command.arg("child").arg("--data").arg(directory);
    command.args(["--inputs", "1000000"]).stdin(Stdio::null());
    command
}

impl Working {
    fn start(directory: &Path) -> Self {
        let mut child = program(directory).stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Waits until it has acknowledged another input.
    fn gets_on(&mut self) {
        let line = self.lines.next().expect("the child is gone").unwrap();
        assert!(line.starts_with("acknowledged"), "{line}");
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}

#[tokio::test]
async fn a_second_process_is_refused_by_the_name_of_the_first_and_may_read() {
    let place = tempfile::tempdir().unwrap();
    let options = SqliteOptions::new(place.path().join("store"));
    let mut first = Working::start(place.path());
    first.gets_on();
    let pid = first.child.id().to_string();

    let refused = SqliteStore::open(options.clone()).await.unwrap_err();
    assert!(
        matches!(&refused, SqliteError::Locked { holder, .. } if *holder == pid),
        "{refused}"
    );
    let second = program(place.path()).output().unwrap();
    let said = String::from_utf8_lossy(&second.stderr);
    assert!(!second.status.success(), "{said}");
    assert!(
        said.contains(&format!("used by process {pid};")) && said.contains("for reading only"),
        "{said}"
    );

    let reader = SqliteStore::open_read_only(options.clone()).await.unwrap();
    let streams = reader.journal().streams().await.unwrap();
    assert!(streams.iter().any(|stream| stream.head > 0), "{streams:?}");
    let report = reader.verify().await.unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    reader.close().await;

    // The first process was not disturbed. A lock ends with its process, however the process ends.
    for _ in 0..8 {
        first.gets_on();
    }
    drop(first);
    let store = SqliteStore::open(options).await.unwrap();
    store.close().await;
}
