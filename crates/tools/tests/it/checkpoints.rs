//! The file changes of turns are undone, unless something else changed the same files.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value, json};
use tempfile::TempDir;
use windlass_core::capabilities::Capability;
use windlass_core::events::EventContext;
use windlass_core::tools::ToolExecutionResult;
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_tools::{
    Changing, ChangingTurn, CheckpointError, CheckpointLimits, Checkpoints, Confinement,
    CutOffCalls, OutputLimits, Outputs, Policy, Restored, ShellCapability, UndoneTurn,
};

use crate::support::{Place, snapshot, soon};

/// A workspace with checkpoints.
struct Kept {
    place: Place,
    data: TempDir,
    limits: CheckpointLimits,
}

/// A turn of a session.
#[derive(Clone, Copy)]
struct Turn {
    session_id: SessionId,
    undone: UndoneTurn,
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_nanos()).unwrap()
}

impl Kept {
    fn new() -> Self {
        Self::with(CheckpointLimits::default())
    }

    fn with(limits: CheckpointLimits) -> Self {
        let place = Place::confined(Confinement::Unconfined, Policy::default());
        let data = tempfile::tempdir().unwrap();
        let kept = Self {
            place,
            data,
            limits,
        };
        kept.start();
        kept
    }

    /// Starts a process after the previous one has died.
    fn start(&self) {
        let store = self.data.path().join("checkpoints");
        let checkpoints = Checkpoints::open(store, self.limits.clone()).unwrap();
        self.place.environments.keep_checkpoints(checkpoints);
    }

    fn store(&self) -> Checkpoints {
        self.place.environments.checkpoints().unwrap()
    }

    fn turn(&self) -> Turn {
        Turn {
            session_id: SessionId::new(),
            undone: UndoneTurn {
                turn_id: TurnId::new(),
                began: now(),
            },
        }
    }

    fn context(&self, turn: Turn) -> ToolContext {
        let mut context = ToolContext::new(turn.session_id);
        context.event_context = Some(EventContext {
            turn_id: Some(turn.undone.turn_id),
            ..EventContext::default()
        });
        context
    }

    async fn call(&self, turn: Turn, tool: &str, arguments: Value) {
        let tool = self.place.tool(tool);
        let context = self.context(turn);
        let called = tool.execute_with_context(arguments, &context).await;
        assert!(
            matches!(called, ToolExecutionResult::Success(_)),
            "{called:?}"
        );
    }

    async fn write(&self, turn: Turn, path: &str, content: &str) {
        let arguments = json!({ "path": path, "content": content });
        self.call(turn, "write", arguments).await;
    }

    async fn shell(&self, turn: Turn, command: &str) {
        self.call(turn, "shell", json!({ "command": command }))
            .await;
    }

    fn undo(&self, turns: &[Turn]) -> Result<Restored, CheckpointError> {
        let turns: Vec<_> = turns.iter().map(|turn| turn.undone).collect();
        self.store()
            .undo(&self.place.environments, &turns, CutOffCalls::Refuse)
    }

    fn refused(&self, turns: &[Turn]) -> Vec<String> {
        let before = snapshot(&self.place.root());
        let refused = self.undo(turns).unwrap_err();
        assert_eq!(snapshot(&self.place.root()), before);
        let CheckpointError::ForeignEdits { paths } = refused else {
            panic!("{refused}")
        };
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect()
    }

    fn theirs(&self, path: &str, content: &str) {
        fs::write(self.place.root().join(path), content).unwrap();
    }

    fn records(&self) -> usize {
        let turns = self.data.path().join("checkpoints/turns");
        fs::read_dir(turns).map_or(0, Iterator::count)
    }
}

#[tokio::test]
async fn the_changes_of_all_tools_of_a_turn_go_together() {
    let kept = Kept::new();
    kept.theirs("edited", "one\ntwo\n");
    kept.theirs("deleted", "gone");
    let before = snapshot(&kept.place.root());
    let turn = kept.turn();
    kept.write(turn, "new/file", "made").await;
    let edit = json!({ "path": "edited", "old_string": "two", "new_string": "2" });
    kept.call(turn, "edit", edit).await;
    kept.shell(turn, "rm deleted; echo x > by_shell").await;
    assert_ne!(snapshot(&kept.place.root()), before);
    let restored = kept.undo(&[turn]).unwrap();
    assert!(restored.left.is_empty(), "{restored:?}");
    assert_eq!(snapshot(&kept.place.root()), before);
    // Repeating it does nothing, even in the next process.
    kept.start();
    kept.undo(&[turn]).unwrap();
    assert_eq!(snapshot(&kept.place.root()), before);
}

