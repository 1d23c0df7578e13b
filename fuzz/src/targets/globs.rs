//! Patterns of `glob` and `grep`.

use serde_json::json;

use super::bytes::Bytes;
use super::patterns::{expression, path_pattern};
use super::scratch::{Scratch, check_files};

thread_local! {
    static SCRATCH: Scratch = Scratch::new();
}

/// Whatever the pattern, `glob` and `grep` answer or say what is wrong with it: files of the tree, each once, and never what lies
/// in `.git`. Both read a pattern for paths in the same way.
pub fn globs(data: &[u8]) {
    let mut bytes = Bytes::new(data);
    let pattern = path_pattern(&mut bytes);
    let expression = expression(&mut bytes);
    let path = *bytes
        .pick(&[".", "src", "src/deep", "a.rs", "none", "..", "/"])
        .unwrap_or(&".");
    let context = bytes.below(300);
    SCRATCH.with(|scratch| {
        let found = scratch.glob(&pattern, false);
        let searched = scratch.grep(&pattern, false);
        match (&found, &searched) {
            (Ok(found), Ok(searched)) => {
                check_files(found);
                assert_eq!(found, searched, "{pattern:?} is read in two ways");
            }
            (Err(_), Err(_)) => {}
            _ => panic!("{pattern:?} is refused by one: {found:?}, {searched:?}"),
        }
        let below = json!({ "pattern": pattern, "path": path });
        let _ = scratch.call("glob", &below);
        let lines = json!({ "pattern": expression, "path": path, "context": context, "ignore_case": context % 2 == 1 });
        let _ = scratch.call("grep", &lines);
    });
}
