//! An undo across several roots is executed in all of them or in none.

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::turn_environment::TurnEnvironment;
use windlass_core::typed_id::{SessionId, TurnId};

use super::tests::{ACTIONS_BEFORE_FAILURE, ACTIONS_LEFT, FileTree, read_tree};
use super::*;
use crate::environments::{Environment, Policy};

/// Environments over the roots `one` and `two`, a store, and a turn that changed files in both.
struct TwoRoots {
    directory: TempDir,
    environments: Environments,
    store: Checkpoints,
    turn: TurnToUndo,
    before: [FileTree; 2],
    after: [FileTree; 2],
}

impl TwoRoots {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let environments = Environments::new();
        for name in ["one", "two"] {
            let root = directory.path().join(name);
            fs::create_dir(&root).unwrap();
            fs::write(root.join("changed"), "before").unwrap();
            fs::write(root.join("removed"), "before").unwrap();
            environments.put(Environment::new(name, root, Policy::default()).unwrap());
        }
        let store = open(directory.path());
        let mut roots = Self {
            environments,
            store,
            turn: TurnToUndo {
                turn_id: TurnId::new(),
                began: i64::MAX,
            },
            before: Default::default(),
            after: Default::default(),
            directory,
        };
        roots.before = roots.trees();
        let turn = CheckpointedTurn {
            session_id: SessionId::new(),
            turn_id: roots.turn.turn_id,
        };
        for name in ["one", "two"] {
            let at = TurnEnvironment::new(name, "");
            let at = Arc::new(roots.environments.resolve(Some(&at)).unwrap());
            let call = roots.store.begin(at, turn).unwrap();
            let root = roots.root(name);
            fs::write(root.join("changed"), "after").unwrap();
            fs::remove_file(root.join("removed")).unwrap();
            fs::create_dir(root.join("added")).unwrap();
            fs::write(root.join("added/file"), "after").unwrap();
            call.end();
        }
        roots.after = roots.trees();
        roots
    }

    fn root(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn trees(&self) -> [FileTree; 2] {
        ["one", "two"].map(|name| {
            let mut tree = FileTree::new();
            read_tree(&self.root(name), Path::new(""), &mut tree);
            tree
        })
    }

    fn undo(&self) -> Result<RestoreReport, CheckpointError> {
        let turns = [self.turn];
        self.store
            .undo(&self.environments, &turns, CutOffCalls::Refuse)
    }

    /// Simulates a restart of the process.
    fn restart(&mut self) {
        self.store = open(self.directory.path());
        self.store.finish_restores(&self.environments);
    }
}

fn open(directory: &Path) -> Checkpoints {
    Checkpoints::open(directory.join("store"), CheckpointLimits::default()).unwrap()
}

#[test]
fn failed_undo_changes_no_root() {
    for actions in 0.. {
        let roots = TwoRoots::new();
        ACTIONS_BEFORE_FAILURE.set(Some(actions));
        let undone = roots.undo();
        let has_failed = ACTIONS_BEFORE_FAILURE.take().is_none();
        if !has_failed {
            assert!(actions >= 8, "the failure reached both roots");
            undone.unwrap();
            assert_eq!(roots.trees(), roots.before);
            return;
        }
        undone.unwrap_err();
        assert_eq!(roots.trees(), roots.after, "failed at action {actions}");
        // Once the cause is gone, the same undo succeeds.
        roots.undo().unwrap();
        assert_eq!(roots.trees(), roots.before);
    }
}

#[test]
fn killed_undo_is_finished_in_all_roots() {
    for actions in 0.. {
        let mut roots = TwoRoots::new();
        ACTIONS_LEFT.set(Some(actions));
        let killed = catch_unwind(AssertUnwindSafe(|| roots.undo()));
        ACTIONS_LEFT.set(None);
        if let Ok(undone) = killed {
            undone.unwrap();
            assert!(actions >= 8, "the kill reached both roots");
            return;
        }
        roots.restart();
        assert_eq!(
            roots.trees(),
            roots.before,
            "killed before action {actions}"
        );
        roots.undo().unwrap();
        assert_eq!(roots.trees(), roots.before);
    }
}

#[test]
fn restore_begun_by_an_earlier_version_is_finished() {
    let mut roots = TwoRoots::new();
    ACTIONS_LEFT.set(Some(0));
    let killed = catch_unwind(AssertUnwindSafe(|| roots.undo()));
    ACTIONS_LEFT.set(None);
    killed.unwrap_err();
    for (path, intent) in roots.store.shared.intents.unfinished().unwrap() {
        fs::remove_file(path).unwrap();
        for RootSteps { root, steps } in intent.roots {
            let record = serde_json::json!({ "version": 1, "steps": steps });
            let directory = roots.store.workspace_directory(&root);
            fs::write(directory.join("restoring.json"), record.to_string()).unwrap();
        }
    }
    roots.restart();
    assert_eq!(roots.trees(), roots.before);
}

#[test]
fn undo_is_finished_once_every_root_has_an_environment() {
    let mut roots = TwoRoots::new();
    ACTIONS_LEFT.set(Some(0));
    let killed = catch_unwind(AssertUnwindSafe(|| roots.undo()));
    ACTIONS_LEFT.set(None);
    killed.unwrap_err();
    let all = roots.environments.clone();
    let one = Environment::new("one", roots.root("one"), Policy::default()).unwrap();
    roots.environments = Environments::with_default(one);
    roots.restart();
    assert_eq!(roots.trees(), roots.after, "no root is restored alone");
    roots.environments = all;
    roots.restart();
    assert_eq!(roots.trees(), roots.before);
}
