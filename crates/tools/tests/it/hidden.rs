//! Hidden files of the host are out of the reach of file tools under any name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{TestWorkspace, snapshot};

pub(crate) const SECRET: &str = "s3cret";

/// Fills a directory with a host's data: a token, a list of tokens, and a nested file.
pub(crate) fn fill(data: &Path) {
    fs::create_dir_all(data.join("sub")).unwrap();
    for name in ["token", "tokens.json", "sub/key"] {
        fs::write(data.join(name), SECRET).unwrap();
    }
}

/// All attempts of a model to reach the data directory by a path.
fn attempts(data: &str) -> Vec<(&'static str, Value)> {
    let mut attempts = Vec::new();
    for name in ["token", "sub/key", "tokens.json", "missing"] {
        let path = format!("{data}/{name}");
        attempts.push(("read", json!({ "path": path })));
        attempts.push(("write", json!({ "path": path, "content": "evil" })));
        let edit = json!({ "path": path, "old_string": SECRET, "new_string": "evil" });
        attempts.push(("edit", edit));
        attempts.push(("grep", json!({ "path": path, "pattern": "." })));
    }
    for name in ["", "/sub", "/sub/.."] {
        let path = format!("{data}{name}");
        attempts.push(("list", json!({ "path": path })));
        attempts.push((
            "glob",
            json!({ "path": path, "pattern": "*", "include_ignored": true }),
        ));
        attempts.push((
            "grep",
            json!({ "path": path, "pattern": ".", "include_ignored": true }),
        ));
    }
    let deep = format!("{data}/new/directory/file");
    attempts.push(("write", json!({ "path": deep, "content": "evil" })));
    attempts
}

/// Makes all attempts and checks that each is refused as hidden and changes nothing.
pub(crate) async fn assert_out_of_reach(workspace: &TestWorkspace, data: &str, real: &Path) {
    let before = snapshot(real);
    for (tool, arguments) in attempts(data) {
        let error = workspace.call(tool, arguments.clone()).await;
        let Err(error) = error else {
            panic!("{tool} {arguments} was let through: {error:?}")
        };
        assert!(
            error.contains("tools cannot access"),
            "{tool} {arguments}: {error}"
        );
    }
    assert_eq!(snapshot(real), before, "{data}");
}

/// Lists and searches everything, and checks that none of the data appears.
pub(crate) async fn assert_not_seen(workspace: &TestWorkspace) {
    for (tool, arguments) in [
        ("glob", json!({ "pattern": "**", "include_ignored": true })),
        (
            "grep",
            json!({ "pattern": "3cret", "include_ignored": true }),
        ),
    ] {
        let seen = workspace.call(tool, arguments).await.unwrap();
        let leaks = ["token", "key", SECRET].map(|text| seen.to_string().contains(text));
        assert_eq!(leaks, [false; 3], "{tool}: {seen}");
    }
}

