//! R61: names that are swapped for links while files are read, written and deleted below them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tempfile::TempDir;
use windlass_core::typed_id::SessionId;
use windlass_store::RealDiskFileStore;

use crate::support::{FileSystemRef, initial};

/// The number of operations of each run; `WINDLASS_RACE_OPERATIONS` overrides it.
const OPERATIONS: usize = 5_000;
/// Text that only files outside of the root contain.
const CANARY: &str = "outside";

fn operations() -> usize {
    let asked = std::env::var("WINDLASS_RACE_OPERATIONS").ok();
    asked.and_then(|n| n.parse().ok()).unwrap_or(OPERATIONS)
}

/// Swaps `name` between a directory and a link to `target` until `done`; returns how often.
///
/// No name above it may be swapped: this thread follows links.
fn swap(root: &Path, name: &str, target: &Path, done: &AtomicBool) -> usize {
    let (real, aside) = (root.join(name), root.join(format!("{name}.aside")));
    let mut swaps = 0;
    while !done.load(Ordering::Relaxed) {
        // The store creates and deletes the directory too, so each of these may fail.
        let _ = fs::rename(&real, &aside);
        let _ = symlink(target, &real);
        std::thread::yield_now();
        if real.is_symlink() {
            let _ = fs::remove_file(&real);
        }
        if fs::rename(&aside, &real).is_err() {
            let _ = fs::remove_dir_all(&aside);
        }
        swaps += 1;
    }
    swaps
}

/// Runs one operation below the swapped names; returns the visible content.
async fn operate(files: &FileSystemRef, session: SessionId, number: usize) -> Option<String> {
    const PATHS: [&str; 6] = [
        "/d/file",
        "/d/sub/file",
        "/d/sub",
        "/e/sub",
        "/e/sub/file",
        "/e/sub/new",
    ];
    let path = PATHS[number / 8 % PATHS.len()];
    match number % 8 {
        0 | 1 => files.read_file(session, path).await.ok()??.content,
        2 => {
            files
                .write_file(session, path, "inside", "text")
                .await
                .ok()?
                .content
        }
        3 => {
            let _ = files.delete_file(session, path, true).await;
            None
        }
        4 => {
            let listed = files.list_directory(session, path).await.ok()?;
            Some(format!(
                "{:?}",
                listed.iter().map(|entry| &entry.name).collect::<Vec<_>>()
            ))
        }
        5 => {
            let hits = files.grep_files(session, ".", None).await.ok()?;
            Some(hits.into_iter().map(|hit| hit.line).collect())
        }
        6 => {
            let seed = initial(path, "inside", false);
            let _ = files.seed_initial_file(session, &seed).await;
            let _ = files.create_directory(session, "/e/sub/made").await;
            None
        }
        _ => {
            let replaced = files
                .write_file_if_content_matches(session, path, CANARY, "text", "inside", "text")
                .await;
            replaced.ok()?.map(|_| format!("{CANARY} was replaced"))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn r61_swapped_names_never_lead_outside() {
    let (root, outside) = (TempDir::new().unwrap(), TempDir::new().unwrap());
    for path in ["file", "sub/file", "sub/outside-only"] {
        let path = outside.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, CANARY).unwrap();
    }
    for path in ["d/sub", "e/sub"] {
        fs::create_dir_all(root.path().join(path)).unwrap();
    }
    let before = snapshot(outside.path());
    let files: FileSystemRef = Arc::new(RealDiskFileStore::new(root.path()).unwrap());

    let done = Arc::new(AtomicBool::new(false));
    let swappers = [("d", ""), ("e/sub", "sub")].map(|(name, target)| {
        let (root, done) = (root.path().to_owned(), Arc::clone(&done));
        let target = outside.path().join(target);
        std::thread::spawn(move || swap(&root, name, &target, &done))
    });
    let next = Arc::new(AtomicUsize::new(0));
    let session = SessionId::new();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let (files, next) = (Arc::clone(&files), Arc::clone(&next));
            tokio::spawn(async move {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= operations() {
                        return;
                    }
                    let seen = operate(&files, session, number).await;
                    let seen = seen.unwrap_or_default();
                    assert!(!seen.contains(CANARY), "operation {number} saw {seen}");
                }
            })
        })
        .collect();
    let mut results = Vec::new();
    for worker in workers {
        results.push(worker.await);
    }
    done.store(true, Ordering::Relaxed);
    for swapper in swappers {
        assert!(swapper.join().unwrap() > 0);
    }
    for result in results {
        result.unwrap();
    }
    assert_eq!(snapshot(outside.path()), before);
}

/// Lists all paths below a directory with their contents.
fn snapshot(directory: &Path) -> Vec<(String, Option<String>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let content = path.is_file().then(|| fs::read_to_string(&path).unwrap());
        if path.is_dir() {
            found.extend(snapshot(&path));
        }
        found.push((path.display().to_string(), content));
    }
    found.sort();
    found
}
