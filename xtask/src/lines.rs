//! `lines`: product lines of each crate, and the size limits of files and folders.

use std::collections::BTreeMap;
use std::process::Command;

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::XtaskCommand;

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "lines",
    summary: "counts product lines by crate and checks the limits of files and folders",
    help: "\
Counts the lines of product code in every crate: lines that are neither blank nor a comment. Tests, benches, examples,
conformance suites and the testkit are excluded. Fails if a product file has more than 800 lines or a folder more than 24 of them.

Usage: cargo xtask lines [--json]

Options:
  --json    one JSON object: the lines by crate, and their total

Examples:
  cargo xtask lines
  cargo xtask lines --json | jq .total
",
    run,
};

/// All lines of a file, comments and unit tests included.
const MAX_FILE: usize = 800;
/// "About 20": a folder with more files contains several ideas.
const MAX_FOLDER: usize = 24;
/// A file of product code.
struct SourceFile {
    path: String,
    text: String,
}

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    let is_json = match arguments {
        [] => false,
        [flag] if flag == "--json" => true,
        [first, ..] => {
            return Err(XtaskError::Usage(format!(
                "`lines` takes only `--json`, but got `{first}`; see `cargo xtask lines --help`"
            )));
        }
    };
    let sources = sources()?;
    let by_crate = count(&sources);
    println!(
        "{}",
        if is_json {
            json(&by_crate)
        } else {
            table(&by_crate)
        }
    );
    fail_on(&excesses(&sources))
}

/// Fails if a file or a folder exceeds its limit.
pub(crate) fn check() -> Result<(), XtaskError> {
    fail_on(&excesses(&sources()?))
}

fn fail_on(excesses: &[String]) -> Result<(), XtaskError> {
    excesses.iter().for_each(|line| eprintln!("{line}"));
    excesses.is_empty().then_some(()).ok_or(XtaskError::Shown)
}

fn sources() -> Result<Vec<SourceFile>, XtaskError> {
    let mut git = Command::new("git");
    git.current_dir(command::root())
        .args(["ls-files", "crates"]);
    let listed = command::read(git)?;
    let product = listed.lines().filter(|path| is_product(path));
    // A deleted file is listed until the deletion is committed.
    let present = product.filter(|path| command::root().join(path).exists());
    let read = present.map(|path| {
        let text = std::fs::read_to_string(command::root().join(path));
        let text = text.map_err(|source| XtaskError::Io {
            doing: format!("read {path}"),
            source,
        })?;
        Ok(SourceFile {
            path: path.to_owned(),
            text,
        })
    });
    read.collect()
}

pub(crate) fn is_product(path: &str) -> bool {
    let parts: Vec<_> = path.split('/').collect();
    let [_, package, folders @ .., name] = &parts[..] else {
        return false;
    };
    let is_excluded =
        |folder: &&str| ["conformance", "tests", "benches", "examples"].contains(folder);
    let is_test = *name == "tests.rs" || name.ends_with("_test.rs") || name.ends_with("_tests.rs");
    name.ends_with(".rs") && *package != "testkit" && !is_test && !folders.iter().any(is_excluded)
}

fn count(sources: &[SourceFile]) -> BTreeMap<&str, usize> {
    let mut by_crate = BTreeMap::new();
    for source in sources {
        let package = source.path.split('/').nth(1).unwrap_or_default();
        *by_crate.entry(package).or_default() += product_lines(&source.text);
    }
    by_crate
}

fn product_lines(text: &str) -> usize {
    let lines = without_tests(text).into_iter();
    let lines = lines.map(|(_, line)| line.trim());
    let code = lines.filter(|line| !line.is_empty() && !line.starts_with("//"));
    code.count()
}

/// Returns the lines of a file with their numbers, without items under `#[cfg(test)]`: up to the brace that closes them, or a semicolon.
pub(crate) fn without_tests(text: &str) -> Vec<(usize, &str)> {
    let (mut product, mut lines) = (Vec::new(), (1..).zip(text.lines()));
    while let Some((number, line)) = lines.next() {
        let attribute = line.trim_start();
        let tests = ["#[cfg(test", "#[cfg(all(test", "#[cfg(any(test"];
        if !tests.iter().any(|test| attribute.starts_with(test)) {
            product.push((number, line));
            continue;
        }
        let (mut depth, mut is_open) = (0_isize, false);
        let item = lines
            .by_ref()
            .skip_while(|(_, line)| line.trim_start().starts_with("#["));
        for (_, line) in item {
            depth += line.matches('{').count().cast_signed();
            depth -= line.matches('}').count().cast_signed();
            is_open |= line.contains('{');
            if is_open && depth <= 0 || !is_open && line.trim_end().ends_with(';') {
                break;
            }
        }
    }
    product
}

