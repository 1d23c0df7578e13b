//! `edit`: exact, atomic, and never overwriting a concurrent change.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::TestWorkspace;

async fn edit(
    workspace: &TestWorkspace,
    old: &str,
    new: &str,
    replace_all: bool,
) -> Result<Value, String> {
    let arguments = json!({
        "path": "f", "old_string": old, "new_string": new, "replace_all": replace_all
    });
    workspace.call("edit", arguments).await
}

#[tokio::test]
async fn exact_match_is_replaced_and_shown_in_a_diff() {
    let workspace = TestWorkspace::new().files(&[("f", "fn a() {}\nfn b() {}\n")]);
    let edited = edit(&workspace, "b()", "c()", false).await.unwrap();
    assert_eq!(
        edited,
        json!({
            "path": "f", "replacements": 1, "lines_added": 1, "lines_removed": 1,
            "diff": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n fn a() {}\n-fn b() {}\n+fn c() {}\n"
        })
    );
    assert_eq!(workspace.text("f"), "fn a() {}\nfn c() {}\n");
    let all = edit(&workspace, "fn", "pub fn", true).await.unwrap();
    assert_eq!(all["replacements"], 2);
    assert_eq!(workspace.text("f"), "pub fn a() {}\npub fn c() {}\n");
}

#[tokio::test]
async fn edit_that_does_not_apply_changes_nothing() {
    let text = "aaa\r\nb\r\n";
    let workspace = TestWorkspace::new().files(&[("f", text)]);
    for (old, new, all, error) in [
        (
            "x",
            "y",
            false,
            "`old_string` has 0 matches in f; its lines end with \\r\\n",
        ),
        (
            "x\r\n",
            "y",
            true,
            "`old_string` has 0 matches in f; read the file again",
        ),
        ("aa", "y", false, "`old_string` has 2 matches in f; "),
        ("", "y", false, "`old_string` must not be empty"),
        (
            "b",
            "b",
            false,
            "`old_string` and `new_string` are the same",
        ),
    ] {
        let actual = edit(&workspace, old, new, all).await.unwrap_err();
        assert!(actual.starts_with(error), "{actual}");
    }
    assert_eq!(workspace.text("f"), text);
    fs::write(workspace.root().join("f"), b"caf\xe9").unwrap();
    let error = edit(&workspace, "caf", "x", false).await.unwrap_err();
    assert!(error.starts_with("f is a binary file"), "{error}");
}

#[tokio::test]
async fn long_diff_is_truncated_and_the_change_is_complete() {
    let lines: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    let workspace = TestWorkspace::new().files(&[("f", &lines)]);
    let edited = edit(&workspace, "line", "row", true).await.unwrap();
    assert!(edited["diff"].as_str().unwrap().len() <= 16 * 1024);
    assert_eq!(
        edited["remark"],
        "the diff is truncated; the change itself is complete"
    );
    assert_eq!(workspace.text("f"), lines.replace("line", "row"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrent_edits_are_all_applied() {
    const EDITS: usize = 64;
    let text: String = (0..EDITS).map(|n| format!("<{n}>\n")).collect();
    let workspace = Arc::new(TestWorkspace::new().files(&[("f", &text)]));
    // Another name of the same file counts as the same file.
    std::os::unix::fs::symlink("f", workspace.root().join("link")).unwrap();
    let edits: Vec<_> = (0..EDITS)
        .map(|n| {
            let workspace = Arc::clone(&workspace);
            tokio::spawn(async move {
                let path = ["f", "link"][n % 2];
                let (old, new) = (format!("<{n}>"), format!("[{n}]"));
                let arguments = json!({"path": path, "old_string": old, "new_string": new});
                workspace.call("edit", arguments).await.unwrap();
            })
        })
        .collect();
    for edit in edits {
        edit.await.unwrap();
    }
    let expected: String = (0..EDITS).map(|n| format!("[{n}]\n")).collect();
    assert_eq!(workspace.text("f"), expected);
    assert_eq!(fs::read_dir(workspace.root()).unwrap().count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// An edit gives the same result as a plain replacement, or is refused with the file unchanged.
    #[test]
    fn edit_is_a_replacement_or_has_no_effect(
        text in "[ab\n\ré]{0,24}",
        old in "[ab\n\ré]{0,4}",
        new in "[ab\n\ré]{0,4}",
        replace_all: bool,
    ) {
        let workspace = TestWorkspace::new().files(&[("f", &text)]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let edited = runtime.block_on(edit(&workspace, &old, &new, replace_all));
        let places = (0..text.len()).filter(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(&old)));
        let count = if old.is_empty() { 0 } else { places.count() };
        let fits = old != new && (count == 1 || (count > 1 && replace_all));
        prop_assert_eq!(edited.is_ok(), fits);
        let expected = if fits { text.replace(&old, &new) } else { text };
        prop_assert_eq!(workspace.text("f"), expected);
    }
}
