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
    CheckpointError, CheckpointLimits, CheckpointedCall, CheckpointedTurn, Checkpoints,
    Confinement, CutOffCalls, OutputLimits, Outputs, Policy, RestoreReport, ShellCapability,
    TurnToUndo,
};

use crate::support::{TestWorkspace, snapshot, soon};

/// A workspace with checkpoints.
struct CheckpointedWorkspace {
    workspace: TestWorkspace,
    data: TempDir,
    limits: CheckpointLimits,
}

/// A turn of a session.
#[derive(Clone, Copy)]
struct TestTurn {
    session_id: SessionId,
    undone: TurnToUndo,
}

fn now() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    i64::try_from(now.as_nanos()).unwrap()
}

impl CheckpointedWorkspace {
    fn new() -> Self {
        Self::with(CheckpointLimits::default())
    }

    fn with(limits: CheckpointLimits) -> Self {
        let workspace = TestWorkspace::confined(Confinement::Unconfined, Policy::default());
        let data = tempfile::tempdir().unwrap();
        let fixture = Self {
            workspace,
            data,
            limits,
        };
        fixture.start();
        fixture
    }

    /// Starts a process after the previous one has died.
    fn start(&self) {
        let store = self.data.path().join("checkpoints");
        let checkpoints = Checkpoints::open(store, self.limits.clone()).unwrap();
        self.workspace.environments.enable_checkpoints(checkpoints);
    }

    fn store(&self) -> Checkpoints {
        self.workspace.environments.checkpoints().unwrap()
    }

    fn turn(&self) -> TestTurn {
        TestTurn {
            session_id: SessionId::new(),
            undone: TurnToUndo {
                turn_id: TurnId::new(),
                began: now(),
            },
        }
    }

    fn context(&self, turn: TestTurn) -> ToolContext {
        let mut context = ToolContext::new(turn.session_id);
        context.event_context = Some(EventContext {
            turn_id: Some(turn.undone.turn_id),
            ..EventContext::default()
        });
        context
    }

    async fn call(&self, turn: TestTurn, tool: &str, arguments: Value) {
        let tool = self.workspace.tool(tool);
        let context = self.context(turn);
        let called = tool.execute_with_context(arguments, &context).await;
        assert!(
            matches!(called, ToolExecutionResult::Success(_)),
            "{called:?}"
        );
    }

    async fn write(&self, turn: TestTurn, path: &str, content: &str) {
        let arguments = json!({ "path": path, "content": content });
        self.call(turn, "write", arguments).await;
    }

    async fn shell(&self, turn: TestTurn, command: &str) {
        self.call(turn, "shell", json!({ "command": command }))
            .await;
    }

    fn undo(&self, turns: &[TestTurn]) -> Result<RestoreReport, CheckpointError> {
        let turns: Vec<_> = turns.iter().map(|turn| turn.undone).collect();
        self.store()
            .undo(&self.workspace.environments, &turns, CutOffCalls::Refuse)
    }

    fn refused(&self, turns: &[TestTurn]) -> Vec<String> {
        let before = snapshot(&self.workspace.root());
        let refused = self.undo(turns).unwrap_err();
        assert_eq!(snapshot(&self.workspace.root()), before);
        let CheckpointError::ExternalEdits { paths } = refused else {
            panic!("{refused}")
        };
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect()
    }

    fn write_externally(&self, path: &str, content: &str) {
        fs::write(self.workspace.root().join(path), content).unwrap();
    }

    fn records(&self) -> usize {
        let turns = self.data.path().join("checkpoints/turns");
        fs::read_dir(turns).map_or(0, Iterator::count)
    }
}

#[tokio::test]
async fn changes_of_all_tools_of_a_turn_are_undone() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("edited", "one\ntwo\n");
    fixture.write_externally("deleted", "gone");
    let before = snapshot(&fixture.workspace.root());
    let turn = fixture.turn();
    fixture.write(turn, "new/file", "made").await;
    let edit = json!({ "path": "edited", "old_string": "two", "new_string": "2" });
    fixture.call(turn, "edit", edit).await;
    fixture.shell(turn, "rm deleted; echo x > by_shell").await;
    assert_ne!(snapshot(&fixture.workspace.root()), before);
    let restored = fixture.undo(&[turn]).unwrap();
    assert!(restored.left.is_empty(), "{restored:?}");
    assert_eq!(snapshot(&fixture.workspace.root()), before);
    // Repeating it does nothing, even in the next process.
    fixture.start();
    fixture.undo(&[turn]).unwrap();
    assert_eq!(snapshot(&fixture.workspace.root()), before);
}