#[tokio::test]
async fn several_turns_go_back_in_one() {
    let kept = Kept::new();
    kept.theirs("f", "0");
    let turns = [kept.turn(), kept.turn(), kept.turn()];
    for (number, turn) in turns.iter().enumerate() {
        kept.write(*turn, "f", &format!("{}", number + 1)).await;
        kept.write(*turn, &format!("g{number}"), "x").await;
    }
    kept.undo(&turns[1..]).unwrap();
    assert_eq!(kept.place.text("f"), "1");
    assert!(kept.place.root().join("g0").exists());
    assert!(!kept.place.root().join("g1").exists());
    kept.undo(&turns[..1]).unwrap();
    assert_eq!(kept.place.text("f"), "0");
}

#[tokio::test]
async fn what_others_do_between_two_calls_is_theirs() {
    let kept = Kept::new();
    kept.theirs("ours", "0");
    let turn = kept.turn();
    kept.write(turn, "ours", "1").await;
    kept.theirs("theirs", "kept");
    kept.write(turn, "ours", "2").await;
    kept.undo(&[turn]).unwrap();
    assert_eq!(kept.place.text("ours"), "0");
    assert_eq!(kept.place.text("theirs"), "kept");
    // Changes of the same file cannot be distinguished.
    let turn = kept.turn();
    kept.write(turn, "ours", "1").await;
    kept.theirs("ours", "1 and theirs");
    kept.write(turn, "ours", "2").await;
    assert_eq!(kept.refused(&[turn]), ["ours"]);
}

#[tokio::test]
async fn what_others_did_since_is_refused_by_name() {
    let kept = Kept::new();
    let turn = kept.turn();
    kept.write(turn, "a", "1").await;
    kept.write(turn, "b", "1").await;
    kept.theirs("b", "theirs");
    assert_eq!(kept.refused(&[turn]), ["b"]);
}

#[tokio::test]
async fn a_call_that_changes_nothing_leaves_nothing() {
    let kept = Kept::new();
    kept.theirs("f", "0");
    let turn = kept.turn();
    kept.shell(turn, "cat f").await;
    kept.call(turn, "read", json!({ "path": "f" })).await;
    kept.write(turn, "f", "0").await;
    assert_eq!(kept.records(), 0);
    kept.write(turn, "f", "1").await;
    assert_eq!(kept.records(), 1);
}

#[tokio::test]
async fn a_command_that_is_cancelled_is_taken_back_too() {
    let kept = Kept::new();
    kept.theirs("f", "0");
    let turn = kept.turn();
    let (tool, context) = (kept.place.tool("shell"), kept.context(turn));
    let command = json!({ "command": "echo 1 > f; echo x > g; sleep 1000" });
    let running = tool.execute_with_context(command, &context);
    let made = kept.place.root().join("g");
    let seen = tokio::task::spawn_blocking(move || soon("the command works", || made.exists()));
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        seen = seen => seen.unwrap(),
    }
    let store = kept.store();
    let environments = kept.place.environments.clone();
    // The undo waits until the processes of the command have ended and its files were scanned.
    let undone = tokio::task::spawn_blocking(move || {
        store.undo(&environments, &[turn.undone], CutOffCalls::Refuse)
    });
    undone.await.unwrap().unwrap();
    assert_eq!(kept.place.text("f"), "0");
    assert!(!kept.place.root().join("g").exists());
}

/// Begins a call.
fn begun(kept: &Kept, turn: Turn) -> Changing {
    let at = kept.place.environments.resolve(None).unwrap();
    let of = ChangingTurn {
        session_id: turn.session_id,
        turn_id: turn.undone.turn_id,
    };
    kept.store().begin(Arc::new(at), of).unwrap()
}

/// Begins a call and simulates the death of the process during it.
fn dies_in_a_call(kept: &Kept, turn: Turn) {
    let changing = begun(kept, turn);
    kept.start();
    drop(changing);
}

#[tokio::test]
async fn what_a_process_did_that_died_is_nobodys() {
    let kept = Kept::new();
    kept.theirs("f", "0");
    let turn = kept.turn();
    kept.write(turn, "g", "1").await;
    dies_in_a_call(&kept, turn);
    // Nothing changed, so nothing is unknown.
    kept.undo(&[turn]).unwrap();
    assert!(!kept.place.root().join("g").exists());
    kept.theirs("f", "1");
    assert_eq!(kept.refused(&[turn]), ["f"]);
    kept.theirs("f", "0");
    kept.undo(&[turn]).unwrap();
    // The turn continues in the next process.
    kept.theirs("f", "1");
    kept.write(turn, "h", "2").await;
    assert_eq!(kept.refused(&[turn]), ["f"]);
}

