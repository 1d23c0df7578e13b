//! `edit`: exact, atomic, and never overwriting a concurrent change.

use std::fs;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::Place;

async fn edit(place: &Place, old: &str, new: &str, replace_all: bool) -> Result<Value, String> {
    let arguments = json!({
        "path": "f", "old_string": old, "new_string": new, "replace_all": replace_all
    });
    place.call("edit", arguments).await
}

#[tokio::test]
async fn one_exact_piece_is_replaced_and_the_diff_shows_it() {
    let place = Place::new().files(&[("f", "fn a() {}\nfn b() {}\n")]);
    let edited = edit(&place, "b()", "c()", false).await.unwrap();
    assert_eq!(
        edited,
        json!({
            "path": "f", "replacements": 1, "lines_added": 1, "lines_removed": 1,
            "diff": "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n fn a() {}\n-fn b() {}\n+fn c() {}\n"
        })
    );
    assert_eq!(place.text("f"), "fn a() {}\nfn c() {}\n");
    let all = edit(&place, "fn", "pub fn", true).await.unwrap();
    assert_eq!(all["replacements"], 2);
    assert_eq!(place.text("f"), "pub fn a() {}\npub fn c() {}\n");
}

#[tokio::test]
async fn what_does_not_fit_is_told_and_changes_nothing() {
    let text = "aaa\r\nb\r\n";
    let place = Place::new().files(&[("f", text)]);
    for (old, new, all, told) in [
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
        let error = edit(&place, old, new, all).await.unwrap_err();
        assert!(error.starts_with(told), "{error}");
    }
    assert_eq!(place.text("f"), text);
    fs::write(place.root().join("f"), b"caf\xe9").unwrap();
    let error = edit(&place, "caf", "x", false).await.unwrap_err();
    assert!(error.starts_with("f is a binary file"), "{error}");
}

#[tokio::test]
async fn a_long_diff_is_cut_and_the_change_is_whole() {
    let lines: String = (0..5000).map(|n| format!("line {n}\n")).collect();
    let place = Place::new().files(&[("f", &lines)]);
    let edited = edit(&place, "line", "row", true).await.unwrap();
    assert!(edited["diff"].as_str().unwrap().len() <= 16 * 1024);
    assert_eq!(
        edited["remark"],
        "the diff is cut; the change itself is whole"
    );
    assert_eq!(place.text("f"), lines.replace("line", "row"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn edits_at_the_same_time_lose_none() {
    const EDITS: usize = 64;
    let text: String = (0..EDITS).map(|n| format!("<{n}>\n")).collect();
    let place = Arc::new(Place::new().files(&[("f", &text)]));
    // Another name of the same file counts as the same file.
    std::os::unix::fs::symlink("f", place.root().join("link")).unwrap();
    let edits: Vec<_> = (0..EDITS)
        .map(|n| {
            let place = Arc::clone(&place);
            tokio::spawn(async move {
                let path = ["f", "link"][n % 2];
                let (old, new) = (format!("<{n}>"), format!("[{n}]"));
                let arguments = json!({"path": path, "old_string": old, "new_string": new});
                place.call("edit", arguments).await.unwrap();
            })
        })
        .collect();
    for edit in edits {
        edit.await.unwrap();
    }
    let expected: String = (0..EDITS).map(|n| format!("[{n}]\n")).collect();
    assert_eq!(place.text("f"), expected);
    assert_eq!(fs::read_dir(place.root()).unwrap().count(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// An edit gives the same result as a plain replacement, or is refused with the file unchanged.
    #[test]
    fn an_edit_is_a_replacement_or_nothing(
        text in "[ab\n\ré]{0,24}",
        old in "[ab\n\ré]{0,4}",
        new in "[ab\n\ré]{0,4}",
        replace_all: bool,
    ) {
        let place = Place::new().files(&[("f", &text)]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let edited = runtime.block_on(edit(&place, &old, &new, replace_all));
        let places = (0..text.len()).filter(|at| text.get(*at..).is_some_and(|rest| rest.starts_with(&old)));
        let count = if old.is_empty() { 0 } else { places.count() };
        let fits = old != new && (count == 1 || (count > 1 && replace_all));
        prop_assert_eq!(edited.is_ok(), fits);
        let expected = if fits { text.replace(&old, &new) } else { text };
        prop_assert_eq!(place.text("f"), expected);
    }
}
