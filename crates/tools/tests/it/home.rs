//! The user's home, hidden from commands except for opened paths.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use windlass_tools::{Environment, Environments, HomeAccess, Policy, UserHome};

use crate::support::{Place, sandboxes};

/// A home with a secret, and a workspace in a directory of it.
fn place_in_home(
    way: windlass_tools::Confinement,
    below: &str,
    root: &str,
) -> (TempDir, PathBuf, Place) {
    let kept = tempfile::tempdir_in(below).unwrap();
    let home = kept.path().canonicalize().unwrap();
    fs::write(home.join("secret"), "s3cret").unwrap();
    fs::create_dir_all(home.join("keys")).unwrap();
    fs::write(home.join("keys/key"), "s3cret").unwrap();
    fs::create_dir_all(home.join(root)).unwrap();
    let mut place = Place::confined(way, Policy::default());
    let local = Environment::new("local", home.join(root), Policy::default()).unwrap();
    place.environments = Environments::with_default(local);
    place.settings.home = UserHome::new(&home);
    (kept, home, place)
}

fn open(place: &mut Place, path: impl AsRef<Path>, access: HomeAccess) {
    let home = place.settings.home.as_mut().unwrap();
    home.open(path.as_ref(), access).unwrap();
}

async fn output(place: &Place, command: &str) -> String {
    let ran = place.shell(command).await.unwrap();
    ran["output"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_home_is_private_wherever_it_lies() {
    for way in sandboxes() {
        for below in ["/var/tmp", "/tmp"] {
            let (_kept, home, place) = place_in_home(way, below, "work");
            let shown = home.display();
            let script = format!(
                "cat {shown}/secret ~/secret {shown}/keys/key; echo made > ~/made; cat ~/made; pwd; echo in > in"
            );
            let said = output(&place, &script).await;
            assert!(!said.contains("s3cret"), "{way:?}: {said}");
            assert!(said.contains("made\n"), "{way:?} {below}: {said}");
            assert!(home.join("work/in").exists(), "{way:?} {below}: {said}");
            assert!(!home.join("made").exists(), "{way:?} {below}");
            let again = output(&place, "ls -A ~").await;
            assert!(!again.contains("made"), "{way:?} {below}: {again}");
        }
    }
}

#[tokio::test]
async fn a_home_that_is_reached_by_a_link_is_hidden_all_the_same() {
    for way in sandboxes() {
        let (kept, home, mut place) = place_in_home(way, "/var/tmp", "work");
        let link = tempfile::tempdir_in("/var/tmp").unwrap();
        let link = link.path().join("home");
        symlink(&home, &link).unwrap();
        place.settings.home = UserHome::new(&link);
        let said = output(
            &place,
            &format!("cat {0}/secret {1}/secret", home.display(), link.display()),
        )
        .await;
        assert!(!said.contains("s3cret"), "{way:?}: {said}");
        drop(kept);
    }
}

#[tokio::test]
async fn an_opened_path_that_a_command_replaces_by_a_link_opens_nothing_else() {
    for way in sandboxes() {
        let (_kept, home, mut place) = place_in_home(way, "/var/tmp", "work");
        for path in ["work/tools", ".cache/tools", ".shared/tools"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        open(&mut place, "~/.cache", HomeAccess::Write);
        open(&mut place, "~/.cache/tools", HomeAccess::Read);
        open(&mut place, "~/work/tools", HomeAccess::Read);
        open(&mut place, ".shared/tools", HomeAccess::Read);
        let shown = home.display();
        let replace = format!(
            "for at in {shown}/work {shown}/.cache; do rmdir $at/tools; ln -s {shown}/keys $at/tools; done"
        );
        output(&place, &replace).await;
        // Another program of the user may do the same.
        fs::remove_dir(home.join(".shared/tools")).unwrap();
        symlink(home.join("keys"), home.join(".shared/tools")).unwrap();
        assert!(home.join("work/tools").is_symlink() && home.join(".cache/tools").is_symlink());
        let said = output(
            &place,
            &format!("cat {shown}/*/tools/key {shown}/.*/tools/key ~/.*/tools/key"),
        )
        .await;
        assert!(!said.contains("s3cret"), "{way:?}: {said}");
    }
}

#[tokio::test]
async fn a_command_in_a_part_or_a_worktree_of_a_repository_has_its_history() {
    for way in sandboxes() {
        let (_kept, home, place) = place_in_home(way, "/var/tmp", "repository/part");
        let git = |words: &[&str]| {
            let ran = Command::new("git")
                .args(["-c", "user.name=n", "-c", "user.email=e", "-C"])
                .arg(home.join("repository"))
                .args(words)
                .output();
            ran.is_ok_and(|ran| ran.status.success())
        };
        let tree = home.join("tree");
        let is_made = git(&["init"])
            && git(&["commit", "--allow-empty", "-m", "the first"])
            && git(&["worktree", "add", tree.to_str().unwrap()]);
        if !is_made {
            windlass_testkit::skipped("repositories in a home", "git is not there");
            return;
        }
        // Git refuses a repository of another user, and a sandbox's root may appear as one.
        let log = "git -c safe.directory='*' log --oneline";
        let said = output(&place, log).await;
        assert!(said.contains("the first"), "{way:?}: {said}");
        let mut elsewhere = Place::confined(way, Policy::default());
        elsewhere.settings.home = place.settings.home.clone();
        let local = Environment::new("local", &tree, Policy::default()).unwrap();
        elsewhere.environments = Environments::with_default(local);
        let said = output(&elsewhere, log).await;
        assert!(said.contains("the first"), "{way:?}: {said}");
        // A worktree whose repository does not refer to it opens nothing.
        fs::create_dir_all(home.join("keys/worktrees/x")).unwrap();
        let named = home.join("keys/worktrees/x");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", named.display())).unwrap();
        let said = output(&elsewhere, &format!("cat {}/keys/key", home.display())).await;
        assert!(!said.contains("s3cret"), "{way:?}: {said}");
    }
}
