//! `docs/cli.md` documents every command.

use std::collections::BTreeMap;
use std::path::Path;

use crate::support::Home;

fn page() -> String {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/cli.md");
    std::fs::read_to_string(page).unwrap()
}

/// Returns the sections of the page by their headings.
fn sections() -> BTreeMap<String, String> {
    let page = page();
    let sections = page.split("\n## ").skip(1);
    let named = sections.map(|section| section.split_once('\n').unwrap());
    named
        .map(|(title, text)| (title.to_owned(), text.to_owned()))
        .collect()
}

/// Returns the commands that a help text lists.
fn commands(home: &Home, words: &[&str]) -> Vec<String> {
    let out = home.command(&[words, &["--help"]].concat());
    let out = { out }.output().unwrap();
    assert!(out.status.success(), "{words:?}: {out:?}");
    let help = String::from_utf8(out.stdout).unwrap();
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = listed.take_while(|line| !line.is_empty());
    // Lines with a deeper indent continue the description of a command.
    let listed = listed.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    let names = names.filter(|name| *name != "help");
    names.map(str::to_owned).collect()
}

#[test]
fn every_command_has_a_section_with_its_arguments() {
    let (home, sections) = (Home::new(), sections());
    let known = commands(&home, &[]);
    assert!(known.len() > 10, "{known:?}");
    let documented = sections.keys().filter(|title| title.starts_with('`'));
    let mut expected: Vec<_> = known
        .iter()
        .map(|name| format!("`windlass {name}`"))
        .collect();
    expected.sort();
    assert_eq!(documented.cloned().collect::<Vec<_>>(), expected);
    for name in &known {
        let section = &sections[&format!("`windlass {name}`")];
        for word in commands(&home, &[name]) {
            assert!(section.contains(&format!("`{word}`")), "{name} {word}");
        }
    }
}

#[test]
fn every_example_parses() {
    let (home, page) = (Home::new(), page());
    let lines: Vec<_> = page
        .lines()
        .filter(|line| line.starts_with("windlass "))
        .collect();
    assert!(lines.len() > 8, "{lines:?}");
    for line in lines {
        // Every example has at most one quoted text, and outside of it spaces only separate words.
        let (before, quoted) = line.split_once(" \"").unwrap_or((line, ""));
        let mut words: Vec<&str> = before.split_whitespace().skip(1).collect();
        words.extend(Some(quoted.trim_end_matches('"')).filter(|text| !text.is_empty()));
        words.push("--help");
        let out = home.command(&words).output().unwrap();
        assert!(out.status.success(), "{line}: {out:?}");
    }
}

#[test]
fn exit_codes_match_the_page() {
    let codes = &sections()["Exit codes"];
    let rows = codes.lines().filter_map(|line| {
        let (code, _) = line.strip_prefix("| ")?.split_once(" |")?;
        code.parse::<i32>().ok()
    });
    assert_eq!(rows.collect::<Vec<_>>(), [0, 1, 2, 130]);
    let home = Home::new();
    for (words, code) in [
        (&["run", "hello"][..], 0),
        (&["run", "--resume", "12345678", "hello"], 2),
        (&["runs", "show", "12345678"], 2),
        (&["sevre"], 2),
        (&["run", "--model", "acme/x", "hello"], 2),
    ] {
        let out = home.command(words).output().unwrap();
        assert_eq!(out.status.code(), Some(code), "{words:?}: {out:?}");
    }
}