#[tokio::test]
async fn several_turns_are_undone_at_once() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("f", "0");
    let turns = [fixture.turn(), fixture.turn(), fixture.turn()];
    for (number, turn) in turns.iter().enumerate() {
        fixture.write(*turn, "f", &format!("{}", number + 1)).await;
        fixture.write(*turn, &format!("g{number}"), "x").await;
    }
    fixture.undo(&turns[1..]).unwrap();
    assert_eq!(fixture.workspace.text("f"), "1");
    assert!(fixture.workspace.root().join("g0").exists());
    assert!(!fixture.workspace.root().join("g1").exists());
    fixture.undo(&turns[..1]).unwrap();
    assert_eq!(fixture.workspace.text("f"), "0");
}

#[tokio::test]
async fn external_change_between_two_calls_is_preserved() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("ours", "0");
    let turn = fixture.turn();
    fixture.write(turn, "ours", "1").await;
    fixture.write_externally("theirs", "external");
    fixture.write(turn, "ours", "2").await;
    fixture.undo(&[turn]).unwrap();
    assert_eq!(fixture.workspace.text("ours"), "0");
    assert_eq!(fixture.workspace.text("theirs"), "external");
    // Changes of the same file cannot be distinguished.
    let turn = fixture.turn();
    fixture.write(turn, "ours", "1").await;
    fixture.write_externally("ours", "1 and theirs");
    fixture.write(turn, "ours", "2").await;
    assert_eq!(fixture.refused(&[turn]), ["ours"]);
}

#[tokio::test]
async fn later_external_edit_is_refused_with_its_path() {
    let fixture = CheckpointedWorkspace::new();
    let turn = fixture.turn();
    fixture.write(turn, "a", "1").await;
    fixture.write(turn, "b", "1").await;
    fixture.write_externally("b", "theirs");
    assert_eq!(fixture.refused(&[turn]), ["b"]);
}

#[tokio::test]
async fn call_without_changes_leaves_no_record() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("f", "0");
    let turn = fixture.turn();
    fixture.shell(turn, "cat f").await;
    fixture.call(turn, "read", json!({ "path": "f" })).await;
    fixture.write(turn, "f", "0").await;
    assert_eq!(fixture.records(), 0);
    fixture.write(turn, "f", "1").await;
    assert_eq!(fixture.records(), 1);
}

#[tokio::test]
async fn cancelled_command_is_undone() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("f", "0");
    let turn = fixture.turn();
    let (tool, context) = (fixture.workspace.tool("shell"), fixture.context(turn));
    let command = json!({ "command": "echo 1 > f; echo x > g; sleep 1000" });
    let running = tool.execute_with_context(command, &context);
    let made = fixture.workspace.root().join("g");
    let seen = tokio::task::spawn_blocking(move || soon("the command works", || made.exists()));
    tokio::select! {
        ended = running => panic!("{ended:?}"),
        seen = seen => seen.unwrap(),
    }
    let store = fixture.store();
    let environments = fixture.workspace.environments.clone();
    // The undo waits until the processes of the command have ended and its files were scanned.
    let undone = tokio::task::spawn_blocking(move || {
        store.undo(&environments, &[turn.undone], CutOffCalls::Refuse)
    });
    undone.await.unwrap().unwrap();
    assert_eq!(fixture.workspace.text("f"), "0");
    assert!(!fixture.workspace.root().join("g").exists());
}

/// Begins a call.
fn begin_call(fixture: &CheckpointedWorkspace, turn: TestTurn) -> CheckpointedCall {
    let at = fixture.workspace.environments.resolve(None).unwrap();
    let of = CheckpointedTurn {
        session_id: turn.session_id,
        turn_id: turn.undone.turn_id,
    };
    fixture.store().begin(Arc::new(at), of).unwrap()
}

/// Begins a call and simulates the death of the process during it.
fn crash_during_a_call(fixture: &CheckpointedWorkspace, turn: TestTurn) {
    let call = begin_call(fixture, turn);
    fixture.start();
    drop(call);
}

#[tokio::test]
async fn changes_after_a_crash_have_an_unknown_author() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("f", "0");
    let turn = fixture.turn();
    fixture.write(turn, "g", "1").await;
    crash_during_a_call(&fixture, turn);
    // Nothing changed, so nothing is unknown.
    fixture.undo(&[turn]).unwrap();
    assert!(!fixture.workspace.root().join("g").exists());
    fixture.write_externally("f", "1");
    assert_eq!(fixture.refused(&[turn]), ["f"]);
    fixture.write_externally("f", "0");
    fixture.undo(&[turn]).unwrap();
    // The turn continues in the next process.
    fixture.write_externally("f", "1");
    fixture.write(turn, "h", "2").await;
    assert_eq!(fixture.refused(&[turn]), ["f"]);
}