#[tokio::test]
async fn what_a_call_did_that_was_cut_off_is_taken_back_when_that_is_asked_for() {
    let kept = Kept::new();
    kept.theirs("f", "0");
    let turn = kept.turn();
    kept.write(turn, "g", "1").await;
    let changing = begun(&kept, turn);
    kept.theirs("f", "half of it");
    kept.start();
    drop(changing);
    let (store, environments) = (kept.store(), &kept.place.environments);
    store.end_cut_off_calls(environments);
    let before = snapshot(&kept.place.root());
    let refused = kept.undo(&[turn]).unwrap_err();
    assert!(
        matches!(&refused, CheckpointError::CutOff { paths } if *paths == [Path::new("f")]),
        "{refused}"
    );
    assert_eq!(snapshot(&kept.place.root()), before);
    let take_back = || store.undo(environments, &[turn.undone], CutOffCalls::TakeBack);
    // Changes after the start of the next process are external, whatever the request specifies.
    kept.theirs("f", "theirs");
    let refused = take_back().unwrap_err();
    assert!(
        matches!(&refused, CheckpointError::ForeignEdits { paths } if *paths == [Path::new("f")]),
        "{refused}"
    );
    assert_eq!(kept.place.text("f"), "theirs");
    kept.theirs("f", "half of it");
    take_back().unwrap();
    assert_eq!(kept.place.text("f"), "0");
    assert!(!kept.place.root().join("g").exists());
}

#[tokio::test]
async fn a_call_that_was_cut_off_before_it_did_anything_is_no_obstacle() {
    let kept = Kept::new();
    let turn = kept.turn();
    kept.write(turn, "g", "1").await;
    dies_in_a_call(&kept, turn);
    kept.store().end_cut_off_calls(&kept.place.environments);
    // An external change, unrelated to any call.
    kept.theirs("f", "theirs");
    kept.undo(&[turn]).unwrap();
    assert!(!kept.place.root().join("g").exists());
    assert_eq!(kept.place.text("f"), "theirs");
}

#[tokio::test]
async fn what_two_turns_did_at_once_is_nobodys() {
    let kept = Kept::new();
    let (one, other) = (kept.turn(), kept.turn());
    let at = Arc::new(kept.place.environments.resolve(None).unwrap());
    let of = |turn: Turn| ChangingTurn {
        session_id: turn.session_id,
        turn_id: turn.undone.turn_id,
    };
    let store = kept.store();
    let first = store.begin(Arc::clone(&at), of(one)).unwrap();
    kept.theirs("f", "1");
    let second = store.begin(at, of(other)).unwrap();
    kept.theirs("g", "2");
    first.end();
    second.end();
    assert_eq!(kept.refused(&[one]), ["f", "g"]);
    assert_eq!(kept.refused(&[other]), ["g"]);
}

#[tokio::test]
async fn an_edit_beside_a_command_in_the_background_is_taken_back() {
    let kept = Kept::new();
    kept.theirs("a", "old");
    let outputs = Outputs::open(kept.data.path().join("outputs"), OutputLimits::default());
    kept.place.environments.keep_outputs(outputs.unwrap());
    let (environments, settings) = (&kept.place.environments, &kept.place.settings);
    let shell = ShellCapability::new(environments.clone(), settings.clone());
    let tools = shell.tools_with_config(&json!({ "approval": "never" }));
    let turn = kept.turn();
    let call = async |name: &str, arguments: Value| {
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        match tool
            .execute_with_context(arguments, &kept.context(turn))
            .await
        {
            ToolExecutionResult::Success(value) => value,
            other => panic!("{other:?}"),
        }
    };
    let begin = json!({ "command": "sleep 1000", "background": true });
    let id = call("shell", begin).await["id"].clone();
    let edit = json!({ "path": "a", "old_string": "old", "new_string": "new" });
    kept.call(turn, "edit", edit).await;
    kept.write(turn, "b", "1").await;
    call("shell_stop", json!({ "id": id })).await;
    // The next change is a separate call again.
    kept.write(turn, "a", "newer").await;
    kept.undo(&[turn]).unwrap();
    assert_eq!(kept.place.text("a"), "old");
    assert!(!kept.place.root().join("b").exists());
}

