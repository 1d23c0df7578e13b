//! `slim`: the dependency budget of the library.
//!
//! An embedder compiles all our dependencies, so their number is checked.

use std::collections::BTreeSet;

use crate::command;
use crate::error::XtaskError;
use crate::subcommand::{XtaskCommand, no_arguments};

pub(crate) const COMMAND: XtaskCommand = XtaskCommand {
    name: "slim",
    summary: "counts the crates the library compiles, against its budget",
    help: "\
Counts the distinct crates, ours included, that windlass-runtime compiles with and without its default
features, and looks in windlass-core for crates that have no place in a contract: HTTP, TLS, command
lines, tokenizers, telemetry, shells. Fails when a budget is exceeded or such a crate is found.

Usage: cargo xtask slim

Examples:
  cargo xtask slim
  cargo tree -p windlass-runtime -e normal,build    the dependency tree
",
    run,
};

/// Maximum number of crates that windlass-runtime compiles with one set of features.
struct CrateBudget {
    features: &'static str,
    flags: &'static [&'static str],
    limit: usize,
}

const BUDGETS: &[CrateBudget] = &[
    CrateBudget {
        features: "default features",
        flags: &[],
        limit: 150,
    },
    CrateBudget {
        features: "no default features",
        flags: &["--no-default-features"],
        limit: 60,
    },
];

/// Crates, each with its family (`hyper` includes `hyper-util`), that windlass-core must not depend on.
const UNWANTED: &[&str] = &[
    // HTTP clients and servers
    "actix",
    "attohttpc",
    "axum",
    "curl",
    "hyper",
    "isahc",
    "poem",
    "reqwest",
    "rocket",
    "tonic",
    "tower-http",
    "tungstenite",
    "ureq",
    "warp",
    // TLS
    "boring",
    "native-tls",
    "openssl",
    "rustls",
    // Command lines
    "argh",
    "bpaf",
    "clap",
    "lexopt",
    "pico-args",
    "structopt",
    // Tokenizers
    "tiktoken",
    "tokenizers",
    // Telemetry
    "metrics",
    "opentelemetry",
    "prometheus",
    "sentry",
    "tracing-opentelemetry",
    "tracing-subscriber",
    // Shells
    "bashkit",
    "brush",
    "portable-pty",
    "pty-process",
];

fn run(arguments: &[String]) -> Result<(), XtaskError> {
    no_arguments(COMMAND.name, arguments)?;
    check()
}

/// Prints the table and fails when a budget is exceeded or an unwanted crate is found.
pub(crate) fn check() -> Result<(), XtaskError> {
    let mut good = true;
    println!(
        "{:<16} {:<20} {:>6} {:>6}",
        "package", "features", "crates", "budget"
    );
    for budget in BUDGETS {
        let tree = tree("windlass-runtime", "normal,build", budget.flags)?;
        let count = distinct(&tree).len();
        let within = count <= budget.limit;
        good &= within;
        println!(
            "{:<16} {:<20} {:>6} {:>6}{}",
            "windlass-runtime",
            budget.features,
            count,
            budget.limit,
            if within { "" } else { "  over" }
        );
    }

    let tree = tree("windlass-core", "normal", &["--no-default-features"])?;
    let found = unwanted(&tree);
    if found.is_empty() {
        println!(
            "windlass-core without features brings none of the {} unwanted families",
            UNWANTED.len()
        );
    } else {
        good = false;
        let names: Vec<_> = found.into_iter().collect();
        println!(
            "windlass-core without features brings unwanted crates: {}",
            names.join(", ")
        );
    }
    if good { Ok(()) } else { Err(XtaskError::Shown) }
}

fn tree(package: &str, edges: &str, flags: &[&str]) -> Result<String, XtaskError> {
    let mut cargo = command::cargo();
    cargo
        .args(["tree", "-p", package, "-e", edges, "--prefix", "none"])
        .args(flags);
    command::read(cargo)
}

/// The distinct crates of a tree. Two versions of one crate are two: both are compiled.
fn distinct(tree: &str) -> BTreeSet<&str> {
    tree.lines()
        .map(|line| line.strip_suffix(" (*)").unwrap_or(line).trim())
        .filter(|line| !line.is_empty())
        .collect()
}

/// Returns the names in a tree that belong to an unwanted family.
fn unwanted(tree: &str) -> BTreeSet<&str> {
    tree.lines()
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| UNWANTED.iter().any(|family| is_of(name, family)))
        .collect()
}

fn is_of(name: &str, family: &str) -> bool {
    name.strip_prefix(family)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', '_']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn crate_counts_once_per_version() {
        let tree = "\
windlass-runtime v0.1.0 (crates/runtime)
serde v1.0.0
serde_derive v1.0.0 (proc-macro)
syn v2.0.0

serde v1.0.0 (*)
syn v3.0.0
syn v3.0.0 (*)
serde_derive v1.0.0 (proc-macro) (*)
";
        assert_eq!(distinct(tree).len(), 5);
        assert_eq!(distinct("").len(), 0);
    }

    #[test]
    fn unwanted_crate_is_found_only_with_its_family() {
        let tree = "hyper v1.0.0\nhyper-util v0.1.0 (*)\nclap_builder v4.0.0\nhyperloglog v1.0.0\nserde v1.0.0\n";
        let found: Vec<_> = unwanted(tree).into_iter().collect();
        assert_eq!(found, ["clap_builder", "hyper", "hyper-util"]);
    }
}
