//! The commands of the README work as described.

use std::path::{Path, PathBuf};

use crate::run::{text, windlass};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the lines of all shell blocks of a page, in order.
fn commands_of(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let mut in_block = false;
    let lines = text.lines().filter(|line| {
        let was_in_block = in_block;
        in_block = match *line {
            "```sh" => true,
            "```" => false,
            _ => in_block,
        };
        was_in_block && in_block
    });
    lines.map(str::to_owned).collect()
}

#[test]
fn first_command_works_without_a_key() {
    let commands = commands_of("README.md");
    let arguments = commands[0]
        .strip_prefix("cargo run -p windlass -- run ")
        .unwrap_or_else(|| panic!("the README begins with another command: {}", commands[0]));
    let prompt = arguments.trim_matches('"');
    let out = windlass(&["run", prompt], &[]);
    assert!(out.status.success(), "{}", text(&out.stderr));
    assert!(text(&out.stdout).contains(prompt));
    assert!(text(&out.stderr).contains("demonstration model"));
}

#[test]
fn every_command_uses_existing_names() {
    let mut commands = commands_of("README.md");
    commands.extend(commands_of("docs/performance.md"));
    for command in commands {
        let words: Vec<_> = command.split_whitespace().collect();
        match words.as_slice() {
            ["cargo", "run", "-p", "windlass", "--", word, ..] => {
                let out = windlass(&[word, "--help"], &[]);
                assert!(out.status.success(), "{command}");
            }
            ["cargo", "run", "-p", package, "--example", example] => {
                let folder = package.strip_prefix("windlass-").unwrap();
                let file = format!("crates/{folder}/examples/{example}.rs");
                assert!(root().join(&file).exists(), "{command}: there is no {file}");
            }
            [
                "cargo",
                "run",
                "--release",
                "-p",
                "windlass-bench",
                "--",
                word,
            ] => {
                let program = std::fs::read_to_string(root().join("bench/src/main.rs")).unwrap();
                assert!(program.contains(&format!("[\"{word}\"]")), "{command}");
            }
            ["cargo", "xtask", word, ..] => {
                let file = format!("xtask/src/{}.rs", word.replace('-', "_"));
                assert!(root().join(&file).exists(), "{command}: there is no {file}");
            }
            ["cargo", ..] => panic!("no rule for `{command}`"),
            _ => {}
        }
    }
}

#[test]
fn every_link_resolves() {
    let docs = std::fs::read_dir(root().join("docs")).unwrap();
    let docs = docs.map(|entry| entry.unwrap().path());
    let mut pages: Vec<_> = docs
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect();
    pages.extend(["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(|page| root().join(page)));
    for page in pages {
        let text = std::fs::read_to_string(&page).unwrap();
        for link in text.split("](").skip(1) {
            let link = link.split(')').next().unwrap_or_default();
            let file = link.split('#').next().unwrap_or_default();
            if file.is_empty() || link.contains("://") || link.contains(char::is_whitespace) {
                continue;
            }
            let to = page.parent().unwrap().join(file);
            assert!(to.exists(), "{}: there is no {link}", page.display());
        }
    }
}

#[test]
fn summary_lists_every_page() {
    let summary = std::fs::read_to_string(root().join("docs/SUMMARY.md")).unwrap();
    for entry in std::fs::read_dir(root().join("docs")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") && name != "SUMMARY.md" {
            assert!(summary.contains(&format!("({name})")), "{name}");
        }
    }
}
