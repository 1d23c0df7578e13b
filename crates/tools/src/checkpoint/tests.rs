use std::cell::Cell;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use tempfile::TempDir;
use windlass_process::Hidden;

use super::*;
use crate::environments::{Environment, Policy};

thread_local! {
    pub(super) static ACTIONS_LEFT: Cell<Option<usize>> = const { Cell::new(None) };
    /// Actions before the one that fails; later ones succeed.
    pub(super) static ACTIONS_BEFORE_FAILURE: Cell<Option<usize>> = const { Cell::new(None) };
}

/// Simulates a kill before the action that exceeds the count; no cleanup code runs.
pub(super) fn before_change() -> io::Result<()> {
    match ACTIONS_LEFT.get() {
        Some(0) => panic!("killed"),
        left => ACTIONS_LEFT.set(left.map(|left| left - 1)),
    }
    let left = ACTIONS_BEFORE_FAILURE.get();
    ACTIONS_BEFORE_FAILURE.set(left.and_then(|left| left.checked_sub(1)));
    match left {
        Some(0) => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    }
}

/// A workspace with a separate store.
struct TestWorkspace {
    directory: TempDir,
    limits: CheckpointLimits,
    store: Checkpoints,
}

impl TestWorkspace {
    fn new() -> Self {
        Self::with(CheckpointLimits::default())
    }

    fn with(limits: CheckpointLimits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        fs::create_dir(directory.path().join("root")).unwrap();
        let store = Checkpoints::open(directory.path().join("store"), limits.clone()).unwrap();
        Self {
            directory,
            limits,
            store,
        }
    }

    /// Simulates a restart of the process.
    fn reopen(&mut self) {
        let store = self.directory.path().join("store");
        self.store = Checkpoints::open(store, self.limits.clone()).unwrap();
    }

    fn root(&self) -> PathBuf {
        self.directory.path().join("root").canonicalize().unwrap()
    }

    fn environment(&self) -> Environment {
        Environment::new("e", self.root(), Policy::default()).unwrap()
    }

    fn at(&self) -> ResolvedWorkspace {
        let hidden = Hidden::default();
        ResolvedWorkspace::open(
            &self.environment(),
            Path::new(""),
            Policy::default(),
            hidden,
        )
        .unwrap()
    }

    fn take(&self) -> CheckpointId {
        self.store.take(&self.at()).unwrap()
    }

    fn restore(
        &self,
        from: &CheckpointId,
        to: &CheckpointId,
    ) -> Result<RestoreReport, CheckpointError> {
        self.restore_at(&self.at(), from, to)
    }

    /// Restores the differences between two checkpoints.
    fn restore_at(
        &self,
        at: &ResolvedWorkspace,
        from: &CheckpointId,
        to: &CheckpointId,
    ) -> Result<RestoreReport, CheckpointError> {
        let guard = self.store.enter();
        let (from, to) = self.store.manifests(&guard, at.root_path(), from, to)?;
        let steps = from.differences(&to).into_iter().map(|path| RestoreStep {
            path: path.clone(),
            from: from.get(path),
            to: to.get(path),
        });
        self.store.restore_all(&guard, vec![(at, steps.collect())])
    }

    /// Returns the paths at which two checkpoints differ.
    fn differences(&self, a: &CheckpointId, b: &CheckpointId) -> Vec<PathBuf> {
        let manifests = self
            .store
            .manifests(&self.store.enter(), &self.root(), a, b);
        let (a, b) = manifests.unwrap();
        a.differences(&b).into_iter().cloned().collect()
    }

