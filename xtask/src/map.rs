//! `map`: compares the dependencies between our crates with ARCHITECTURE.md.

use std::collections::{BTreeMap, BTreeSet};

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::{XtaskCommand, no_arguments};

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "map",
    summary: "compares the dependencies between crates with the map in ARCHITECTURE.md",
    help: "\
Reads the table under `The map` in ARCHITECTURE.md and the dependencies of every crate of the workspace (all features, tests left
excluded), and fails if the two differ: a dependency that the map does not contain, a dependency of the map that does not exist, a crate
that is missing in the map or in the workspace.

Usage: cargo xtask map
",
    run,
};

/// Our dependencies of each package by name; `None` if the map allows any.
type Arrows = BTreeMap<String, Option<BTreeSet<String>>>;

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    check()
}

/// Prints each difference and fails if there is one.
pub(crate) fn check() -> Result<(), XtaskError> {
    let page = command::root().join("ARCHITECTURE.md");
    let page = std::fs::read_to_string(page).map_err(|source| XtaskError::Io {
        doing: "read ARCHITECTURE.md".to_owned(),
        source,
    })?;
    let mut cargo = command::cargo();
    cargo
        .args(["tree", "--workspace", "--all-features", "-e", "normal"])
        .args(["--depth", "1", "--prefix", "depth", "--no-dedupe"]);
    let (drawn, built) = (drawn(&page), built(&command::read(cargo)?));
    let differences = differences(&drawn, &built);
    differences.iter().for_each(|line| println!("{line}"));
    if !differences.is_empty() {
        return Err(XtaskError::Shown);
    }
    println!("the arrows of {} crates are as drawn", built.len());
    Ok(())
}

/// Parses rows such as ``| `crates/turn` | `windlass-turn` | … | core |``.
fn drawn(page: &str) -> Arrows {
    let cells = page
        .lines()
        .map(|line| line.split('|').map(str::trim).collect());
    let rows = cells.filter_map(|cells: Vec<&str>| match cells[..] {
        ["", folder, package, _, knows, ""] if folder.starts_with('`') => {
            Some((package.trim_matches('`').to_owned(), known(knows)))
        }
        _ => None,
    });
    rows.collect()
}

fn known(cell: &str) -> Option<BTreeSet<String>> {
    match cell {
        "any" => None,
        "–" | "nothing of ours" => Some(BTreeSet::new()),
        names => Some(names.split(", ").map(full_name).collect()),
    }
}

fn full_name(short: &str) -> String {
    format!("windlass-{short}")
}

/// Parses lines such as `0windlass-turn v0.1.0 (…)` and, below it, `1serde v1.0.0`.
fn built(tree: &str) -> Arrows {
    let mut arrows = Arrows::new();
    let mut package = String::new();
    for line in tree.lines() {
        let name = |rest: &str| rest.split(' ').next().unwrap_or_default().to_owned();
        if let Some(rest) = line.strip_prefix('0') {
            package = name(rest);
            arrows.insert(package.clone(), Some(BTreeSet::new()));
        } else if let Some(rest) = line.strip_prefix('1')
            && rest.starts_with("windlass-")
            && let Some(Some(known)) = arrows.get_mut(&package)
        {
            known.insert(name(rest));
        }
    }
    arrows
}

fn differences(drawn: &Arrows, built: &Arrows) -> Vec<String> {
    let mut found = Vec::new();
    for (package, known) in built {
        let (known, drawn) = match (known, drawn.get(package)) {
            (_, None) => {
                found.push(format!("{package} is not on the map"));
                continue;
            }
            (Some(known), Some(Some(drawn))) => (known, drawn),
            (None, _) | (_, Some(None)) => continue,
        };
        let undrawn = known.difference(drawn);
        found.extend(undrawn.map(|other| {
            format!("{package} depends on {other}: add it to the map or remove the dependency")
        }));
        let unused = drawn.difference(known);
        found.extend(
            unused
                .map(|other| format!("{package} does not depend on {other}, contrary to the map")),
        );
    }
    let gone = drawn.keys().filter(|package| !built.contains_key(*package));
    found.extend(gone.map(|package| format!("{package} is on the map and not in the workspace")));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "\
| Word | Meaning |
| --- | --- |
| turn | one input |

| Folder | Package | What it holds | May know |
| --- | --- | --- | --- |
| `crates/core` | `windlass-core` | values | – |
| `crates/turn` | `windlass-turn` | the machine | core |
| `crates/windlass` | `windlass` | the binary | any |
";
    const TREE: &str = "\
0windlass v0.1.0 (/w/crates/windlass)
1windlass-turn v0.1.0 (/w/crates/turn)

0windlass-core v0.1.0 (/w/crates/core)
1serde v1.0.0

0windlass-turn v0.1.0 (/w/crates/turn)
1windlass-core v0.1.0 (/w/crates/core)
";

    fn compare(page: &str, tree: &str) -> Vec<String> {
        differences(&drawn(page), &built(tree))
    }

    #[test]
    fn correct_map_has_no_differences() {
        assert_eq!(compare(PAGE, TREE), Vec::<String>::new());
    }

    #[test]
    fn each_kind_of_difference_is_reported() {
        let other = TREE
            .replace("1serde", "1windlass-turn v0.1.0 (/w)\n1serde")
            .replace("0windlass-turn", "0windlass-new");
        assert_eq!(
            compare(PAGE, &other),
            [
                "windlass-core depends on windlass-turn: add it to the map or remove the dependency",
                "windlass-new is not on the map",
                "windlass-turn is on the map and not in the workspace",
            ]
        );
        let lonely = TREE.replace("1windlass-core", "1serde");
        assert_eq!(
            compare(PAGE, &lonely),
            ["windlass-turn does not depend on windlass-core, contrary to the map"]
        );
    }
}
