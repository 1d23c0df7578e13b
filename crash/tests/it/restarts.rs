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
fn die_in_the_model(directory: &Path, meanwhile: impl FnOnce()) {
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
fn look(directory: &Path, how: &[&str]) -> usize {
    let looked = program("look", directory).args(how).output().unwrap();
    let trouble = String::from_utf8_lossy(&looked.stderr);
    assert!(looked.status.success(), "{how:?}: {trouble}");
    let seen = String::from_utf8_lossy(&looked.stdout);
    seen.trim().parse().unwrap()
}

/// Lets the child complete its open turns.
fn finish(directory: &Path) {
    let mut command = program("child", directory);
    let done = command.args(["--inputs", "0"]).output().unwrap();
    let trouble = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{trouble}");
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
async fn looking_twenty_times_beside_the_writer_and_after_it_leaves_the_turns_as_they_are() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    die_in_the_model(directory, || {
        for _ in 0..20 {
            assert!(look(directory, &["--read-only"]) > 0);
        }
    });
    let before = events(directory).await;
    for _ in 0..20 {
        assert!(look(directory, &[]) > 0);
    }
    assert_eq!(events(directory).await, before, "looking records nothing");
    finish(directory);
    for events in events(directory).await {
        assert_eq!(
            count(&events, "turn.started"),
            count(&events, "turn.completed")
        );
    }
}

#[tokio::test]
async fn the_third_restart_after_a_kill_fails_the_turn_and_not_the_second() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    for _ in 0..3 {
        die_in_the_model(directory, || {});
        let sessions = events(directory).await;
        assert!(
            sessions
                .iter()
                .all(|events| count(events, "turn.failed") == 0)
        );
        look(directory, &[]);
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
    assert!(given_up > 0, "no turn was in all three lives");
}

fn ends(events: &[Arc<Event>]) -> usize {
    events.iter().filter(|event| event.data.ends_turn()).count()
}
