//! No path leads out of the root.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{TestWorkspace, snapshot};

const CANARY: &str = "only outside";
const NAME_OUTSIDE: &str = "name-outside";

/// A workspace with a file outside, and links to it.
fn workspace() -> TestWorkspace {
    let workspace = TestWorkspace::new().files(&[("inside/f", "x"), ("sub/deep/g", "y")]);
    for name in ["secret", NAME_OUTSIDE] {
        fs::write(workspace.outside().join(name), CANARY).unwrap();
    }
    symlink(workspace.outside(), workspace.root().join("out")).unwrap();
    symlink("../outside", workspace.root().join("up")).unwrap();
    symlink("../../outside/secret", workspace.root().join("sub/file")).unwrap();
    symlink("/", workspace.root().join("sub/all")).unwrap();
    symlink("../inside", workspace.root().join("sub/fine")).unwrap();
    workspace
}

fn calls(path: &str) -> [(&'static str, Value); 7] {
    [
        ("read", json!({ "path": path })),
        ("write", json!({ "path": path, "content": "evil" })),
        (
            "edit",
            json!({ "path": path, "old_string": "only", "new_string": "evil" }),
        ),
        ("list", json!({ "path": path })),
        ("glob", json!({ "pattern": "*", "path": path })),
        ("grep", json!({ "pattern": "only", "path": path })),
        ("shell", json!({ "command": "cat secret", "cwd": path })),
    ]
}

#[tokio::test]
async fn path_outside_the_root_is_refused_by_every_tool() {
    let workspace = workspace();
    let before = snapshot(&workspace.outside());
    let outside = workspace.outside();
    let spelled = [
        "../outside",
        "../outside/secret",
        "out",
        "out/secret",
        "out/new/x",
        "up",
        "up/secret",
        "sub/file",
        "sub/all",
        "sub/all/etc/passwd",
        "/etc/passwd",
        "inside/../../outside/secret",
        outside.to_str().unwrap(),
    ];
    for path in spelled {
        for (tool, arguments) in calls(path) {
            let error = workspace.call(tool, arguments).await.unwrap_err();
            assert!(
                error.starts_with("path_outside_environment: "),
                "{tool} {path}: {error}"
            );
        }
    }
    assert_eq!(snapshot(&outside), before);
}

#[tokio::test]
async fn links_that_stay_inside_are_followed() {
    let workspace = workspace();
    let read = workspace
        .call("read", json!({"path": "sub/fine/f"}))
        .await
        .unwrap();
    assert_eq!(read["content"], "x");
    let absolute = workspace.root().join("inside/f");
    let read = workspace
        .call("read", json!({"path": absolute}))
        .await
        .unwrap();
    assert_eq!(
        (&read["content"], &read["path"]),
        (&json!("x"), &json!("inside/f"))
    );
}

#[tokio::test]
async fn invalid_arguments_are_errors() {
    let workspace = workspace();
    for tool in ["read", "write", "edit", "list", "glob", "grep", "shell"] {
        for odd in [
            json!([]),
            json!("x"),
            json!({"path": 1, "command": 1, "pattern": 1}),
            json!(7),
        ] {
            let error = workspace.call(tool, odd).await.unwrap_err();
            assert!(
                error.starts_with("invalid arguments for `"),
                "{tool}: {error}"
            );
        }
    }
    for path in [
        "a\0b",
        &"n".repeat(5000),
        &"d/".repeat(1500),
        &"n".repeat(300),
    ] {
        for (tool, arguments) in calls(path) {
            assert!(workspace.call(tool, arguments).await.is_err(), "{tool}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing outside is read or changed, whatever a path consists of.
    #[test]
    fn random_path_stays_inside_the_root(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "..", ".", "", "out", "up", "sub", "all", "file", "fine", "deep", "secret", "inside", "outside", "f", "tmp",
            ]),
            0..8,
        ),
        absolute: bool,
    ) {
        let workspace = workspace();
        let path = format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"));
        let before = snapshot(&workspace.outside());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (tool, arguments) in calls(&path).into_iter().filter(|(tool, _)| *tool != "shell") {
            if let Ok(seen) = runtime.block_on(workspace.call(tool, arguments)) {
                prop_assert!(!seen.to_string().contains(CANARY), "{} {}: {}", tool, path, seen);
                prop_assert!(!seen.to_string().contains(NAME_OUTSIDE), "{} {}: {}", tool, path, seen);
            }
        }
        prop_assert_eq!(snapshot(&workspace.outside()), before);
    }
}
