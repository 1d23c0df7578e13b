//! The user's home, hidden from commands except for opened paths.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;
use windlass_tools::{Environment, Environments, HomeAccess, Policy, UserHome};

use crate::support::{TestWorkspace, sandboxes};

/// A home with a secret, and a workspace in a directory of it.
fn workspace_in_home(
    way: windlass_tools::Confinement,
    below: &str,
    root: &str,
) -> (TempDir, PathBuf, TestWorkspace) {
    let directory = tempfile::tempdir_in(below).unwrap();
    let home = directory.path().canonicalize().unwrap();
    fs::write(home.join("secret"), "s3cret").unwrap();
    fs::create_dir_all(home.join("keys")).unwrap();
    fs::write(home.join("keys/key"), "s3cret").unwrap();
    fs::create_dir_all(home.join(root)).unwrap();
    let mut workspace = TestWorkspace::confined(way, Policy::default());
    let local = Environment::new("local", home.join(root), Policy::default()).unwrap();
    workspace.environments = Environments::with_default(local);
    workspace.settings.home = UserHome::new(&home);
    (directory, home, workspace)
}

fn open(workspace: &mut TestWorkspace, path: impl AsRef<Path>, access: HomeAccess) {
    let home = workspace.settings.home.as_mut().unwrap();
    home.open(path.as_ref(), access).unwrap();
}

async fn output(workspace: &TestWorkspace, command: &str) -> String {
    let ran = workspace.shell(command).await.unwrap();
    ran["output"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn home_is_private_in_every_location() {
    for way in sandboxes() {
        for below in ["/var/tmp", "/tmp"] {
            let (_directory, home, workspace) = workspace_in_home(way, below, "work");
            let shown = home.display();
            let script = format!(
                "cat {shown}/secret ~/secret {shown}/keys/key; echo made > ~/made; cat ~/made; pwd; echo in > in"
            );
            let text = output(&workspace, &script).await;
            assert!(!text.contains("s3cret"), "{way:?}: {text}");
            assert!(text.contains("made\n"), "{way:?} {below}: {text}");
            assert!(home.join("work/in").exists(), "{way:?} {below}: {text}");
            assert!(!home.join("made").exists(), "{way:?} {below}");
            let again = output(&workspace, "ls -A ~").await;
            assert!(!again.contains("made"), "{way:?} {below}: {again}");
        }
    }
}

#[tokio::test]
async fn home_behind_a_link_is_hidden() {
    for way in sandboxes() {
        let (directory, home, mut workspace) = workspace_in_home(way, "/var/tmp", "work");
        let link = tempfile::tempdir_in("/var/tmp").unwrap();
        let link = link.path().join("home");
        symlink(&home, &link).unwrap();
        workspace.settings.home = UserHome::new(&link);
        let text = output(
            &workspace,
            &format!("cat {0}/secret {1}/secret", home.display(), link.display()),
        )
        .await;
        assert!(!text.contains("s3cret"), "{way:?}: {text}");
        drop(directory);
    }
}

#[tokio::test]
async fn opened_path_replaced_by_a_link_opens_nothing_else() {
    for way in sandboxes() {
        let (_directory, home, mut workspace) = workspace_in_home(way, "/var/tmp", "work");
        for path in ["work/tools", ".cache/tools", ".shared/tools"] {
            fs::create_dir_all(home.join(path)).unwrap();
        }
        open(&mut workspace, "~/.cache", HomeAccess::Write);
        open(&mut workspace, "~/.cache/tools", HomeAccess::Read);
        open(&mut workspace, "~/work/tools", HomeAccess::Read);
        open(&mut workspace, ".shared/tools", HomeAccess::Read);
        let shown = home.display();
        let replace = format!(
            "for at in {shown}/work {shown}/.cache; do rmdir $at/tools; ln -s {shown}/keys $at/tools; done"
        );
        output(&workspace, &replace).await;
        // Another program of the user may do the same.
        fs::remove_dir(home.join(".shared/tools")).unwrap();
        symlink(home.join("keys"), home.join(".shared/tools")).unwrap();
        assert!(home.join("work/tools").is_symlink() && home.join(".cache/tools").is_symlink());
        let text = output(
            &workspace,
            &format!("cat {shown}/*/tools/key {shown}/.*/tools/key ~/.*/tools/key"),
        )
        .await;
        assert!(!text.contains("s3cret"), "{way:?}: {text}");
    }
}

#[tokio::test]
async fn git_history_is_available_in_subdirectories_and_worktrees() {
    for way in sandboxes() {
        let (_directory, home, workspace) = workspace_in_home(way, "/var/tmp", "repository/part");
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
        let text = output(&workspace, log).await;
        assert!(text.contains("the first"), "{way:?}: {text}");
        let mut elsewhere = TestWorkspace::confined(way, Policy::default());
        elsewhere.settings.home = workspace.settings.home.clone();
        let local = Environment::new("local", &tree, Policy::default()).unwrap();
        elsewhere.environments = Environments::with_default(local);
        let text = output(&elsewhere, log).await;
        assert!(text.contains("the first"), "{way:?}: {text}");
        // A worktree whose repository does not refer to it opens nothing.
        fs::create_dir_all(home.join("keys/worktrees/x")).unwrap();
        let named = home.join("keys/worktrees/x");
        fs::write(tree.join(".git"), format!("gitdir: {}\n", named.display())).unwrap();
        let text = output(&elsewhere, &format!("cat {}/keys/key", home.display())).await;
        assert!(!text.contains("s3cret"), "{way:?}: {text}");
    }
}
