//! Hidden files of the host are out of the reach of file tools under any name.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::{Place, snapshot};

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
pub(crate) async fn assert_out_of_reach(place: &Place, data: &str, real: &Path) {
    let before = snapshot(real);
    for (tool, arguments) in attempts(data) {
        let told = place.call(tool, arguments.clone()).await;
        let Err(told) = told else {
            panic!("{tool} {arguments} was let through: {told:?}")
        };
        assert!(
            told.contains("out of their reach"),
            "{tool} {arguments}: {told}"
        );
    }
    assert_eq!(snapshot(real), before, "{data}");
}

/// Lists and searches everything, and checks that none of the data appears.
pub(crate) async fn assert_not_seen(place: &Place) {
    for (tool, arguments) in [
        ("glob", json!({ "pattern": "**", "include_ignored": true })),
        (
            "grep",
            json!({ "pattern": "3cret", "include_ignored": true }),
        ),
    ] {
        let seen = place.call(tool, arguments).await.unwrap();
        let is_told = ["token", "key", SECRET].map(|told| seen.to_string().contains(told));
        assert_eq!(is_told, [false; 3], "{tool}: {seen}");
    }
}

async fn names_of(place: &Place) -> Vec<String> {
    let listed = place.call("list", json!({})).await.unwrap();
    let entries = listed["entries"].as_array().unwrap().iter();
    let names = entries.map(|entry| entry["name"].as_str().unwrap().to_owned());
    names.collect()
}

#[tokio::test]
async fn a_directory_inside_of_the_root_is_refused_by_every_name() {
    let place = Place::new().files(&[("seen", "seen"), ("a/b/", "")]);
    let data = place.root().join("a/data");
    fill(&data);
    place.environments.hide(&data);
    symlink("a/data", place.root().join("link")).unwrap();
    symlink("../data/sub/..", place.root().join("a/b/round")).unwrap();
    for name in [
        "a/data".to_owned(),
        "./a//b/../data".to_owned(),
        data.display().to_string(),
        "link".to_owned(),
        "a/b/round".to_owned(),
    ] {
        assert_out_of_reach(&place, &name, &data).await;
    }
    assert_not_seen(&place).await;
    assert_eq!(names_of(&place).await, ["a", "link", "seen"]);
    let listed = place.call("list", json!({ "path": "a" })).await.unwrap();
    assert!(!listed.to_string().contains("data"), "{listed}");
    let seen = place.call("read", json!({ "path": "seen" })).await.unwrap();
    assert_eq!(seen["content"], "seen");
}

#[tokio::test]
async fn a_directory_that_the_host_reaches_by_a_link_is_refused_by_its_own_name() {
    let place = Place::new();
    let data = place.root().join("data");
    fill(&data);
    symlink(&data, place.outside().join("one")).unwrap();
    symlink("one", place.outside().join("two")).unwrap();
    place.environments.hide(place.outside().join("two"));
    assert_out_of_reach(&place, "data", &data).await;
    assert_not_seen(&place).await;
}

#[tokio::test]
async fn a_directory_that_is_made_later_is_refused_from_then_on() {
    let place = Place::new();
    let data = place.root().join("later/data");
    place.environments.hide(&data);
    let before = json!({ "path": "later/other", "content": "x" });
    place.call("write", before).await.unwrap();
    fill(&data);
    assert_out_of_reach(&place, "later/data", &data).await;
}

#[tokio::test]
async fn a_directory_that_is_moved_or_replaced_stays_refused() {
    let place = Place::new();
    let (data, moved) = (place.root().join("data"), place.root().join("moved"));
    fill(&data);
    place.environments.hide(&data);
    fs::rename(&data, &moved).unwrap();
    assert_out_of_reach(&place, "moved", &moved).await;
    fill(&data);
    assert_out_of_reach(&place, "data", &data).await;
    assert_out_of_reach(&place, "moved", &moved).await;
    assert_not_seen(&place).await;
}

#[tokio::test]
async fn a_root_inside_of_it_is_no_place_to_work() {
    let place = Place::new().files(&[("f", SECRET)]);
    place.environments.hide(place.root().parent().unwrap());
    for (tool, arguments) in [
        ("read", json!({ "path": "f" })),
        ("write", json!({ "path": "new", "content": "x" })),
        ("list", json!({})),
        ("shell", json!({ "command": "cat f" })),
    ] {
        let told = place.call(tool, arguments).await.unwrap_err();
        assert!(told.contains("out of their reach"), "{tool}: {told}");
        assert!(told.contains("`local`"), "{tool}: {told}");
    }
    assert!(!place.root().join("new").exists());
    assert!(place.environments.hides(place.root()).unwrap());
}

#[tokio::test]
async fn single_files_and_second_names_of_files_are_refused_too() {
    let place = Place::new().files(&[("key", SECRET), ("two", "seen"), ("seen", "seen")]);
    let data = place.outside().join("data");
    fill(&data);
    place.environments.hide(&data);
    place.environments.hide(place.root().join("key"));
    fs::hard_link(data.join("sub/key"), place.root().join("hard")).unwrap();
    fs::hard_link(place.root().join("key"), place.root().join("again")).unwrap();
    fs::hard_link(place.root().join("two"), place.root().join("innocent")).unwrap();
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
            let told = place.call(tool, arguments).await.unwrap_err();
            assert!(told.contains("out of their reach"), "{tool} {path}: {told}");
        }
        assert_eq!(place.text(path), SECRET);
    }
    let found = place.call("grep", json!({ "pattern": "." })).await.unwrap();
    assert!(!found.to_string().contains(SECRET), "{found}");
    assert_eq!(found["files_searched"], 3, "{found}");
    let read = place.call("read", json!({ "path": "innocent" })).await;
    assert_eq!(read.unwrap()["content"], "seen");
}

#[tokio::test]
async fn keys_of_a_home_directory_are_refused() {
    let place = Place::new().files(&[(".ssh/id", SECRET), (".netrc", SECRET), (".config/x", "y")]);
    place.environments.hide_keys_of(place.root());
    for path in [".ssh/id", ".netrc"] {
        let told = place.call("read", json!({ "path": path })).await;
        assert!(told.unwrap_err().contains("out of their reach"), "{path}");
    }
    let read = place.call("read", json!({ "path": ".config/x" })).await;
    assert_eq!(read.unwrap()["content"], "y");
}

/// Very long and very deep paths give an error and never the data.
#[tokio::test]
async fn long_names_lead_nowhere() {
    let place = Place::new();
    let data = place.root().join("data");
    fill(&data);
    place.environments.hide(&data);
    let deep: PathBuf = std::iter::repeat_n("d", 100).collect();
    fs::create_dir_all(place.root().join(&deep)).unwrap();
    let up = "../".repeat(100);
    symlink(format!("{up}data"), place.root().join(&deep).join("link")).unwrap();
    let path = format!("{}/link/token", deep.display());
    for path in [
        path,
        format!("{}data/token", "./".repeat(1500)),
        "n".repeat(300),
    ] {
        let told = place.call("read", json!({ "path": path })).await;
        assert!(!told.unwrap_err().contains(SECRET));
    }
}