    /// Removes everything that none of these checkpoints needs. Returns the number of retained checkpoints.
    fn retain(&self, checkpoints: &[CheckpointId]) -> usize {
        let groups: Vec<_> = checkpoints
            .iter()
            .map(|id| vec![(self.root(), id.clone())])
            .collect();
        let locked = self.store.lock_for_removal();
        let limit = self.limits.stored_bytes;
        self.store.retain_newest(&locked, &groups, limit).unwrap()
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    fn external_edits(&self, from: &CheckpointId, to: &CheckpointId) -> Vec<String> {
        let before = self.tree();
        let refused = self.restore(from, to).unwrap_err();
        assert_eq!(self.tree(), before, "a refusal changes nothing");
        let CheckpointError::ExternalEdits { paths } = refused else {
            panic!("{refused}")
        };
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect()
    }

    /// Returns whether this content is in the store.
    fn stores(&self, content: &str) -> bool {
        let digest = digest_of(content.as_bytes());
        let content = self.store.workspace_directory(&self.root()).join("content");
        content.join(&digest[..2]).join(&digest).exists()
    }

    fn tree(&self) -> FileTree {
        let mut tree = FileTree::new();
        read_tree(&self.root(), Path::new(""), &mut tree);
        tree
    }
}

/// Entries by path: a file with its mode, a link with its target, or a directory.
pub(super) type FileTree = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

pub(super) fn read_tree(root: &Path, below: &Path, tree: &mut FileTree) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        let found = if metadata.is_dir() {
            read_tree(root, &path, tree);
            ('d', mode, Vec::new())
        } else if metadata.is_symlink() {
            let target = fs::read_link(entry.path()).unwrap();
            ('l', 0, target.as_os_str().as_bytes().to_vec())
        } else if metadata.is_file() {
            ('f', mode, fs::read(entry.path()).unwrap())
        } else {
            ('?', mode, Vec::new())
        };
        tree.insert(path, found);
    }
}

#[test]
fn equal_states_have_the_same_id() {
    let workspace = TestWorkspace::new();
    workspace.write("a", "one");
    workspace.write("b/c", "one");
    let first = workspace.take();
    assert_eq!(workspace.take(), first);
    workspace.write("a", "two");
    let second = workspace.take();
    assert_ne!(second, first);
    workspace.write("a", "one");
    assert_eq!(workspace.take(), first);
    assert_eq!(workspace.differences(&first, &second), [PathBuf::from("a")]);
}

#[test]
fn changes_within_one_clock_tick_are_detected() {
    let workspace = TestWorkspace::new();
    let mut seen = Vec::new();
    for content in ["aaaa", "bbbb", "cccc", "dddd"] {
        workspace.write("f", content);
        seen.push(workspace.take());
    }
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

#[test]
fn unchanged_file_is_not_read_again() {
    let mut workspace = TestWorkspace::new();
    workspace.write("f", "secret");
    let first = workspace.take();
    // The file was changed long before it was read, so its stat is trusted from now on, even by the next process.
    let index = workspace
        .store
        .workspace_directory(&workspace.root())
        .join("index.json");
    let text = fs::read_to_string(&index).unwrap();
    let mut stored: serde_json::Value = serde_json::from_str(&text).unwrap();
    let read_at = stored["files"][0]["read_at"].as_u64().unwrap();
    stored["files"][0]["read_at"] = (read_at + 10_000_000_000).into();
    stored["files"][0]["digest"] = "0".repeat(64).into();
    fs::write(&index, stored.to_string()).unwrap();
    workspace.reopen();
    let second = workspace.take();
    assert_ne!(second, first, "the digest comes from the index");
}

#[test]
fn every_kind_of_change_is_undone() {
    let workspace = populated();
    let (before, tree) = (workspace.take(), workspace.tree());
    change_everything(&workspace);
    let after = workspace.take();
    assert_ne!(workspace.tree(), tree);
    let restored = workspace.restore(&after, &before).unwrap();
    assert!(restored.left.is_empty(), "{restored:?}");
    assert_eq!(workspace.tree(), tree);
    assert_eq!(workspace.take(), before);
    // Repeating the restore changes nothing.
    workspace.restore(&after, &before).unwrap();
    assert_eq!(workspace.tree(), tree);
    // And in the other direction.
    workspace.restore(&before, &after).unwrap();
    assert_eq!(workspace.take(), after);
}

/// A workspace with one entry of each type.
fn populated() -> TestWorkspace {
    let workspace = TestWorkspace::new();
    let root = workspace.root();
    workspace.write("text", "before");
    workspace.write("gone", "to be deleted");
    workspace.write("becomes_directory", "a file");
    workspace.write("becomes_file/deep/er", "in a directory");
    workspace.write("script", "#!/bin/sh");
    fs::set_permissions(root.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("binary"), [0, 159, 146, 150, 255]).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"na\xffme")), "odd").unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    symlink("text", root.join("link")).unwrap();
    symlink("/etc/passwd", root.join("link_out")).unwrap();
    symlink("empty", root.join("link_to_directory")).unwrap();
    workspace
}