#[tokio::test]
async fn what_another_turn_wrote_beside_a_command_is_taken_back_where_the_command_left_it_alone() {
    let kept = Kept::new();
    kept.theirs("a", "old");
    kept.theirs("b", "old");
    let (command, other) = (kept.turn(), kept.turn());
    let behind = begun(&kept, command);
    kept.theirs("made", "by the command");
    let edit = json!({ "path": "a", "old_string": "old", "new_string": "new" });
    kept.call(other, "edit", edit).await;
    kept.write(other, "deep/er/new", "1").await;
    kept.theirs("made", "by the command, later");
    kept.write(other, "b", "new").await;
    behind.end();
    // The command's changes are unknown, except that the other call's are known.
    assert_eq!(kept.refused(&[command]).len(), 6);
    // Later changes of the command are not overwritten.
    kept.theirs("b", "by the command");
    assert_eq!(kept.refused(&[other]), ["b"]);
    kept.theirs("b", "new");
    kept.undo(&[other]).unwrap();
    assert_eq!(kept.place.text("a"), "old");
    assert_eq!(kept.place.text("b"), "old");
    assert!(!kept.place.root().join("deep").exists());
    assert_eq!(kept.place.text("made"), "by the command, later");
}

#[tokio::test]
async fn a_file_that_a_command_and_another_turn_wrote_at_once_is_nobodys() {
    let kept = Kept::new();
    kept.theirs("a", "old");
    let (command, other) = (kept.turn(), kept.turn());
    let behind = begun(&kept, command);
    let shell = "echo more >> a";
    kept.shell(other, shell).await;
    kept.write(other, "a", "new").await;
    behind.end();
    // Changes of concurrent commands are attributed to neither, and the same applies to files written over them.
    assert_eq!(kept.refused(&[other]), ["a"]);
}

#[tokio::test]
async fn calls_of_a_turn_that_overlap_are_one_and_what_others_do_between_is_theirs() {
    let kept = Kept::new();
    kept.theirs("f", "0");
    let turn = kept.turn();
    // The second outlives the first, and the third the second.
    let first = begun(&kept, turn);
    kept.theirs("f", "1");
    let second = begun(&kept, turn);
    kept.theirs("f", "2");
    first.end();
    kept.theirs("f", "3");
    let third = begun(&kept, turn);
    second.end();
    kept.theirs("f", "4");
    third.end();
    kept.undo(&[turn]).unwrap();
    assert_eq!(kept.place.text("f"), "0");

    let turn = kept.turn();
    let (first, second) = (begun(&kept, turn), begun(&kept, turn));
    kept.theirs("f", "1");
    second.end();
    first.end();
    kept.theirs("f", "theirs");
    kept.write(turn, "f", "2").await;
    assert_eq!(kept.refused(&[turn]), ["f"]);
}

#[tokio::test]
async fn calls_beside_one_that_was_cut_off_are_taken_back_when_that_is_asked_for() {
    let kept = Kept::new();
    kept.theirs("f", "0");
    let turn = kept.turn();
    let behind = begun(&kept, turn);
    kept.write(turn, "f", "1").await;
    kept.start();
    drop(behind);
    let (store, environments) = (kept.store(), &kept.place.environments);
    store.end_cut_off_calls(environments);
    let refused = kept.undo(&[turn]).unwrap_err();
    assert!(
        matches!(&refused, CheckpointError::CutOff { paths } if *paths == [Path::new("f")]),
        "{refused}"
    );
    let undone = store.undo(environments, &[turn.undone], CutOffCalls::TakeBack);
    undone.unwrap();
    assert_eq!(kept.place.text("f"), "0");
}

#[tokio::test]
async fn turns_of_a_time_without_checkpoints_are_not_known() {
    let kept = Kept::new();
    let before = kept.turn();
    let store = kept.data.path().join("checkpoints");
    Checkpoints::turn_off(&store).unwrap();
    let during = kept.turn();
    kept.start();
    let after = kept.turn();
    for turn in [before, during] {
        let unknown = kept.undo(&[turn]).unwrap_err();
        assert!(matches!(unknown, CheckpointError::NotKnown), "{unknown}");
    }
    kept.undo(&[after]).unwrap();
}

