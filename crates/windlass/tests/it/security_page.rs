//! The table of attacks in docs/security.md names existing tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A test that the page names: its crate, and the last segment of its path.
#[derive(Debug)]
struct TestReference {
    crate_name: String,
    segment: String,
}

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the rows of the table as cells.
fn rows() -> Vec<Vec<String>> {
    let page = fs::read_to_string(workspace().join("docs/security.md")).unwrap();
    let (_, table) = page.split_once("## Tested attacks").unwrap();
    let lines = table.lines().skip_while(|line| !line.starts_with("| ---"));
    let lines = lines.skip(1).take_while(|line| line.starts_with('|'));
    let cells = |line: &str| {
        let cells = line.trim_matches('|').split(" | ");
        cells.map(|cell| cell.trim().to_owned()).collect()
    };
    lines.map(cells).collect()
}

/// Parses `crate: a::b`, `c::d`; a name without a crate belongs to the crate before it.
fn test_references(cell: &str) -> Vec<TestReference> {
    let mut crate_name = String::new();
    let quoted = cell.split('`').skip(1).step_by(2);
    let tests = quoted.filter(|text| !text.starts_with("cargo "));
    tests
        .map(|text| {
            let path = match text.split_once(": ") {
                Some((name, path)) => {
                    crate_name = name.to_owned();
                    path
                }
                None => text,
            };
            let segment = path.rsplit("::").next().unwrap().to_owned();
            TestReference {
                crate_name: crate_name.clone(),
                segment,
            }
        })
        .collect()
}

/// Collects the names of all files, directories and functions of a crate.
fn names(directory: &Path, found: &mut BTreeSet<String>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && name != "fixtures" {
            found.insert(name);
            names(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.insert(name);
            let text = fs::read_to_string(&path).unwrap();
            let functions = text.split("fn ").skip(1);
            let functions = functions.filter_map(|rest| rest.split(['(', '<']).next());
            found.extend(functions.map(str::to_owned));
        }
    }
}

/// The names of each crate.
#[derive(Default)]
struct Crates(BTreeMap<String, BTreeSet<String>>);

impl Crates {
    /// Returns whether a test or a test file with that name exists. `…` matches the rest of a name.
    fn contain(&mut self, test: &TestReference) -> bool {
        let all = self.0.entry(test.crate_name.clone()).or_insert_with(|| {
            let mut found = BTreeSet::new();
            let candidates = [workspace().join("crates"), workspace()].into_iter();
            let mut candidates = candidates.map(|candidate| candidate.join(&test.crate_name));
            if let Some(candidate) =
                candidates.find(|candidate| !test.crate_name.is_empty() && candidate.is_dir())
            {
                names(&candidate, &mut found);
            }
            found
        });
        let segment = test.segment.trim_matches('…');
        let (is_end, is_start) = (test.segment.starts_with('…'), test.segment.ends_with('…'));
        all.iter().any(|name| match (is_end, is_start) {
            (false, false) => name == segment,
            (false, true) => name.starts_with(segment),
            (true, _) => name.contains(segment),
        })
    }
}

#[test]
fn every_attack_names_existing_tests() {
    let (rows, mut crates) = (rows(), Crates::default());
    assert!(rows.len() >= 80, "only {} attacks", rows.len());
    for row in &rows {
        let [attack, held, tests] = row.as_slice() else {
            panic!("a row has three cells: {row:?}");
        };
        assert!(!attack.is_empty() && !held.is_empty(), "{row:?}");
        assert!(tests.contains('`'), "{attack}: no test");
        for test in test_references(tests) {
            assert!(crates.contain(&test), "{attack}: there is no {test:?}");
        }
    }
}

#[test]
fn missing_test_is_detected() {
    let mut crates = Crates::default();
    for (cell, is_fine) in [
        ("`tools: sandbox::there_is_no_network_…`", true),
        ("`tools: sandbox`", true),
        ("`tools: sandbox::there_was_no_network_…`", false),
        ("`tools: no_such_file_of_tests`", false),
        ("`nowhere: sandbox`", false),
    ] {
        let all = test_references(cell);
        assert_eq!((all.len(), crates.contain(&all[0])), (1, is_fine), "{cell}");
    }
}
