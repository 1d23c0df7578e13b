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

/// Simulates a kill before the action that exceeds the count: nothing is cleaned up.
pub(super) fn act() -> io::Result<()> {
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
struct Place {
    directory: TempDir,
    limits: CheckpointLimits,
    store: Checkpoints,
}

impl Place {
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

    fn restore(&self, from: &CheckpointId, to: &CheckpointId) -> Result<Restored, CheckpointError> {
        self.store.restore(&self.at(), from, to)
    }

    fn write(&self, path: &str, content: &str) {
        let path = self.root().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn read(&self, path: &str) -> String {
        fs::read_to_string(self.root().join(path)).unwrap()
    }

    fn foreign(&self, from: &CheckpointId, to: &CheckpointId) -> Vec<String> {
        let before = self.tree();
        let refused = self.restore(from, to).unwrap_err();
        assert_eq!(self.tree(), before, "a refusal changes nothing");
        let CheckpointError::ForeignEdits { paths } = refused else {
            panic!("{refused}")
        };
        let paths = paths.iter().map(|path| path.display().to_string());
        paths.collect()
    }

    /// Returns whether this content is in the store.
    fn keeps(&self, content: &str) -> bool {
        let digest = digest_of(content.as_bytes());
        let content = self.store.room_path(&self.root()).join("content");
        content.join(&digest[..2]).join(&digest).exists()
    }

    fn tree(&self) -> Tree {
        let mut tree = Tree::new();
        gather(&self.root(), Path::new(""), &mut tree);
        tree
    }
}

/// Entries by path: a file with its mode, a link with its target, or a directory.
pub(super) type Tree = BTreeMap<PathBuf, (char, u32, Vec<u8>)>;

pub(super) fn gather(root: &Path, below: &Path, tree: &mut Tree) {
    for entry in fs::read_dir(root.join(below)).unwrap() {
        let entry = entry.unwrap();
        let path = below.join(entry.file_name());
        let metadata = entry.metadata().unwrap();
        let mode = metadata.permissions().mode() & 0o777;
        let found = if metadata.is_dir() {
            gather(root, &path, tree);
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
fn equal_states_have_the_same_name_and_only_what_is_new_is_kept() {
    let place = Place::new();
    place.write("a", "one");
    place.write("b/c", "one");
    let first = place.take();
    assert_eq!(place.take(), first);
    place.write("a", "two");
    let second = place.take();
    assert_ne!(second, first);
    place.write("a", "one");
    assert_eq!(place.take(), first);
    let changes = place.store.changes(&place.root(), &first, &second).unwrap();
    assert_eq!(changes.changed, [PathBuf::from("a")]);
    assert!(changes.added.is_empty() && changes.removed.is_empty());
}

#[test]
fn a_file_that_changes_within_a_tick_of_the_clock_is_seen() {
    let place = Place::new();
    let mut seen = Vec::new();
    for content in ["aaaa", "bbbb", "cccc", "dddd"] {
        place.write("f", content);
        seen.push(place.take());
    }
    seen.dedup();
    assert_eq!(seen.len(), 4);
}

#[test]
fn what_was_read_long_ago_is_not_read_again() {
    let mut place = Place::new();
    place.write("f", "secret");
    let first = place.take();
    // The file was changed long before it was read, so its stat is trusted from now on, even by the next process.
    let index = place.store.room_path(&place.root()).join("index.json");
    let text = fs::read_to_string(&index).unwrap();
    let mut stored: serde_json::Value = serde_json::from_str(&text).unwrap();
    let read_at = stored["files"][0]["read_at"].as_u64().unwrap();
    stored["files"][0]["read_at"] = (read_at + 10_000_000_000).into();
    stored["files"][0]["digest"] = "0".repeat(64).into();
    fs::write(&index, stored.to_string()).unwrap();
    place.reopen();
    let second = place.take();
    assert_ne!(second, first, "the digest is the remembered one");
}

#[test]
fn everything_that_a_turn_can_do_to_files_is_undone() {
    let place = scene();
    let (before, tree) = (place.take(), place.tree());
    disturb(&place);
    let after = place.take();
    assert_ne!(place.tree(), tree);
    let restored = place.restore(&after, &before).unwrap();
    assert!(restored.left.is_empty(), "{restored:?}");
    assert_eq!(place.tree(), tree);
    assert_eq!(place.take(), before);
    // Repeating the restore changes nothing.
    place.restore(&after, &before).unwrap();
    assert_eq!(place.tree(), tree);
    // And in the other direction.
    place.restore(&before, &after).unwrap();
    assert_eq!(place.take(), after);
}

/// A workspace with one entry of each type.
fn scene() -> Place {
    let place = Place::new();
    let root = place.root();
    place.write("text", "before");
    place.write("gone", "to be deleted");
    place.write("becomes_directory", "a file");
    place.write("becomes_file/deep/er", "in a directory");
    place.write("script", "#!/bin/sh");
    fs::set_permissions(root.join("script"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::write(root.join("binary"), [0, 159, 146, 150, 255]).unwrap();
    fs::write(root.join(OsStr::from_bytes(b"na\xffme")), "odd").unwrap();
    fs::create_dir(root.join("empty")).unwrap();
    symlink("text", root.join("link")).unwrap();
    symlink("/etc/passwd", root.join("link_out")).unwrap();
    symlink("empty", root.join("link_to_directory")).unwrap();
    place
}

fn disturb(place: &Place) {
    let root = place.root();
    place.write("text", "after");
    fs::remove_file(root.join("gone")).unwrap();
    fs::remove_file(root.join("becomes_directory")).unwrap();
    place.write("becomes_directory/x/y", "now deep");
    fs::remove_dir_all(root.join("becomes_file")).unwrap();
    place.write("becomes_file", "now flat");
    fs::set_permissions(root.join("script"), fs::Permissions::from_mode(0o644)).unwrap();
    fs::write(root.join("binary"), [1, 0, 255]).unwrap();
    fs::remove_file(root.join(OsStr::from_bytes(b"na\xffme"))).unwrap();
    fs::remove_dir(root.join("empty")).unwrap();
    fs::remove_file(root.join("link")).unwrap();
    symlink("elsewhere", root.join("link")).unwrap();
    fs::remove_file(root.join("link_out")).unwrap();
    place.write("link_out", "a file where a link was");
    fs::remove_file(root.join("link_to_directory")).unwrap();
    place.write("link_to_directory/f", "a directory where a link was");
    place.write("new/one", "added");
}

#[test]
fn a_restore_that_is_killed_anywhere_is_finished_at_the_next_open() {
    for actions in 0.. {
        let mut place = scene();
        let (before, tree) = (place.take(), place.tree());
        disturb(&place);
        let after = place.take();
        ACTIONS_LEFT.set(Some(actions));
        let killed = catch_unwind(AssertUnwindSafe(|| place.restore(&after, &before)));
        ACTIONS_LEFT.set(None);
        if let Ok(restored) = killed {
            restored.unwrap();
            assert!(actions > 20, "every action was an end");
            assert_eq!(place.tree(), tree);
            return;
        }
        place.reopen();
        let environments = Environments::with_default(place.environment());
        place.store.finish_restores(&environments);
        assert_eq!(place.tree(), tree, "killed before action {actions}");
        assert_eq!(place.take(), before);
    }
}

#[test]
fn a_kill_leaves_alone_what_somebody_writes_before_the_next_open() {
    let mut place = Place::new();
    place.write("a", "1");
    place.write("b", "1");
    let before = place.take();
    place.write("a", "2");
    place.write("b", "2");
    let after = place.take();
    ACTIONS_LEFT.set(Some(0));
    let killed = catch_unwind(AssertUnwindSafe(|| place.restore(&after, &before)));
    ACTIONS_LEFT.set(None);
    assert!(killed.is_err());
    place.write("b", "theirs");
    place.reopen();
    place.take();
    assert_eq!(
        (place.read("a"), place.read("b")),
        ("1".to_owned(), "theirs".to_owned())
    );
}

#[test]
fn edits_of_others_are_refused_by_name() {
    let place = Place::new();
    for name in ["a", "b", "c", "same"] {
        place.write(name, "before");
    }
    let before = place.take();
    place.write("a", "after");
    fs::remove_file(place.root().join("b")).unwrap();
    place.write("c", "after");
    place.write("d/new", "after");
    let after = place.take();
    // Files that the turn did not touch do not matter.
    place.write("same", "theirs");
    place.write("other", "theirs");
    place.write("a", "theirs");
    assert_eq!(place.foreign(&after, &before), ["a"]);
    place.write("b", "theirs");
    fs::remove_file(place.root().join("d/new")).unwrap();
    place.write("d/new/x", "theirs");
    assert_eq!(place.foreign(&after, &before), ["a", "b", "d/new"]);
    place.write("a", "after");
    fs::remove_dir_all(place.root().join("d/new")).unwrap();
    // A user who has already reverted the change causes no conflict.
    place.write("b", "before");
    place.restore(&after, &before).unwrap();
    assert_eq!(place.read("a"), "before");
    assert_eq!(place.read("same"), "theirs");
    assert_eq!(place.read("other"), "theirs");
    assert!(!place.root().join("d").exists());
}

#[test]
fn a_mode_that_somebody_changed_is_an_edit() {
    let place = Place::new();
    place.write("f", "before");
    let before = place.take();
    place.write("f", "after");
    let after = place.take();
    let path = place.root().join("f");
    fs::set_permissions(path, fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!(place.foreign(&after, &before), ["f"]);
}

#[test]
fn a_directory_with_files_of_others_stays() {
    let place = Place::new();
    let before = place.take();
    place.write("made/ours", "x");
    let after = place.take();
    place.write("made/theirs", "y");
    let restored = place.restore(&after, &before).unwrap();
    assert_eq!(restored.left, [PathBuf::from("made")]);
    assert_eq!(restored.changed, [PathBuf::from("made/ours")]);
    assert_eq!(place.read("made/theirs"), "y");
    assert!(!place.root().join("made/ours").exists());
}

#[test]
fn a_directory_that_is_to_be_a_file_again_must_hold_nothing_of_others() {
    let place = Place::new();
    place.write("x", "a file");
    let before = place.take();
    fs::remove_file(place.root().join("x")).unwrap();
    place.write("x/ours", "1");
    let after = place.take();
    place.write("x/sub/theirs", "2");
    assert_eq!(place.foreign(&after, &before), ["x/sub"]);
    fs::remove_dir_all(place.root().join("x/sub")).unwrap();
    place.restore(&after, &before).unwrap();
    assert_eq!(place.read("x"), "a file");
}

#[test]
fn a_link_that_was_put_in_the_place_of_a_directory_is_not_followed() {
    let place = Place::new();
    let outside = place.directory.path().join("outside");
    fs::create_dir(&outside).unwrap();
    for name in ["changed", "deleted", "added"] {
        fs::write(outside.join(name), "outside").unwrap();
    }
    fs::remove_file(outside.join("deleted")).unwrap();
    place.write("d/changed", "before");
    place.write("d/deleted", "before");
    let before = place.take();
    place.write("d/changed", "outside");
    fs::remove_file(place.root().join("d/deleted")).unwrap();
    place.write("d/added", "outside");
    let after = place.take();
    fs::remove_dir_all(place.root().join("d")).unwrap();
    symlink(&outside, place.root().join("d")).unwrap();
    let foreign = place.foreign(&after, &before);
    assert!(foreign.contains(&"d/changed".to_owned()), "{foreign:?}");
    assert!(foreign.contains(&"d".to_owned()), "{foreign:?}");
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 2);
}

#[test]
fn what_is_too_large_is_noticed_and_left() {
    let place = Place::with(CheckpointLimits {
        file_bytes: 100,
        ..CheckpointLimits::default()
    });
    let (small, large) = ("s".repeat(100), "l".repeat(101));
    place.write("grows", &small);
    place.write("shrinks", &large);
    place.write("large", &large);
    place.write("other", "before");
    let before = place.take();
    place.write("grows", &large);
    place.write("shrinks", &small);
    place.write("large", &"m".repeat(200));
    place.write("other", "after");
    let after = place.take();
    let restored = place.restore(&after, &before).unwrap();
    let left = ["large", "shrinks"].map(PathBuf::from);
    assert_eq!(restored.left, left);
    assert_eq!(place.read("grows"), small);
    assert_eq!(place.read("shrinks"), small);
    assert_eq!(place.read("other"), "before");
}

#[test]
fn a_workspace_that_is_too_large_has_no_checkpoints() {
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
        let place = Place::with(limits);
        for name in ["a", "b", "c"] {
            place.write(name, "x");
        }
        place.take();
        place.write("d", "x");
        let error = place.store.take(&place.at()).unwrap_err();
        let is_told = matches!(&error, CheckpointError::TooLarge { what: it, .. } if *it == what);
        assert!(is_told, "{error}");
    }
}

#[test]
fn a_workspace_that_is_too_large_is_not_read_and_what_was_written_counts() {
    let place = Place::with(CheckpointLimits {
        total_bytes: 3_200,
        ..CheckpointLimits::default()
    });
    place.store.prune().unwrap();
    for number in 0..33 {
        place.write(&format!("f{number}"), &format!("{number:0100}"));
    }
    place.store.take(&place.at()).unwrap_err();
    let stored = retention::bytes_in(place.store.directory()).unwrap();
    assert!(stored <= 100, "{stored}");
    assert_eq!(*lock(&place.store.shared.stored), Some(stored));
    // A workspace that fits is read completely.
    fs::remove_file(place.root().join("f0")).unwrap();
    place.take();
    assert!(place.keeps(&format!("{:0100}", 32)));
}

#[test]
fn nothing_is_kept_after_a_call_before_which_nothing_was() {
    let place = Place::with(CheckpointLimits {
        files: 1,
        ..CheckpointLimits::default()
    });
    place.write("a", "1");
    place.write("b", "1");
    let turn = ChangingTurn {
        session_id: windlass_core::typed_id::SessionId::new(),
        turn_id: windlass_core::typed_id::TurnId::new(),
    };
    let changing = place.store.begin(Arc::new(place.at()), turn).unwrap();
    fs::remove_file(place.root().join("b")).unwrap();
    let before = retention::bytes_in(place.store.directory()).unwrap();
    changing.end();
    let after = retention::bytes_in(place.store.directory()).unwrap();
    assert_eq!(after, before);
}

#[test]
fn what_is_ignored_is_neither_kept_nor_removed() {
    let place = Place::new();
    place.write("node_modules/x", "made");
    place.write(
        "target/CACHEDIR.TAG",
        "Signature: 8a477f597d28d172789f06886806bc55\n",
    );
    place.write("target/out", "made");
    place.write(".git/config", "made");
    place.write("keys", "the user's own");
    place.write("build/out", "1");
    place.write(".gitignore", "keys\nbuild/\n");
    place.write("src", "1");
    let before = place.take();
    // Without the rules, all ignored files are visible and look new.
    fs::remove_file(place.root().join(".gitignore")).unwrap();
    place.write("src", "2");
    let after = place.take();
    let restored = place.restore(&after, &before).unwrap();
    assert_eq!(place.read("keys"), "the user's own");
    assert_eq!(place.read("build/out"), "1");
    assert_eq!(place.read("src"), "1");
    assert_eq!(place.read(".gitignore"), "keys\nbuild/\n");
    let left = ["build", "build/out", "keys"].map(PathBuf::from);
    assert_eq!(restored.left, left);
    for path in ["node_modules/x", "target/out", ".git/config"] {
        assert_eq!(place.read(path), "made");
    }
    assert!(!place.keeps("made"));
}

#[test]
fn what_the_host_hides_is_neither_kept_nor_removed() {
    let place = Place::new();
    place.write("data/tokens", "hidden");
    place.write("f", "before");
    let environments = Environments::with_default(place.environment());
    environments.hide(place.root().join("data"));
    let before = place
        .store
        .take(&environments.resolve(None).unwrap())
        .unwrap();
    assert!(!place.keeps("hidden"));
    // A host that hides nothing any more treats the file as new.
    place.write("f", "after");
    let after = place.take();
    assert!(place.keeps("hidden"));
    let at = environments.resolve(None).unwrap();
    let restored = place.store.restore(&at, &after, &before).unwrap();
    assert_eq!(place.read("data/tokens"), "hidden");
    assert_eq!(place.read("f"), "before");
    assert_eq!(restored.left, ["data", "data/tokens"].map(PathBuf::from));
}

#[test]
fn what_is_ignored_from_now_on_is_no_edit_of_others() {
    let place = Place::new();
    place.write("build/out", "1");
    let before = place.take();
    place.write(".gitignore", "build/");
    let after = place.take();
    place.restore(&after, &before).unwrap();
    assert_eq!(place.read("build/out"), "1");
    assert!(!place.root().join(".gitignore").exists());
    // A program that then changes the file causes a conflict, because the author is unknown.
    place.write(".gitignore", "build/");
    place.write("build/out", "2");
    assert_eq!(place.foreign(&after, &before), ["build/out"]);
}

#[test]
fn pipes_are_not_waited_for() {
    let place = Place::new();
    place.write("was_file", "x");
    let fifo = |name: &str| {
        let path = place.root().join(name);
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
    let before = place.take();
    fifo("made");
    fs::remove_file(place.root().join("was_file")).unwrap();
    fifo("was_file");
    let after = place.take();
    let restored = place.restore(&after, &before).unwrap();
    assert!(restored.left.is_empty());
    assert_eq!(place.read("was_file"), "x");
    assert!(!place.root().join("made").exists());
    assert!(place.root().join("stays").exists());
}

#[test]
fn twenty_thousand_files_are_kept_and_brought_back() {
    let place = Place::new();
    for directory in 0..200 {
        let path = place.root().join(format!("d{directory}"));
        fs::create_dir(&path).unwrap();
        for file in 0..100 {
            fs::write(path.join(format!("f{file}")), format!("{}", file % 7)).unwrap();
        }
    }
    let before = place.take();
    fs::remove_dir_all(place.root().join("d7")).unwrap();
    place.write("d8/f1", "changed");
    let after = place.take();
    let restored = place.restore(&after, &before).unwrap();
    assert_eq!(restored.changed.len(), 102);
    assert_eq!(place.take(), before);
}

#[test]
fn nothing_is_touched_when_what_was_kept_is_damaged_or_gone() {
    let place = Place::new();
    place.write("a", "before");
    place.write("z", "before too");
    let before = place.take();
    place.write("a", "after");
    place.write("z", "after");
    let after = place.take();
    let digest = digest_of(b"before too");
    let room = place.store.room_path(&place.root());
    let blob = room.join("content").join(&digest[..2]).join(&digest);
    fs::write(&blob, "before tou").unwrap();
    let damaged = place.restore(&after, &before).unwrap_err();
    assert!(
        matches!(damaged, CheckpointError::Damaged { .. }),
        "{damaged}"
    );
    fs::remove_file(&blob).unwrap();
    let gone = place.restore(&after, &before).unwrap_err();
    assert!(matches!(gone, CheckpointError::Gone { .. }), "{gone}");
    assert_eq!(place.read("a"), "after");
}

#[test]
fn a_read_only_environment_is_not_restored() {
    let place = Place::new();
    let id = place.take();
    let policy = Policy::read_only();
    let environment = place.environment();
    let at = ResolvedWorkspace::open(&environment, Path::new(""), policy, Hidden::default());
    let refused = place.store.restore(&at.unwrap(), &id, &id).unwrap_err();
    assert!(matches!(refused, CheckpointError::ReadOnly { .. }));
}

#[test]
fn what_no_kept_checkpoint_needs_is_removed() {
    let place = Place::new();
    let root = place.root();
    place.write("shared", "in all of them");
    let mut taken = Vec::new();
    for content in ["one", "two", "three"] {
        place.write("f", content);
        taken.push((root.clone(), place.take()));
    }
    assert_eq!(place.store.keep(&taken[1..]).unwrap(), 2);
    let gone = place.restore(&taken[2].1, &taken[0].1).unwrap_err();
    assert!(matches!(gone, CheckpointError::Gone { .. }), "{gone}");
    place.restore(&taken[2].1, &taken[1].1).unwrap();
    assert_eq!(place.read("f"), "two");
    // Removed content can be stored again although the file's stat is known.
    place.write("f", "one");
    assert_eq!(place.take(), taken[0].1);
    place.restore(&taken[0].1, &taken[1].1).unwrap();
    place.restore(&taken[1].1, &taken[0].1).unwrap();
    assert_eq!(place.read("f"), "one");
    assert_eq!(place.store.keep(&[]).unwrap(), 0);
    assert_eq!(retention::bytes_in(place.store.directory()).unwrap(), 0);
}

#[test]
fn the_oldest_go_first_when_there_is_too_much() {
    let place = Place::with(CheckpointLimits {
        stored_bytes: 25_000,
        ..CheckpointLimits::default()
    });
    let mut taken = Vec::new();
    for content in ["a", "b", "c", "d"] {
        place.write("f", &content.repeat(10_000));
        taken.push((place.root(), place.take()));
    }
    assert_eq!(place.store.keep(&taken).unwrap(), 2);
    let stored = retention::bytes_in(place.store.directory()).unwrap();
    assert!(stored <= 25_000, "{stored}");
    place.restore(&taken[3].1, &taken[2].1).unwrap();
    assert_eq!(place.read("f"), "c".repeat(10_000));
}

/// One change of a tree, which may be impossible to apply.
#[derive(Debug, Clone)]
enum Op {
    Write(PathBuf, u8, u32),
    Directory(PathBuf),
    Link(PathBuf, PathBuf),
    Remove(PathBuf),
    Rename(PathBuf, PathBuf),
}

fn apply(root: &Path, op: &Op) {
    let _ = match op {
        Op::Write(path, content, mode) => {
            fs::write(root.join(path), [*content; 3]).and_then(|()| {
                // A link to a directory could lead anywhere; only files have these modes.
                fs::set_permissions(root.join(path), fs::Permissions::from_mode(*mode))
            })
        }
        Op::Directory(path) => fs::create_dir_all(root.join(path)),
        Op::Link(path, target) => symlink(target, root.join(path)),
        Op::Remove(path) => match fs::symlink_metadata(root.join(path)) {
            Ok(there) if there.is_dir() => fs::remove_dir_all(root.join(path)),
            _ => fs::remove_file(root.join(path)),
        },
        Op::Rename(from, to) => fs::rename(root.join(from), root.join(to)),
    };
}

fn path() -> impl Strategy<Value = PathBuf> {
    let name = prop::sample::select(vec![&b"a"[..], b"b", b"c", "\u{e4}".as_bytes(), b"x\xffy"]);
    prop::collection::vec(name, 1..4).prop_map(|names| {
        let names = names.into_iter().map(OsStr::from_bytes);
        names.collect()
    })
}

fn ops() -> impl Strategy<Value = Vec<Op>> {
    let mode = prop::sample::select(vec![0o644, 0o755, 0o600]);
    let op = prop_oneof![
        4 => (path(), 0..3_u8, mode).prop_map(|(path, content, mode)| Op::Write(path, content, mode)),
        3 => path().prop_map(Op::Directory),
        1 => (path(), path()).prop_map(|(path, target)| Op::Link(path, target)),
        2 => path().prop_map(Op::Remove),
        1 => (path(), path()).prop_map(|(from, to)| Op::Rename(from, to)),
    ];
    prop::collection::vec(op, 0..24)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

    #[test]
    fn a_restore_gives_back_exactly_the_old_tree(first in ops(), second in ops(), actions in 0..40_usize) {
        let mut place = Place::new();
        first.iter().for_each(|op| apply(&place.root(), op));
        let (before, tree) = (place.take(), place.tree());
        second.iter().for_each(|op| apply(&place.root(), op));
        let (after, later) = (place.take(), place.tree());
        let changes = place.store.changes(&place.root(), &before, &after).unwrap();
        prop_assert_eq!(changes.is_empty(), tree == later);
        // The first attempt is killed after some number of actions.
        ACTIONS_LEFT.set(Some(actions));
        let killed = catch_unwind(AssertUnwindSafe(|| place.restore(&after, &before)));
        ACTIONS_LEFT.set(None);
        if let Ok(restored) = killed {
            prop_assert!(restored.unwrap().left.is_empty());
        }
        place.reopen();
        place.store.finish_restores(&Environments::with_default(place.environment()));
        prop_assert_eq!(place.tree(), tree);
        prop_assert_eq!(place.restore(&before, &after).unwrap().left, Vec::<PathBuf>::new());
        prop_assert_eq!(place.tree(), later);
    }
}
