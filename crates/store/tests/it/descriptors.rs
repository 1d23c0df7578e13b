//! Searches in a process that has few file descriptors, or none left.

use std::fs::{self, File};
use std::process::Command;
use std::sync::Arc;

use tempfile::TempDir;
use windlass_core::error::Result;
use windlass_core::typed_id::SessionId;
use windlass_store::RealDiskFileStore;

use crate::support::FileSystemRef;

/// Set in the process that [`limited`] starts.
const LIMITED: &str = "WINDLASS_TEST_FEW_DESCRIPTORS";

/// Runs the calling test once more in a process with 64 descriptors; returns `true` there.
fn limited(test: &str) -> bool {
    if std::env::var_os(LIMITED).is_some() {
        return true;
    }
    let ran = Command::new("sh")
        .args(["-c", "ulimit -n 64 && exec \"$0\" \"$@\""])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--test-threads", "1"])
        .env(LIMITED, "1")
        .output()
        .unwrap();
    let output = String::from_utf8_lossy(&ran.stdout);
    assert!(ran.status.success(), "{output}");
    assert!(output.contains("1 passed"), "{output}");
    false
}

fn files(root: &TempDir) -> FileSystemRef {
    Arc::new(RealDiskFileStore::new(root.path()).unwrap())
}

/// Returns the paths of the files that contain `needle`.
async fn search(files: &FileSystemRef) -> Result<Vec<String>> {
    let hits = files.grep_files(SessionId::new(), "needle", None).await?;
    Ok(hits.into_iter().map(|hit| hit.path).collect())
}

/// Creates 255 nested directories, with a file on either side of each.
fn deep_tree() -> TempDir {
    let root = TempDir::new().unwrap();
    let mut directory = root.path().to_owned();
    for _ in 0..255 {
        directory.push("d");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("a"), "needle").unwrap();
        fs::write(directory.join("z"), "needle").unwrap();
    }
    root
}

#[tokio::test]
async fn deep_tree_is_deleted_with_few_descriptors() {
    if !limited("descriptors::deep_tree_is_deleted_with_few_descriptors") {
        return;
    }
    let root = deep_tree();
    let deleted = files(&root).delete_file(SessionId::new(), "/d", true).await;
    assert!(deleted.unwrap());
    assert_eq!(fs::read_dir(root.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn deep_tree_is_searched_with_few_descriptors() {
    if !limited("descriptors::deep_tree_is_searched_with_few_descriptors") {
        return;
    }
    let root = deep_tree();
    let hits = search(&files(&root)).await.unwrap();
    let path = |depth: usize, name: &str| format!("{}/{name}", "/d".repeat(depth));
    let before = (1..=255).map(|depth| path(depth, "a"));
    let after = (1..=255).rev().map(|depth| path(depth, "z"));
    assert_eq!(hits, before.chain(after).collect::<Vec<_>>());
}

#[tokio::test]
async fn search_without_descriptors_fails() {
    if !limited("descriptors::search_without_descriptors_fails") {
        return;
    }
    let root = TempDir::new().unwrap();
    let directory = root.path().join("d/e");
    fs::create_dir_all(&directory).unwrap();
    fs::write(directory.join("f"), "needle\nhidden").unwrap();
    fs::write(directory.join("hidden"), "needle").unwrap();
    fs::write(directory.join(".gitignore"), "hidden").unwrap();
    let files = files(&root);
    assert_eq!(search(&files).await.unwrap(), ["/d/e/f"]);

    let mut held: Vec<_> = std::iter::from_fn(|| File::open("/dev/null").ok()).collect();
    let mut refused = 0;
    let hits = loop {
        let error = match search(&files).await {
            Ok(hits) => break hits,
            Err(error) => error,
        };
        assert!(error.to_string().contains("open files"), "{error}");
        refused += 1;
        held.pop().unwrap();
    };
    assert_eq!(hits, ["/d/e/f"]);
    assert!(refused > 1, "the search needed no descriptors");
}