#[tokio::test]
async fn cut_off_call_is_undone_on_request() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("f", "0");
    let turn = fixture.turn();
    fixture.write(turn, "g", "1").await;
    let call = begin_call(&fixture, turn);
    fixture.write_externally("f", "half of it");
    fixture.start();
    drop(call);
    let (store, environments) = (fixture.store(), &fixture.workspace.environments);
    store.end_cut_off_calls(environments);
    let before = snapshot(&fixture.workspace.root());
    let refused = fixture.undo(&[turn]).unwrap_err();
    assert!(
        matches!(&refused, CheckpointError::CutOff { paths } if *paths == [Path::new("f")]),
        "{refused}"
    );
    assert_eq!(snapshot(&fixture.workspace.root()), before);
    let take_back = || store.undo(environments, &[turn.undone], CutOffCalls::TakeBack);
    // Changes after the start of the next process are external, whatever the request specifies.
    fixture.write_externally("f", "theirs");
    let refused = take_back().unwrap_err();
    assert!(
        matches!(&refused, CheckpointError::ExternalEdits { paths } if *paths == [Path::new("f")]),
        "{refused}"
    );
    assert_eq!(fixture.workspace.text("f"), "theirs");
    fixture.write_externally("f", "half of it");
    take_back().unwrap();
    assert_eq!(fixture.workspace.text("f"), "0");
    assert!(!fixture.workspace.root().join("g").exists());
}

#[tokio::test]
async fn cut_off_call_without_changes_does_not_prevent_an_undo() {
    let fixture = CheckpointedWorkspace::new();
    let turn = fixture.turn();
    fixture.write(turn, "g", "1").await;
    crash_during_a_call(&fixture, turn);
    fixture
        .store()
        .end_cut_off_calls(&fixture.workspace.environments);
    // An external change, unrelated to any call.
    fixture.write_externally("f", "theirs");
    fixture.undo(&[turn]).unwrap();
    assert!(!fixture.workspace.root().join("g").exists());
    assert_eq!(fixture.workspace.text("f"), "theirs");
}

#[tokio::test]
async fn concurrent_changes_of_two_turns_have_an_unknown_author() {
    let fixture = CheckpointedWorkspace::new();
    let (one, other) = (fixture.turn(), fixture.turn());
    let at = Arc::new(fixture.workspace.environments.resolve(None).unwrap());
    let of = |turn: TestTurn| CheckpointedTurn {
        session_id: turn.session_id,
        turn_id: turn.undone.turn_id,
    };
    let store = fixture.store();
    let first = store.begin(Arc::clone(&at), of(one)).unwrap();
    fixture.write_externally("f", "1");
    let second = store.begin(at, of(other)).unwrap();
    fixture.write_externally("g", "2");
    first.end();
    second.end();
    assert_eq!(fixture.refused(&[one]), ["f", "g"]);
    assert_eq!(fixture.refused(&[other]), ["g"]);
}

#[tokio::test]
async fn edit_during_a_background_command_is_undone() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("a", "old");
    let outputs = Outputs::open(fixture.data.path().join("outputs"), OutputLimits::default());
    fixture
        .workspace
        .environments
        .enable_outputs(outputs.unwrap());
    let (environments, settings) = (&fixture.workspace.environments, &fixture.workspace.settings);
    let shell = ShellCapability::new(environments.clone(), settings.clone());
    let tools = shell.tools_with_config(&json!({ "approval": "never" }));
    let turn = fixture.turn();
    let call = async |name: &str, arguments: Value| {
        let tool = tools.iter().find(|tool| tool.name() == name).unwrap();
        match tool
            .execute_with_context(arguments, &fixture.context(turn))
            .await
        {
            ToolExecutionResult::Success(value) => value,
            other => panic!("{other:?}"),
        }
    };
    let begin = json!({ "command": "sleep 1000", "background": true });
    let id = call("shell", begin).await["id"].clone();
    let edit = json!({ "path": "a", "old_string": "old", "new_string": "new" });
    fixture.call(turn, "edit", edit).await;
    fixture.write(turn, "b", "1").await;
    call("shell_stop", json!({ "id": id })).await;
    // The next change is a separate call again.
    fixture.write(turn, "a", "newer").await;
    fixture.undo(&[turn]).unwrap();
    assert_eq!(fixture.workspace.text("a"), "old");
    assert!(!fixture.workspace.root().join("b").exists());
}