fn excesses(sources: &[SourceFile]) -> Vec<String> {
    let mut folders = BTreeMap::<&str, usize>::new();
    let mut found = Vec::new();
    for SourceFile { path, text } in sources {
        let (folder, _) = path.rsplit_once('/').unwrap_or_default();
        *folders.entry(folder).or_default() += 1;
        let lines = text.lines().count();
        if lines > MAX_FILE {
            found.push(format!(
                "{path} has {lines} lines, more than {MAX_FILE}: split it"
            ));
        }
    }
    for (folder, files) in folders {
        if files > MAX_FOLDER {
            found.push(format!(
                "{folder} has {files} files, more than {MAX_FOLDER}: group them in folders"
            ));
        }
    }
    found
}

fn table(by_crate: &BTreeMap<&str, usize>) -> String {
    let mut rows: Vec<_> = by_crate.iter().collect();
    rows.sort_by_key(|(_, lines)| std::cmp::Reverse(**lines));
    let mut text: String = rows
        .iter()
        .map(|(package, lines)| format!("{lines:>7}  {package}\n"))
        .collect();
    text.push_str(&format!("{:>7}  total", by_crate.values().sum::<usize>()));
    text
}

fn json(by_crate: &BTreeMap<&str, usize>) -> String {
    let rows: Vec<_> = by_crate
        .iter()
        .map(|(package, lines)| format!("\"{package}\":{lines}"))
        .collect();
    let total: usize = by_crate.values().sum();
    format!("{{\"crates\":{{{}}},\"total\":{total}}}", rows.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(path: &str, text: String) -> SourceFile {
        SourceFile {
            path: path.to_owned(),
            text,
        }
    }

    #[test]
    fn blanks_comments_and_tests_are_not_counted() {
        let text = "\
//! A crate.

fn lift() {} // up
#[cfg(test)]
use std::fmt;
    #[cfg(all(test, unix))]
    #[expect(dead_code)]
    mod tests {
        fn drop() {}
    }
fn lower() {}
";
        assert_eq!(product_lines(text), 2);
    }

    #[test]
    fn only_product_files_are_counted() {
        for (path, expected) in [
            ("crates/core/src/lib.rs", true),
            ("crates/core/README.md", false),
            ("crates/core/src/clock_tests.rs", false),
            ("crates/core/src/journal/tests.rs", false),
            ("crates/core/tests/it/main.rs", false),
            ("crates/core/examples/one.rs", false),
            ("crates/store/src/conformance/mod.rs", false),
            ("crates/testkit/src/lib.rs", false),
        ] {
            assert_eq!(is_product(path), expected, "{path}");
        }
    }

    #[test]
    fn the_table_and_json_end_with_the_total() {
        let sources = [
            source("crates/turn/src/lib.rs", "a\n".repeat(3)),
            source("crates/core/src/lib.rs", "a\n".to_owned()),
        ];
        let by_crate = count(&sources);
        assert_eq!(
            table(&by_crate),
            "      3  turn\n      1  core\n      4  total"
        );
        assert_eq!(
            json(&by_crate),
            r#"{"crates":{"core":1,"turn":3},"total":4}"#
        );
    }

    #[test]
    fn long_files_and_full_folders_are_refused() {
        let mut sources = vec![source("crates/turn/src/long.rs", "\n".repeat(MAX_FILE + 1))];
        assert_eq!(excesses(&sources).len(), 1);
        let more =
            (0..MAX_FOLDER).map(|n| source(&format!("crates/turn/src/{n}.rs"), String::new()));
        sources.extend(more);
        assert_eq!(
            excesses(&sources),
            [
                "crates/turn/src/long.rs has 801 lines, more than 800: split it",
                "crates/turn/src has 25 files, more than 24: group them in folders",
            ]
        );
    }
}
