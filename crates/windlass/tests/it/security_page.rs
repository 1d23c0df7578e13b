//! The table of attacks in docs/security.md names existing tests.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// A test that the page names: its crate, and the last segment of its path.
#[derive(Debug)]
struct Named {
    of: String,
    word: String,
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
fn named(cell: &str) -> Vec<Named> {
    let mut of = String::new();
    let quoted = cell.split('`').skip(1).step_by(2);
    let tests = quoted.filter(|text| !text.starts_with("cargo "));
    tests
        .map(|text| {
            let path = match text.split_once(": ") {
                Some((name, path)) => {
                    of = name.to_owned();
                    path
                }
                None => text,
            };
            let word = path.rsplit("::").next().unwrap().to_owned();
            Named {
                of: of.clone(),
                word,
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
    /// Returns whether a test or a test file with that name exists. `…` stands for the rest of a name.
    fn have(&mut self, named: &Named) -> bool {
        let all = self.0.entry(named.of.clone()).or_insert_with(|| {
            let mut found = BTreeSet::new();
            let places = [workspace().join("crates"), workspace()].into_iter();
            let mut places = places.map(|place| place.join(&named.of));
            if let Some(place) = places.find(|place| !named.of.is_empty() && place.is_dir()) {
                names(&place, &mut found);
            }
            found
        });
        let word = named.word.trim_matches('…');
        let (is_end, is_start) = (named.word.starts_with('…'), named.word.ends_with('…'));
        all.iter().any(|name| match (is_end, is_start) {
            (false, false) => name == word,
            (false, true) => name.starts_with(word),
            (true, _) => name.contains(word),
        })
    }
}

#[test]
fn every_attack_names_tests_that_are_there() {
    let (rows, mut crates) = (rows(), Crates::default());
    assert!(rows.len() >= 80, "only {} attacks", rows.len());
    for row in &rows {
        let [attack, held, tests] = row.as_slice() else {
            panic!("a row has three cells: {row:?}");
        };
        assert!(!attack.is_empty() && !held.is_empty(), "{row:?}");
        assert!(tests.contains('`'), "{attack}: no test");
        for test in named(tests) {
            assert!(crates.have(&test), "{attack}: there is no {test:?}");
        }
    }
}

#[test]
fn a_test_that_is_not_there_is_noticed() {
    let mut crates = Crates::default();
    for (cell, is_fine) in [
        ("`tools: sandbox::there_is_no_network_…`", true),
        ("`tools: sandbox`", true),
        ("`tools: sandbox::there_was_no_network_…`", false),
        ("`tools: no_such_file_of_tests`", false),
        ("`nowhere: sandbox`", false),
    ] {
        let all = named(cell);
        assert_eq!((all.len(), crates.have(&all[0])), (1, is_fine), "{cell}");
    }
}