#[tokio::test]
async fn write_during_a_command_of_another_turn_is_undone() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("a", "old");
    fixture.write_externally("b", "old");
    let (command, other) = (fixture.turn(), fixture.turn());
    let command_call = begin_call(&fixture, command);
    fixture.write_externally("made", "by the command");
    let edit = json!({ "path": "a", "old_string": "old", "new_string": "new" });
    fixture.call(other, "edit", edit).await;
    fixture.write(other, "deep/er/new", "1").await;
    fixture.write_externally("made", "by the command, later");
    fixture.write(other, "b", "new").await;
    command_call.end();
    // The command's changes are unknown, except that the other call's are known.
    assert_eq!(fixture.refused(&[command]).len(), 6);
    // Later changes of the command are not overwritten.
    fixture.write_externally("b", "by the command");
    assert_eq!(fixture.refused(&[other]), ["b"]);
    fixture.write_externally("b", "new");
    fixture.undo(&[other]).unwrap();
    assert_eq!(fixture.workspace.text("a"), "old");
    assert_eq!(fixture.workspace.text("b"), "old");
    assert!(!fixture.workspace.root().join("deep").exists());
    assert_eq!(fixture.workspace.text("made"), "by the command, later");
}

#[tokio::test]
async fn file_written_by_two_turns_at_once_has_an_unknown_author() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("a", "old");
    let (command, other) = (fixture.turn(), fixture.turn());
    let command_call = begin_call(&fixture, command);
    let shell = "echo more >> a";
    fixture.shell(other, shell).await;
    fixture.write(other, "a", "new").await;
    command_call.end();
    // Changes of concurrent commands are attributed to neither, and the same applies to files written over them.
    assert_eq!(fixture.refused(&[other]), ["a"]);
}

#[tokio::test]
async fn overlapping_calls_of_a_turn_are_merged() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("f", "0");
    let turn = fixture.turn();
    // The second outlives the first, and the third the second.
    let first = begin_call(&fixture, turn);
    fixture.write_externally("f", "1");
    let second = begin_call(&fixture, turn);
    fixture.write_externally("f", "2");
    first.end();
    fixture.write_externally("f", "3");
    let third = begin_call(&fixture, turn);
    second.end();
    fixture.write_externally("f", "4");
    third.end();
    fixture.undo(&[turn]).unwrap();
    assert_eq!(fixture.workspace.text("f"), "0");

    let turn = fixture.turn();
    let (first, second) = (begin_call(&fixture, turn), begin_call(&fixture, turn));
    fixture.write_externally("f", "1");
    second.end();
    first.end();
    fixture.write_externally("f", "theirs");
    fixture.write(turn, "f", "2").await;
    assert_eq!(fixture.refused(&[turn]), ["f"]);
}

#[tokio::test]
async fn calls_during_a_cut_off_call_are_undone_on_request() {
    let fixture = CheckpointedWorkspace::new();
    fixture.write_externally("f", "0");
    let turn = fixture.turn();
    let command_call = begin_call(&fixture, turn);
    fixture.write(turn, "f", "1").await;
    fixture.start();
    drop(command_call);
    let (store, environments) = (fixture.store(), &fixture.workspace.environments);
    store.end_cut_off_calls(environments);
    let refused = fixture.undo(&[turn]).unwrap_err();
    assert!(
        matches!(&refused, CheckpointError::CutOff { paths } if *paths == [Path::new("f")]),
        "{refused}"
    );
    let undone = store.undo(environments, &[turn.undone], CutOffCalls::TakeBack);
    undone.unwrap();
    assert_eq!(fixture.workspace.text("f"), "0");
}

#[tokio::test]
async fn turns_without_checkpoints_are_not_recorded() {
    let fixture = CheckpointedWorkspace::new();
    let before = fixture.turn();
    let store = fixture.data.path().join("checkpoints");
    Checkpoints::turn_off(&store).unwrap();
    let during = fixture.turn();
    fixture.start();
    let after = fixture.turn();
    for turn in [before, during] {
        let unknown = fixture.undo(&[turn]).unwrap_err();
        assert!(matches!(unknown, CheckpointError::NotRecorded), "{unknown}");
    }
    fixture.undo(&[after]).unwrap();
}

#[tokio::test]
async fn too_large_workspace_is_usable_and_not_restored() {
    let fixture = CheckpointedWorkspace::with(CheckpointLimits {
        files: 2,
        ..CheckpointLimits::default()
    });
    for name in ["a", "b", "c"] {
        fixture.write_externally(name, "0");
    }
    let turn = fixture.turn();
    fixture.write(turn, "a", "1").await;
    assert_eq!(fixture.workspace.text("a"), "1");
    let refused = fixture.undo(&[turn]).unwrap_err();
    assert!(
        matches!(refused, CheckpointError::NotTaken { .. }),
        "{refused}"
    );
}