async fn names_of(workspace: &TestWorkspace) -> Vec<String> {
    let listed = workspace.call("list", json!({})).await.unwrap();
    let entries = listed["entries"].as_array().unwrap().iter();
    let names = entries.map(|entry| entry["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn hidden_directory_is_refused_under_every_name() {
    let workspace = TestWorkspace::new().files(&[("seen", "seen"), ("a/b/", "")]);
    let data = workspace.root().join("a/data");
    fill(&data);
    workspace.environments.hide(&data);
    symlink("a/data", workspace.root().join("link")).unwrap();
    symlink("../data/sub/..", workspace.root().join("a/b/round")).unwrap();
    for name in [
        "a/data".to_owned(),
        "./a//b/../data".to_owned(),
        data.display().to_string(),
        "link".to_owned(),
        "a/b/round".to_owned(),
    ] {
        assert_out_of_reach(&workspace, &name, &data).await;
    }
    assert_not_seen(&workspace).await;
    assert_eq!(names_of(&workspace).await, ["a", "link", "seen"]);
    let listed = workspace
        .call("list", json!({ "path": "a" }))
        .await
        .unwrap();
    assert!(!listed.to_string().contains("data"), "{listed}");
    let seen = workspace
        .call("read", json!({ "path": "seen" }))
        .await
        .unwrap();
    assert_eq!(seen["content"], "seen");
}

#[tokio::test]
async fn hidden_link_hides_its_target() {
    let workspace = TestWorkspace::new();
    let data = workspace.root().join("data");
    fill(&data);
    symlink(&data, workspace.outside().join("one")).unwrap();
    symlink("one", workspace.outside().join("two")).unwrap();
    workspace.environments.hide(workspace.outside().join("two"));
    assert_out_of_reach(&workspace, "data", &data).await;
    assert_not_seen(&workspace).await;
}

#[tokio::test]
async fn hidden_directory_may_be_created_later() {
    let workspace = TestWorkspace::new();
    let data = workspace.root().join("later/data");
    workspace.environments.hide(&data);
    let before = json!({ "path": "later/other", "content": "x" });
    workspace.call("write", before).await.unwrap();
    fill(&data);
    assert_out_of_reach(&workspace, "later/data", &data).await;
}

#[tokio::test]
async fn moved_or_replaced_directory_stays_hidden() {
    let workspace = TestWorkspace::new();
    let (data, moved) = (
        workspace.root().join("data"),
        workspace.root().join("moved"),
    );
    fill(&data);
    workspace.environments.hide(&data);
    fs::rename(&data, &moved).unwrap();
    assert_out_of_reach(&workspace, "moved", &moved).await;
    fill(&data);
    assert_out_of_reach(&workspace, "data", &data).await;
    assert_out_of_reach(&workspace, "moved", &moved).await;
    assert_not_seen(&workspace).await;
}

#[tokio::test]
async fn root_inside_a_hidden_directory_is_refused() {
    let workspace = TestWorkspace::new().files(&[("f", SECRET)]);
    workspace
        .environments
        .hide(workspace.root().parent().unwrap());
    for (tool, arguments) in [
        ("read", json!({ "path": "f" })),
        ("write", json!({ "path": "new", "content": "x" })),
        ("list", json!({})),
        ("shell", json!({ "command": "cat f" })),
    ] {
        let error = workspace.call(tool, arguments).await.unwrap_err();
        assert!(error.contains("tools cannot access"), "{tool}: {error}");
        assert!(error.contains("`local`"), "{tool}: {error}");
    }
    assert!(!workspace.root().join("new").exists());
    assert!(workspace.environments.hides(workspace.root()).unwrap());
}

#[tokio::test]
async fn hidden_files_and_their_hard_links_are_refused() {
    let workspace =
        TestWorkspace::new().files(&[("key", SECRET), ("two", "seen"), ("seen", "seen")]);
    let data = workspace.outside().join("data");
    fill(&data);
    workspace.environments.hide(&data);
    workspace.environments.hide(workspace.root().join("key"));
    fs::hard_link(data.join("sub/key"), workspace.root().join("hard")).unwrap();
    fs::hard_link(workspace.root().join("key"), workspace.root().join("again")).unwrap();
    fs::hard_link(
        workspace.root().join("two"),
        workspace.root().join("innocent"),
    )
    .unwrap();
    for path in ["key", "again", "hard"] {
        for (tool, arguments) in [
            ("read", json!({ "path": path })),
            ("write", json!({ "path": path, "content": "evil" })),
            (
                "edit",
                json!({ "path": path, "old_string": SECRET, "new_string": "evil" }),
            ),
            ("grep", json!({ "path": path, "pattern": "." })),
        ] {
            let error = workspace.call(tool, arguments).await.unwrap_err();
            assert!(
                error.contains("tools cannot access"),
                "{tool} {path}: {error}"
            );
        }
        assert_eq!(workspace.text(path), SECRET);
    }
    let found = workspace
        .call("grep", json!({ "pattern": "." }))
        .await
        .unwrap();
    assert!(!found.to_string().contains(SECRET), "{found}");
    assert_eq!(found["files_searched"], 3, "{found}");
    let read = workspace.call("read", json!({ "path": "innocent" })).await;
    assert_eq!(read.unwrap()["content"], "seen");
}

#[tokio::test]
async fn keys_in_a_home_directory_are_hidden() {
    let workspace =
        TestWorkspace::new().files(&[(".ssh/id", SECRET), (".netrc", SECRET), (".config/x", "y")]);
    workspace.environments.hide_keys_of(workspace.root());
    for path in [".ssh/id", ".netrc"] {
        let error = workspace.call("read", json!({ "path": path })).await;
        assert!(error.unwrap_err().contains("tools cannot access"), "{path}");
    }
    let read = workspace.call("read", json!({ "path": ".config/x" })).await;
    assert_eq!(read.unwrap()["content"], "y");
}

/// Very long and very deep paths give an error and never the data.
#[tokio::test]
async fn long_paths_do_not_reveal_hidden_data() {
    let workspace = TestWorkspace::new();
    let data = workspace.root().join("data");
    fill(&data);
    workspace.environments.hide(&data);
    let deep: PathBuf = std::iter::repeat_n("d", 100).collect();
    fs::create_dir_all(workspace.root().join(&deep)).unwrap();
    let up = "../".repeat(100);
    symlink(
        format!("{up}data"),
        workspace.root().join(&deep).join("link"),
    )
    .unwrap();
    let path = format!("{}/link/token", deep.display());
    for path in [
        path,
        format!("{}data/token", "./".repeat(1500)),
        "n".repeat(300),
    ] {
        let error = workspace.call("read", json!({ "path": path })).await;
        assert!(!error.unwrap_err().contains(SECRET));
    }
}
