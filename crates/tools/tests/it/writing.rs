//! `write`.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};

use crate::support::{Place, snapshot};

async fn write(place: &Place, path: &str, content: &str) -> Result<Value, String> {
    let arguments = json!({ "path": path, "content": content });
    place.call("write", arguments).await
}

#[tokio::test]
async fn a_file_is_made_with_its_directories_and_replaced_with_a_diff() {
    let place = Place::new();
    let made = write(&place, "a/b/f", "one\ntwo\n").await.unwrap();
    assert_eq!(made, json!({"path": "a/b/f", "bytes": 8, "created": true}));
    let again = write(&place, "a/b/f", "one\ntwo\n").await.unwrap();
    assert_eq!(
        again,
        json!({"path": "a/b/f", "bytes": 8, "created": false})
    );
    let changed = write(&place, "a/b/f", "one\n2\n").await.unwrap();
    assert_eq!(
        changed["diff"],
        "--- a/a/b/f\n+++ b/a/b/f\n@@ -1,2 +1,2 @@\n one\n-two\n+2\n"
    );
    assert_eq!(
        (&changed["lines_added"], &changed["lines_removed"]),
        (&json!(1), &json!(1))
    );
    let names: Vec<_> = snapshot(&place.root())
        .into_iter()
        .map(|(path, _)| path)
        .collect();
    assert_eq!(names.len(), 3, "nothing else is left behind: {names:?}");
}

#[tokio::test]
async fn permissions_stay_and_links_inside_are_followed() {
    let place = Place::new().files(&[("d/run.sh", "old"), ("frozen", "old")]);
    let mode = |name: &str| {
        fs::metadata(place.root().join(name))
            .unwrap()
            .permissions()
            .mode()
            & 0o777
    };
    let set = |name: &str, mode| {
        let permissions = fs::Permissions::from_mode(mode);
        fs::set_permissions(place.root().join(name), permissions).unwrap();
    };
    set("d/run.sh", 0o750);
    set("frozen", 0o444);
    symlink("d/run.sh", place.root().join("link")).unwrap();
    symlink("nowhere", place.root().join("dangling")).unwrap();
    let written = write(&place, "link", "new").await.unwrap();
    assert_eq!(written["path"], "d/run.sh");
    assert!(place.root().join("link").is_symlink());
    assert_eq!(
        (place.text("d/run.sh"), mode("d/run.sh")),
        ("new".into(), 0o750)
    );
    for (path, told) in [
        ("frozen", "frozen is read-only"),
        (
            "dangling",
            "dangling is a link to something that does not exist",
        ),
        ("d", "d is a directory"),
        (".", ". is a directory"),
        ("frozen/x", "frozen/x is not a directory"),
    ] {
        let error = write(&place, path, "new").await.unwrap_err();
        assert!(error.starts_with(told), "{error}");
    }
    assert_eq!(place.text("frozen"), "old");
}

#[tokio::test]
async fn the_records_of_git_are_left_alone_also_through_a_link() {
    let place = Place::new().files(&[(".git/config", "[core]"), ("f", "")]);
    symlink(".git", place.root().join("link")).unwrap();
    let before = snapshot(&place.root());
    for path in [
        ".git/config",
        ".git/hooks/pre-commit",
        ".GIT/x",
        "link/config",
        "link/new/x",
    ] {
        let error = write(&place, path, "evil").await.unwrap_err();
        assert!(
            error.contains("belongs to the records of git"),
            "{path}: {error}"
        );
    }
    assert_eq!(snapshot(&place.root()), before);
    assert!(write(&place, ".gitignore", "target\n").await.is_ok());
}

#[tokio::test]
async fn what_is_too_large_is_refused_before_anything_is_touched() {
    let place = Place::new();
    let told = write(&place, "d/f", &"x".repeat(17 * 1024 * 1024))
        .await
        .unwrap_err();
    assert!(
        told.starts_with("d/f is too large: 17825792 bytes"),
        "{told}"
    );
    assert!(!place.root().join("d").exists());
}
