//! `write`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::support::{TestWorkspace, snapshot};

async fn write(workspace: &TestWorkspace, path: &str, content: &str) -> Result<Value, String> {
    let arguments = json!({ "path": path, "content": content });
    workspace.call("write", arguments).await
}

#[tokio::test]
async fn file_is_created_with_directories_and_replaced_with_a_diff() {
    let workspace = TestWorkspace::new();
    let made = write(&workspace, "a/b/f", "one\ntwo\n").await.unwrap();
    assert_eq!(made, json!({"path": "a/b/f", "bytes": 8, "created": true}));
    let again = write(&workspace, "a/b/f", "one\ntwo\n").await.unwrap();
    assert_eq!(
        again,
        json!({"path": "a/b/f", "bytes": 8, "created": false})
    );
    let changed = write(&workspace, "a/b/f", "one\n2\n").await.unwrap();
    assert_eq!(
        changed["diff"],
        "--- a/a/b/f\n+++ b/a/b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    );
    assert_eq!(
        (&changed["lines_added"], &changed["lines_removed"]),
        (&json!(1), &json!(1))
    );
    let names: Vec<_> = snapshot(&workspace.root())
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(names.len(), 3, "nothing else is left behind: {names:?}");
}

#[tokio::test]
async fn permissions_are_preserved_and_inner_links_followed() {
    let workspace = TestWorkspace::new().files(&[("d/run.sh", "old"), ("frozen", "old")]);
    let mode = |name: &str| {
        fs::metadata(workspace.root().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    let set = |name: &str, mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(workspace.root().join(name), permissions).unwrap();
    };
    set("d/run.sh", 0o750);
    set("frozen", 0o444);
    symlink("d/run.sh", workspace.root().join("link")).unwrap();
    symlink("nowhere", workspace.root().join("dangling")).unwrap();
    let written = write(&workspace, "link", "new").await.unwrap();
    assert_eq!(written["path"], "d/run.sh");
    assert!(workspace.root().join("link").is_symlink());
    assert_eq!(
        (workspace.text("d/run.sh"), mode("d/run.sh")),
        ("new".into(), 0o750)
    );
    for (path, error) in [
        ("frozen", "frozen is read-only"),
        ("dangling", "dangling is a link whose target does not exist"),
        ("d", "d is a directory"),
        (".", ". is a directory"),
        ("frozen/x", "frozen/x is not a directory"),
    ] {
        let actual = write(&workspace, path, "new").await.unwrap_err();
        assert!(actual.starts_with(error), "{actual}");
    }
    assert_eq!(workspace.text("frozen"), "old");
}

#[tokio::test]
async fn git_directory_is_not_changed_even_through_a_link() {
    let workspace = TestWorkspace::new().files(&[(".git/config", "[core]"), ("f", "")]);
    symlink(".git", workspace.root().join("link")).unwrap();
    let before = snapshot(&workspace.root());
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/x",
        "link/config",
        "link/new/x",
    ] {
        let error = write(&workspace, path, "evil").await.unwrap_err();
        assert!(
            error.contains("belongs to git's own data"),
            "{path}: {error}"
        );
    }
    assert_eq!(snapshot(&workspace.root()), before);
    assert!(write(&workspace, ".gitignore", "target\n").await.is_ok());
}

#[tokio::test]
async fn too_large_content_is_refused_without_changes() {
    let workspace = TestWorkspace::new();
    let error = write(&workspace, "d/f", &"x".repeat(17 * 1024 * 1024))
        .await
        .unwrap_err();
    assert!(
        error.starts_with("d/f is too large: 17825792 bytes"),
        "{error}"
    );
    assert!(!workspace.root().join("d").exists());
}
