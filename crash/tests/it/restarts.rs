//! Which events count as crashes of a turn, with real processes and real kills.

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use windlass_core::events::{Event, EventData};
use windlass_crash::child::{SESSIONS, session_id};
use windlass_store::sqlite::{SqliteOptions, SqliteStore};
use windlass_store::{Journal, StreamKey};

fn program(word: &str, directory: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass-crash"));
    command.arg(word).arg("--data").arg(directory);
    command.stdin(Stdio::null());
    command
}

/// Runs the child until its first model call of this process, and kills it there, after `meanwhile`.
fn kill_during_model_call(directory: &Path, meanwhile: impl FnOnce()) {
    let mut command = program("child", directory);
    command.args(["--inputs", "1", "--stop-at", "model.in-answer:1"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut lines = lines.map_while(Result::ok);
    assert!(lines.any(|line| line.starts_with("reached")), "it is done");
    meanwhile();
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Inspects the data from a separate process; returns the number of open turns.
fn inspect(directory: &Path, options: &[&str]) -> usize {
    let output = program("look", directory).args(options).output().unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{options:?}: {errors}");
    let seen = String::from_utf8_lossy(&output.stdout);
    seen.trim().parse().unwrap()
}

/// Lets the child complete its open turns.
fn finish(directory: &Path) {
    let mut command = program("child", directory);
    let done = command.args(["--inputs", "0"]).output().unwrap();
    let errors = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{errors}");
}

async fn events(directory: &Path) -> Vec<Vec<Arc<Event>>> {
    let store = SqliteStore::open_read_only(SqliteOptions::new(directory.join("store")));
    let store = store.await.unwrap();
    let mut sessions = Vec::new();
    for n in 0..SESSIONS {
        let key = StreamKey::from(session_id(n));
        let page = store.journal().read(&key, 0, usize::MAX).await.unwrap();
        sessions.push(page.events);
    }
    store.close().await;
    sessions
}

fn count(events: &[Arc<Event>], name: &str) -> usize {
    events
        .iter()
        .filter(|event| event.event_type == name)
        .count()
}

#[tokio::test]
async fn inspecting_the_data_does_not_change_turns() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path();
    kill_during_model_call(directory, || {
        for _ in 0..20 {
            assert!(inspect(directory, &["--read-only"]) > 0);
        }
    });
    let before = events(directory).await;
    for _ in 0..20 {
        assert!(inspect(directory, &[]) > 0);
    }
    assert_eq!(
        events(directory).await,
        before,
        "inspections record nothing"
    );
    finish(directory);
    for events in events(directory).await {
        assert_eq!(
            count(&events, "turn.started"),
            count(&events, "turn.completed")
        );
    }
}

#[tokio::test]
async fn turn_fails_at_the_third_restart_after_kills() {
    let home = tempfile::tempdir().unwrap();
    let directory = home.path();
    for _ in 0..3 {
        kill_during_model_call(directory, || {});
        let sessions = events(directory).await;
        assert!(
            sessions
                .iter()
                .all(|events| count(events, "turn.failed") == 0)
        );
        inspect(directory, &[]);
    }
    let open: Vec<_> = events(directory).await;
    finish(directory);
    let after = events(directory).await;
    let mut given_up = 0;
    for (before, after) in open.iter().zip(&after) {
        assert_eq!(count(after, "turn.started"), ends(after));
        let failed = after.iter().find_map(|event| match &event.data {
            EventData::TurnFailed(data) => Some(data.error_code.clone()),
            _ => None,
        });
        // A session that resumed twice was running in each of the three processes.
        let should = count(before, "turn.resumed") == 2 && count(before, "tool.completed") == 0;
        assert_eq!(failed, should.then(|| Some("crashed".to_owned())));
        given_up += usize::from(should);
    }
    assert!(given_up > 0, "no turn was running in all three processes");
}

fn ends(events: &[Arc<Event>]) -> usize {
    events.iter().filter(|event| event.data.ends_turn()).count()
}