fn change_everything(workspace: &TestWorkspace) {
    let root = workspace.root();
    workspace.write("text", "after");
    fs::remove_file(root.join("gone")).unwrap();
    fs::remove_file(root.join("becomes_directory")).unwrap();
    workspace.write("becomes_directory/x/y", "now deep");
    fs::remove_dir_all(root.join("becomes_file")).unwrap();
    workspace.write("becomes_file", "now flat");
    fs::set_permissions(root.join("script"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(root.join("binary"), [1, 0, 255]).unwrap();
    fs::remove_file(root.join(OsStr::from_bytes(b"na\xffme"))).unwrap();
    fs::remove_dir(root.join("empty")).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    symlink("elsewhere", root.join("link")).unwrap();
    fs::remove_file(root.join("link_out")).unwrap();
    workspace.write("link_out", "a file where a link was");
    fs::remove_file(root.join("link_to_directory")).unwrap();
    workspace.write("link_to_directory/f", "a directory where a link was");
    workspace.write("new/one", "added");
}

#[test]
fn killed_restore_is_finished_by_the_next_process() {
    for actions in 0.. {
        let mut workspace = populated();
        let (before, tree) = (workspace.take(), workspace.tree());
        change_everything(&workspace);
        let after = workspace.take();
        ACTIONS_LEFT.set(Some(actions));
        let killed = catch_unwind(AssertUnwindSafe(|| workspace.restore(&after, &before)));
        ACTIONS_LEFT.set(None);
        if let Ok(restored) = killed {
            restored.unwrap();
            assert!(actions > 20, "every action was interrupted once");
            assert_eq!(workspace.tree(), tree);
            return;
        }
        workspace.reopen();
        let environments = Environments::with_default(workspace.environment());
        workspace.store.finish_restores(&environments);
        assert_eq!(workspace.tree(), tree, "killed before action {actions}");
        assert_eq!(workspace.take(), before);
    }
}

#[test]
fn edit_after_a_killed_restore_is_preserved() {
    let mut workspace = TestWorkspace::new();
    workspace.write("a", "1");
    workspace.write("b", "1");
    let before = workspace.take();
    workspace.write("a", "2");
    workspace.write("b", "2");
    let after = workspace.take();
    ACTIONS_LEFT.set(Some(0));
    let killed = catch_unwind(AssertUnwindSafe(|| workspace.restore(&after, &before)));
    ACTIONS_LEFT.set(None);
    assert!(killed.is_err());
    workspace.write("b", "theirs");
    workspace.reopen();
    workspace.take();
    assert_eq!(
        (workspace.read("a"), workspace.read("b")),
        ("1".to_owned(), "theirs".to_owned())
    );
}

#[test]
fn external_edits_are_refused_with_their_paths() {
    let workspace = TestWorkspace::new();
    for name in ["a", "b", "c", "same"] {
        workspace.write(name, "before");
    }
    let before = workspace.take();
    workspace.write("a", "after");
    fs::remove_file(workspace.root().join("b")).unwrap();
    workspace.write("c", "after");
    workspace.write("d/new", "after");
    let after = workspace.take();
    // Files that the turn did not touch do not matter.
    workspace.write("same", "theirs");
    workspace.write("other", "theirs");
    workspace.write("a", "theirs");
    assert_eq!(workspace.external_edits(&after, &before), ["a"]);
    workspace.write("b", "theirs");
    fs::remove_file(workspace.root().join("d/new")).unwrap();
    workspace.write("d/new/x", "theirs");
    assert_eq!(
        workspace.external_edits(&after, &before),
        ["a", "b", "d/new"]
    );
    workspace.write("a", "after");
    fs::remove_dir_all(workspace.root().join("d/new")).unwrap();
    // A user who has already reverted the change causes no conflict.
    workspace.write("b", "before");
    workspace.restore(&after, &before).unwrap();
    assert_eq!(workspace.read("a"), "before");
    assert_eq!(workspace.read("same"), "theirs");
    assert_eq!(workspace.read("other"), "theirs");
    assert!(!workspace.root().join("d").exists());
}

#[test]
fn mode_change_is_an_external_edit() {
    let workspace = TestWorkspace::new();
    workspace.write("f", "before");
    let before = workspace.take();
    workspace.write("f", "after");
    let after = workspace.take();
    let path = workspace.root().join("f");
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(workspace.external_edits(&after, &before), ["f"]);
}

#[test]
fn directory_with_external_files_is_not_removed() {
    let workspace = TestWorkspace::new();
    let before = workspace.take();
    workspace.write("made/ours", "x");
    let after = workspace.take();
    workspace.write("made/theirs", "y");
    let restored = workspace.restore(&after, &before).unwrap();
    assert_eq!(restored.left, [PathBuf::from("made")]);
    assert_eq!(restored.changed, [PathBuf::from("made/ours")]);
    assert_eq!(workspace.read("made/theirs"), "y");
    assert!(!workspace.root().join("made/ours").exists());
}

#[test]
fn directory_with_external_files_is_not_replaced_by_a_file() {
    let workspace = TestWorkspace::new();
    workspace.write("x", "a file");
    let before = workspace.take();
    fs::remove_file(workspace.root().join("x")).unwrap();
    workspace.write("x/ours", "1");
    let after = workspace.take();
    workspace.write("x/sub/theirs", "2");
    assert_eq!(workspace.external_edits(&after, &before), ["x/sub"]);
    fs::remove_dir_all(workspace.root().join("x/sub")).unwrap();
    workspace.restore(&after, &before).unwrap();
    assert_eq!(workspace.read("x"), "a file");
}

#[test]
fn link_in_place_of_a_directory_is_not_followed() {
    let workspace = TestWorkspace::new();
    let outside = workspace.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["changed", "deleted", "added"] {
        fs::write(outside.join(name), "outside").unwrap();
    }
    fs::remove_file(outside.join("deleted")).unwrap();
    workspace.write("d/changed", "before");
    workspace.write("d/deleted", "before");
    let before = workspace.take();
    workspace.write("d/changed", "outside");
    fs::remove_file(workspace.root().join("d/deleted")).unwrap();
    workspace.write("d/added", "outside");
    let after = workspace.take();
    fs::remove_dir_all(workspace.root().join("d")).unwrap();
    symlink(&outside, workspace.root().join("d")).unwrap();
    let external_edits = workspace.external_edits(&after, &before);
    assert!(
        external_edits.contains(&"d/changed".to_owned()),
        "{external_edits:?}"
    );
    assert!(
        external_edits.contains(&"d".to_owned()),
        "{external_edits:?}"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
}

#[test]
fn change_of_a_large_file_is_reported_and_not_restored() {
    let workspace = TestWorkspace::with(CheckpointLimits {
        file_bytes: 100,
        ..CheckpointLimits::default()
    });
    let (small, large) = ("s".repeat(100), "l".repeat(101));
    workspace.write("grows", &small);
    workspace.write("shrinks", &large);
    workspace.write("large", &large);
    workspace.write("other", "before");
    let before = workspace.take();
    workspace.write("grows", &large);
    workspace.write("shrinks", &small);
    workspace.write("large", &"m".repeat(200));
    workspace.write("other", "after");
    let after = workspace.take();
    let restored = workspace.restore(&after, &before).unwrap();
    let left = ["large", "shrinks"].map(PathBuf::from);
    assert_eq!(restored.left, left);
    assert_eq!(workspace.read("grows"), small);
    assert_eq!(workspace.read("shrinks"), small);
    assert_eq!(workspace.read("other"), "before");
}

#[test]
fn too_large_workspace_has_no_checkpoints() {
    for (limits, what) in [
        (
            CheckpointLimits {
                files: 3,
                ..CheckpointLimits::default()
            },
            "files",
        ),
        (
            CheckpointLimits {
                total_bytes: 3,
                ..CheckpointLimits::default()
            },
            "bytes",
        ),
    ] {
        let workspace = TestWorkspace::with(limits);
        for name in ["a", "b", "c"] {
            workspace.write(name, "x");
        }
        workspace.take();
        workspace.write("d", "x");
        let error = workspace.store.take(&workspace.at()).unwrap_err();
        assert!(
            matches!(&error, CheckpointError::TooLarge { what: it, .. } if *it == what),
            "{error}"
        );
    }
}

#[test]
fn too_large_workspace_is_not_read_completely() {
    let workspace = TestWorkspace::with(CheckpointLimits {
        total_bytes: 3_200,
        ..CheckpointLimits::default()
    });
    workspace.store.prune().unwrap();
    for number in 0..33 {
        workspace.write(&format!("f{number}"), &format!("{number:0100}"));
    }
    workspace.store.take(&workspace.at()).unwrap_err();
    let stored = retention::bytes_in(workspace.store.directory()).unwrap();
    assert!(stored <= 100, "{stored}");
    assert_eq!(*lock(&workspace.store.shared.stored), Some(stored));
    // A workspace that fits is read completely.
    fs::remove_file(workspace.root().join("f0")).unwrap();
    workspace.take();
    assert!(workspace.stores(&format!("{:0100}", 32)));
}

#[test]
fn call_without_a_first_checkpoint_has_no_last_one() {
    let workspace = TestWorkspace::with(CheckpointLimits {
        files: 1,
        ..CheckpointLimits::default()
    });
    workspace.write("a", "1");
    workspace.write("b", "1");
    let turn = CheckpointedTurn {
        session_id: windlass_core::typed_id::SessionId::new(),
        turn_id: windlass_core::typed_id::TurnId::new(),
    };
    let call = workspace
        .store
        .begin(Arc::new(workspace.at()), turn)
        .unwrap();
    fs::remove_file(workspace.root().join("b")).unwrap();
    let before = retention::bytes_in(workspace.store.directory()).unwrap();
    call.end();
    let after = retention::bytes_in(workspace.store.directory()).unwrap();
    assert_eq!(after, before);
}

#[test]
fn ignored_files_are_neither_stored_nor_removed() {
    let workspace = TestWorkspace::new();
    workspace.write("node_modules/x", "made");
    workspace.write(
        "target/CACHEDIR.TAG",
        "Signature: 8a477f597d28d172789f06886806bc55\n",
    );
    workspace.write("target/out", "made");
    workspace.write(".git/config", "made");
    workspace.write("keys", "the user's own");
    workspace.write("build/out", "1");
    workspace.write(".gitignore", "keys\nbuild/\n");
    workspace.write("src", "1");
    let before = workspace.take();
    // Without the rules, all ignored files are visible and look new.
    fs::remove_file(workspace.root().join(".gitignore")).unwrap();
    workspace.write("src", "2");
    let after = workspace.take();
    let restored = workspace.restore(&after, &before).unwrap();
    assert_eq!(workspace.read("keys"), "the user's own");
    assert_eq!(workspace.read("build/out"), "1");
    assert_eq!(workspace.read("src"), "1");
    assert_eq!(workspace.read(".gitignore"), "keys\nbuild/\n");
    let left = ["build", "build/out", "keys"].map(PathBuf::from);
    assert_eq!(restored.left, left);
    for path in ["node_modules/x", "target/out", ".git/config"] {
        assert_eq!(workspace.read(path), "made");
    }
    assert!(!workspace.stores("made"));
}

#[test]
fn hidden_files_are_neither_stored_nor_removed() {
    let workspace = TestWorkspace::new();
    workspace.write("data/tokens", "hidden");
    workspace.write("f", "before");
    let environments = Environments::with_default(workspace.environment());
    environments.hide(workspace.root().join("data"));
    let before = workspace
        .store
        .take(&environments.resolve(None).unwrap())
        .unwrap();
    assert!(!workspace.stores("hidden"));
    // A host that hides nothing any more treats the file as new.
    workspace.write("f", "after");
    let after = workspace.take();
    assert!(workspace.stores("hidden"));
    let at = environments.resolve(None).unwrap();
    let restored = workspace.restore_at(&at, &after, &before).unwrap();
    assert_eq!(workspace.read("data/tokens"), "hidden");
    assert_eq!(workspace.read("f"), "before");
    assert_eq!(restored.left, ["data", "data/tokens"].map(PathBuf::from));
}

#[test]
fn newly_ignored_file_is_no_external_edit() {
    let workspace = TestWorkspace::new();
    workspace.write("build/out", "1");
    let before = workspace.take();
    workspace.write(".gitignore", "build/");
    let after = workspace.take();
    workspace.restore(&after, &before).unwrap();
    assert_eq!(workspace.read("build/out"), "1");
    assert!(!workspace.root().join(".gitignore").exists());
    // A program that then changes the file causes a conflict, because the author is unknown.
    workspace.write(".gitignore", "build/");
    workspace.write("build/out", "2");
    assert_eq!(workspace.external_edits(&after, &before), ["build/out"]);
}

#[test]
fn pipes_do_not_block_a_scan() {
    let workspace = TestWorkspace::new();
    workspace.write("was_file", "x");
    let fifo = |name: &str| {
        let path = workspace.root().join(name);
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::from_raw_mode(0o600),
            0,
        )
        .unwrap();
    };
    fifo("stays");
    let before = workspace.take();
    fifo("made");
    fs::remove_file(workspace.root().join("was_file")).unwrap();
    fifo("was_file");
    let after = workspace.take();
    let restored = workspace.restore(&after, &before).unwrap();
    assert!(restored.left.is_empty());
    assert_eq!(workspace.read("was_file"), "x");
    assert!(!workspace.root().join("made").exists());
    assert!(workspace.root().join("stays").exists());
}

#[test]
fn twenty_thousand_files_are_restored() {
    let workspace = TestWorkspace::new();
    for directory in 0..200 {
        let path = workspace.root().join(format!("d{directory}"));
        fs::create_dir(&path).unwrap();
        for file in 0..100 {
            fs::write(path.join(format!("f{file}")), format!("{}", file % 7)).unwrap();
        }
    }
    let before = workspace.take();
    fs::remove_dir_all(workspace.root().join("d7")).unwrap();
    workspace.write("d8/f1", "changed");
    let after = workspace.take();
    let restored = workspace.restore(&after, &before).unwrap();
    assert_eq!(restored.changed.len(), 102);
    assert_eq!(workspace.take(), before);
}

#[test]
fn damaged_or_missing_content_prevents_a_restore() {
    let workspace = TestWorkspace::new();
    workspace.write("a", "before");
    workspace.write("z", "before too");
    let before = workspace.take();
    workspace.write("a", "after");
    workspace.write("z", "after");
    let after = workspace.take();
    let digest = digest_of(b"before too");
    let directory = workspace.store.workspace_directory(&workspace.root());
    let blob = directory.join("content").join(&digest[..2]).join(&digest);
    fs::write(&blob, "before tou").unwrap();
    let damaged = workspace.restore(&after, &before).unwrap_err();
    assert!(
        matches!(damaged, CheckpointError::Damaged { .. }),
        "{damaged}"
    );
    fs::remove_file(&blob).unwrap();
    let gone = workspace.restore(&after, &before).unwrap_err();
    assert!(matches!(gone, CheckpointError::Gone { .. }), "{gone}");
    assert_eq!(workspace.read("a"), "after");
}

#[test]
fn read_only_environment_is_not_restored() {
    let workspace = TestWorkspace::new();
    let id = workspace.take();
    let policy = Policy::read_only();
    let environment = workspace.environment();
    let at = ResolvedWorkspace::open(&environment, Path::new(""), policy, Hidden::default());
    let refused = workspace.restore_at(&at.unwrap(), &id, &id).unwrap_err();
    assert!(matches!(refused, CheckpointError::ReadOnly { .. }));
}

#[test]
fn unneeded_content_is_removed() {
    let workspace = TestWorkspace::new();
    workspace.write("shared", "in all of them");
    let mut taken = Vec::new();
    for content in ["one", "two", "three"] {
        workspace.write("f", content);
        taken.push(workspace.take());
    }
    assert_eq!(workspace.retain(&taken[1..]), 2);
    let gone = workspace.restore(&taken[2], &taken[0]).unwrap_err();
    assert!(matches!(gone, CheckpointError::Gone { .. }), "{gone}");
    workspace.restore(&taken[2], &taken[1]).unwrap();
    assert_eq!(workspace.read("f"), "two");
    // Removed content can be stored again although the file's stat is known.
    workspace.write("f", "one");
    assert_eq!(workspace.take(), taken[0]);
    workspace.restore(&taken[0], &taken[1]).unwrap();
    workspace.restore(&taken[1], &taken[0]).unwrap();
    assert_eq!(workspace.read("f"), "one");
    assert_eq!(workspace.retain(&[]), 0);
    assert_eq!(retention::bytes_in(workspace.store.directory()).unwrap(), 0);
}

#[test]
fn oldest_checkpoints_are_removed_first() {
    let workspace = TestWorkspace::with(CheckpointLimits {
        stored_bytes: 25_000,
        ..CheckpointLimits::default()
    });
    let mut taken = Vec::new();
    for content in ["a", "b", "c", "d"] {
        workspace.write("f", &content.repeat(10_000));
        taken.push(workspace.take());
    }
    assert_eq!(workspace.retain(&taken), 2);
    let stored = retention::bytes_in(workspace.store.directory()).unwrap();
    assert!(stored <= 25_000, "{stored}");
    workspace.restore(&taken[3], &taken[2]).unwrap();
    assert_eq!(workspace.read("f"), "c".repeat(10_000));
}

/// One change of a tree, which may be impossible to apply.
#[derive(Debug, Clone)]
enum TreeChange {
    Write(PathBuf, u8, u32),
    Directory(PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

fn apply(root: &Path, op: &TreeChange) {
    let _ = match op {
        TreeChange::Write(path, content, mode) => {
            fs::write(root.join(path), [*content; 3]).and_then(|()| {
                // A link to a directory could lead anywhere; only files have these modes.
                fs::set_permissions(root.join(path), fs::Permissions::from_mode(*mode))
            })
        }
        TreeChange::Directory(path) => fs::create_dir_all(root.join(path)),
        TreeChange::Link(path, target) => symlink(target, root.join(path)),
        TreeChange::Remove(path) => match fs::symlink_metadata(root.join(path)) {
            Ok(there) if there.is_dir() => fs::remove_dir_all(root.join(path)),
            _ => fs::remove_file(root.join(path)),
        },
        TreeChange::Rename(from, to) => fs::rename(root.join(from), root.join(to)),
    };
}

fn path() -> impl Strategy<Value = PathBuf> {
    let name = prop::sample::select(vec![&b"a"[..], b"b", b"c", "\u{e4}".as_bytes(), b"x\xffy"]);
    prop::collection::vec(name, 1..4).prop_map(|names| {
        let names = names.into_iter().map(OsStr::from_bytes);
        names.collect()
    })
}

fn changes() -> impl Strategy<Value = Vec<TreeChange>> {
    let mode = prop::sample::select(vec![0o644, 0o755, 0o600]);
    let op = prop_oneof![
        4 => (path(), 0..3_u8, mode).prop_map(|(path, content, mode)| TreeChange::Write(path, content, mode)),
        3 => path().prop_map(TreeChange::Directory),
        1 => (path(), path()).prop_map(|(path, target)| TreeChange::Link(path, target)),
        2 => path().prop_map(TreeChange::Remove),
        1 => (path(), path()).prop_map(|(from, to)| TreeChange::Rename(from, to)),
    ];
    prop::collection::vec(op, 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn killed_and_repeated_restore_gives_the_old_tree(first in changes(), second in changes(), actions in 0..40_usize) {
        let mut workspace = TestWorkspace::new();
        first.iter().for_each(|op| apply(&workspace.root(), op));
        let (before, tree) = (workspace.take(), workspace.tree());
        second.iter().for_each(|op| apply(&workspace.root(), op));
        let (after, later) = (workspace.take(), workspace.tree());
        prop_assert_eq!(workspace.differences(&before, &after).is_empty(), tree == later);
        // The first attempt is killed after some number of actions.
        ACTIONS_LEFT.set(Some(actions));
        let killed = catch_unwind(AssertUnwindSafe(|| workspace.restore(&after, &before)));
        ACTIONS_LEFT.set(None);
        if let Ok(restored) = killed {
            prop_assert!(restored.unwrap().left.is_empty());
        }
        workspace.reopen();
        workspace.store.finish_restores(&Environments::with_default(workspace.environment()));
        prop_assert_eq!(workspace.tree(), tree);
        prop_assert_eq!(workspace.restore(&before, &after).unwrap().left, Vec::<PathBuf>::new());
        prop_assert_eq!(workspace.tree(), later);
    }
}
