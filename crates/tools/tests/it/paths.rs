//! No path leads out of the root.

use std::fs;
use std::os::unix::fs::symlink;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Place, snapshot};

const CANARY: &str = "only outside";
const NAME_OUTSIDE: &str = "name-outside";

/// A workspace with a file outside, and links to it.
fn place() -> Place {
    let place = Place::new().files(&[("inside/f", "x"), ("sub/deep/g", "y")]);
    for name in ["secret", NAME_OUTSIDE] {
        fs::write(place.outside().join(name), CANARY).unwrap();
    }
    symlink(place.outside(), place.root().join("out")).unwrap();
    symlink("../outside", place.root().join("up")).unwrap();
    symlink("../../outside/secret", place.root().join("sub/file")).unwrap();
    symlink("/", place.root().join("sub/all")).unwrap();
    symlink("../inside", place.root().join("sub/fine")).unwrap();
    place
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
async fn what_leads_out_is_refused_by_every_tool_and_changes_nothing() {
    let place = place();
    let before = snapshot(&place.outside());
    let outside = place.outside();
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
            let told = place.call(tool, arguments).await.unwrap_err();
            assert!(
                told.starts_with("path_outside_environment: "),
                "{tool} {path}: {told}"
            );
        }
    }
    assert_eq!(snapshot(&outside), before);
}

#[tokio::test]
async fn links_that_stay_inside_are_followed() {
    let place = place();
    let read = place
        .call("read", json!({"path": "sub/fine/f"}))
        .await
        .unwrap();
    assert_eq!(read["content"], "x");
    let absolute = place.root().join("inside/f");
    let read = place.call("read", json!({"path": absolute})).await.unwrap();
    assert_eq!(
        (&read["content"], &read["path"]),
        (&json!("x"), &json!("inside/f"))
    );
}

#[tokio::test]
async fn odd_arguments_are_told_and_never_panic() {
    let place = place();
    for tool in ["read", "write", "edit", "list", "glob", "grep", "shell"] {
        for odd in [
            json!([]),
            json!("x"),
            json!({"path": 1, "command": 1, "pattern": 1}),
            json!(7),
        ] {
            let told = place.call(tool, odd).await.unwrap_err();
            assert!(
                told.starts_with("invalid arguments for `"),
                "{tool}: {told}"
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
            assert!(place.call(tool, arguments).await.is_err(), "{tool}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Nothing outside is read or changed, whatever a path consists of.
    #[test]
    fn no_path_leads_out(
        parts in prop::collection::vec(
            prop::sample::select(vec![
                "..", ".", "", "out", "up", "sub", "all", "file", "fine", "deep", "secret", "inside", "outside", "f", "tmp",
            ]),
            0..8,
        ),
        absolute: bool,
    ) {
        let place = place();
        let path = format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"));
        let before = snapshot(&place.outside());
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        for (tool, arguments) in calls(&path).into_iter().filter(|(tool, _)| *tool != "shell") {
            if let Ok(seen) = runtime.block_on(place.call(tool, arguments)) {
                prop_assert!(!seen.to_string().contains(CANARY), "{} {}: {}", tool, path, seen);
                prop_assert!(!seen.to_string().contains(NAME_OUTSIDE), "{} {}: {}", tool, path, seen);
            }
        }
        prop_assert_eq!(snapshot(&place.outside()), before);
    }
}
