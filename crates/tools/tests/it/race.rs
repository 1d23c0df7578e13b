//! Names that are replaced by links while tools work below them.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};

use crate::support::{TestWorkspace, snapshot};

/// Default number of calls; `WINDLASS_RACE_OPERATIONS` overrides it.
const CALLS: usize = 3_000;
/// Text that only files outside contain.
const CANARY: &str = "only outside";

fn calls() -> usize {
    let requests = std::env::var("WINDLASS_RACE_OPERATIONS").ok();
    requests.and_then(|n| n.parse().ok()).unwrap_or(CALLS)
}

/// Switches a name between a directory and a link until `done`; returns how often.
fn swap(real: &Path, target: &Path, done: &AtomicBool) -> usize {
    let aside = real.with_extension("aside");
    let mut swaps = 0;
    while !done.load(Ordering::Relaxed) {
        // The tools create the directory too, so each of these may fail.
        let _ = fs::rename(real, &aside);
        let _ = symlink(target, real);
        std::thread::yield_now();
        if real.is_symlink() {
            let _ = fs::remove_file(real);
        }
        if fs::rename(&aside, real).is_err() {
            let _ = fs::remove_dir_all(&aside);
        }
        swaps += 1;
    }
    swaps
}

fn call(number: usize) -> (&'static str, Value) {
    let path = ["d/file", "d/sub/file", "d/new", "e/sub/file", "e/sub/new/x"][number / 6 % 5];
    match number % 6 {
        0 => ("read", json!({ "path": path })),
        1 => ("write", json!({ "path": path, "content": "inside" })),
        2 => (
            "edit",
            json!({ "path": path, "old_string": "only", "new_string": "evil" }),
        ),
        3 => ("list", json!({ "path": "d/sub" })),
        4 => ("glob", json!({ "pattern": "outside-*", "path": "." })),
        _ => ("grep", json!({ "pattern": CANARY })),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_names_never_lead_out() {
    let workspace = TestWorkspace::new().files(&[("d/sub/", ""), ("e/sub/", "")]);
    let outside = workspace.outside();
    let links = [outside.clone(), outside.join("sub")];
    race(workspace, &outside, links).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replaced_names_never_lead_to_hidden_files() {
    let workspace = TestWorkspace::new().files(&[("d/sub/", ""), ("e/sub/", ""), ("hidden/", "")]);
    let hidden = workspace.root().join("hidden");
    workspace.environments.hide(&hidden);
    // Relative, because an absolute link never leads into the root.
    let links = ["hidden", "../hidden/sub"].map(PathBuf::from);
    race(workspace, &hidden, links).await;
}

/// Makes calls while names in the root are replaced by links to a forbidden directory.
async fn race(workspace: TestWorkspace, forbidden: &Path, links: [PathBuf; 2]) {
    let workspace = Arc::new(workspace);
    for name in ["file", "sub/file", "sub/outside-only"] {
        let path = forbidden.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, CANARY).unwrap();
    }
    let before = snapshot(forbidden);
    let done = Arc::new(AtomicBool::new(false));
    let [first, second] = links;
    let swappers = [("d", first), ("e/sub", second)].map(|(name, target)| {
        let real = workspace.root().join(name);
        let done = Arc::clone(&done);
        std::thread::spawn(move || swap(&real, &target, &done))
    });
    let workers: Vec<_> = (0..2)
        .map(|worker| {
            let workspace = Arc::clone(&workspace);
            tokio::spawn(async move {
                let mut fine = 0;
                for number in (worker..calls()).step_by(2) {
                    let (tool, arguments) = call(number);
                    if let Ok(seen) = workspace.call(tool, arguments).await {
                        let seen = seen.to_string();
                        assert!(!seen.contains(CANARY), "{tool}: {seen}");
                        assert!(!seen.contains("outside-only"), "{tool}: {seen}");
                        fine += 1;
                    }
                }
                fine
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
    for fine in results {
        assert!(fine.unwrap() > 0, "some calls get through");
    }
    assert_eq!(snapshot(forbidden), before);
}