#[tokio::test]
async fn a_workspace_that_is_too_large_is_worked_in_and_not_restored() {
    let kept = Kept::with(CheckpointLimits {
        files: 2,
        ..CheckpointLimits::default()
    });
    for name in ["a", "b", "c"] {
        kept.theirs(name, "0");
    }
    let turn = kept.turn();
    kept.write(turn, "a", "1").await;
    assert_eq!(kept.place.text("a"), "1");
    let refused = kept.undo(&[turn]).unwrap_err();
    assert!(
        matches!(refused, CheckpointError::NotKept { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn the_oldest_turns_are_forgotten_first_and_that_is_told() {
    let kept = Kept::with(CheckpointLimits {
        stored_bytes: 50_000,
        ..CheckpointLimits::default()
    });
    let mut turns = Vec::new();
    for letter in ["a", "b", "c", "d", "e", "f", "g"] {
        let turn = kept.turn();
        kept.write(turn, "f", &letter.repeat(10_000)).await;
        turns.push(turn);
    }
    let kept_turns = kept.records();
    assert!((1..7).contains(&kept_turns), "{kept_turns}");
    kept.undo(&turns[6..]).unwrap();
    assert_eq!(kept.place.text("f"), "f".repeat(10_000));
    kept.start();
    let unknown = kept.undo(&turns[..1]).unwrap_err();
    assert!(matches!(unknown, CheckpointError::NotKnown), "{unknown}");
}

#[tokio::test]
async fn a_turn_is_not_restored_in_part() {
    let kept = Kept::with(CheckpointLimits {
        stored_bytes: 50_000,
        ..CheckpointLimits::default()
    });
    let long = kept.turn();
    kept.write(long, "first", "of the long turn").await;
    for letter in ["a", "b", "c", "d", "e", "f", "g"] {
        kept.write(kept.turn(), "f", &letter.repeat(10_000)).await;
    }
    // The changes of its first call were removed by now.
    kept.write(long, "second", "of the long turn").await;
    let before = snapshot(&kept.place.root());
    let unknown = kept.undo(&[long]).unwrap_err();
    assert!(matches!(unknown, CheckpointError::NotKnown), "{unknown}");
    assert_eq!(snapshot(&kept.place.root()), before);
}

#[tokio::test]
async fn a_turn_that_a_crash_left_open_is_forgotten_as_others_are() {
    let kept = Kept::with(CheckpointLimits {
        stored_bytes: 50_000,
        ..CheckpointLimits::default()
    });
    kept.theirs("f", &"0".repeat(10_000));
    let crashed = kept.turn();
    dies_in_a_call(&kept, crashed);
    for letter in ["a", "b", "c", "d", "e", "f", "g"] {
        kept.write(kept.turn(), "f", &letter.repeat(10_000)).await;
    }
    let unknown = kept.undo(&[crashed]).unwrap_err();
    assert!(matches!(unknown, CheckpointError::NotKnown), "{unknown}");
}

#[tokio::test]
async fn what_was_kept_of_a_session_goes_with_it() {
    let kept = Kept::new();
    let (one, other) = (kept.turn(), kept.turn());
    kept.theirs("f", "a secret");
    kept.write(one, "f", "another").await;
    kept.write(other, "g", "stays").await;
    kept.theirs("f", "");
    let store = kept.data.path().join("checkpoints/workspaces");
    let keeps = |content: &str| {
        let files = snapshot(&store);
        files.iter().any(|(_, it)| it.as_deref() == Some(content))
    };
    assert!(keeps("a secret") && keeps("another"));
    kept.store().forget(one.session_id).unwrap();
    assert!(!keeps("a secret"));
    // A fork may still have the turn: it must not look like a turn without changes.
    let refused = kept.undo(&[one]).unwrap_err();
    assert!(
        matches!(refused, CheckpointError::NotKept { .. }),
        "{refused}"
    );
    kept.undo(&[other]).unwrap();
    assert!(!kept.place.root().join("g").exists());
}

#[tokio::test]
async fn a_call_that_cannot_be_recorded_is_not_made() {
    let kept = Kept::new();
    let turns = kept.data.path().join("checkpoints/turns");
    fs::write(&turns, "in the way").unwrap();
    let tool = kept.place.tool("write");
    let arguments = json!({ "path": "f", "content": "x" });
    let called = tool
        .execute_with_context(arguments, &kept.context(kept.turn()))
        .await;
    let ToolExecutionResult::ToolError(told) = called else {
        panic!("{called:?}")
    };
    assert!(told.contains("could not be taken back"), "{told}");
    assert!(!kept.place.root().join("f").exists());
}