#[tokio::test]
async fn oldest_turns_are_removed_first_and_reported() {
    let fixture = CheckpointedWorkspace::with(CheckpointLimits {
        stored_bytes: 50_000,
        ..CheckpointLimits::default()
    });
    let mut turns = Vec::new();
    for letter in ["a", "b", "c", "d", "e", "f", "g"] {
        let turn = fixture.turn();
        fixture.write(turn, "f", &letter.repeat(10_000)).await;
        turns.push(turn);
    }
    let retained = fixture.records();
    assert!((1..7).contains(&retained), "{retained}");
    fixture.undo(&turns[6..]).unwrap();
    assert_eq!(fixture.workspace.text("f"), "f".repeat(10_000));
    fixture.start();
    let unknown = fixture.undo(&turns[..1]).unwrap_err();
    assert!(matches!(unknown, CheckpointError::NotRecorded), "{unknown}");
}

#[tokio::test]
async fn turn_is_not_restored_in_part() {
    let fixture = CheckpointedWorkspace::with(CheckpointLimits {
        stored_bytes: 50_000,
        ..CheckpointLimits::default()
    });
    let long = fixture.turn();
    fixture.write(long, "first", "of the long turn").await;
    for letter in ["a", "b", "c", "d", "e", "f", "g"] {
        fixture
            .write(fixture.turn(), "f", &letter.repeat(10_000))
            .await;
    }
    // The changes of its first call were removed by now.
    fixture.write(long, "second", "of the long turn").await;
    let before = snapshot(&fixture.workspace.root());
    let unknown = fixture.undo(&[long]).unwrap_err();
    assert!(matches!(unknown, CheckpointError::NotRecorded), "{unknown}");
    assert_eq!(snapshot(&fixture.workspace.root()), before);
}

#[tokio::test]
async fn turn_left_open_by_a_crash_is_pruned() {
    let fixture = CheckpointedWorkspace::with(CheckpointLimits {
        stored_bytes: 50_000,
        ..CheckpointLimits::default()
    });
    fixture.write_externally("f", &"0".repeat(10_000));
    let crashed = fixture.turn();
    crash_during_a_call(&fixture, crashed);
    for letter in ["a", "b", "c", "d", "e", "f", "g"] {
        fixture
            .write(fixture.turn(), "f", &letter.repeat(10_000))
            .await;
    }
    let unknown = fixture.undo(&[crashed]).unwrap_err();
    assert!(matches!(unknown, CheckpointError::NotRecorded), "{unknown}");
}

#[tokio::test]
async fn checkpoints_are_deleted_with_their_session() {
    let fixture = CheckpointedWorkspace::new();
    let (one, other) = (fixture.turn(), fixture.turn());
    fixture.write_externally("f", "a secret");
    fixture.write(one, "f", "another").await;
    fixture.write(other, "g", "stays").await;
    fixture.write_externally("f", "");
    let store = fixture.data.path().join("checkpoints/workspaces");
    let is_stored = |content: &str| {
        let files = snapshot(&store);
        files.iter().any(|(_, it)| it.as_deref() == Some(content))
    };
    assert!(is_stored("a secret") && is_stored("another"));
    fixture.store().forget(one.session_id).unwrap();
    assert!(!is_stored("a secret"));
    // A fork may still have the turn: it must not look like a turn without changes.
    let refused = fixture.undo(&[one]).unwrap_err();
    assert!(
        matches!(refused, CheckpointError::NotTaken { .. }),
        "{refused}"
    );
    fixture.undo(&[other]).unwrap();
    assert!(!fixture.workspace.root().join("g").exists());
}

#[tokio::test]
async fn call_that_cannot_be_recorded_is_not_executed() {
    let fixture = CheckpointedWorkspace::new();
    let turns = fixture.data.path().join("checkpoints/turns");
    fs::write(&turns, "in the way").unwrap();
    let tool = fixture.workspace.tool("write");
    let arguments = json!({ "path": "f", "content": "x" });
    let called = tool
        .execute_with_context(arguments, &fixture.context(fixture.turn()))
        .await;
    let ToolExecutionResult::ToolError(error) = called else {
        panic!("{called:?}")
    };
    assert!(error.contains("could not be undone"), "{error}");
    assert!(!fixture.workspace.root().join("f").exists());
}
