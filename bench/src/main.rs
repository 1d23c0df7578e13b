//! Benchmarks of Windlass: each word measures one part and shows its figures beside their targets.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is a command that people read"
)]

mod daemon;
mod files;
mod inprocess;
mod machine;
mod report;

use std::process::ExitCode;

use report::{Format, Report};

const HELP: &str = "\
Measures Windlass and shows each figure beside its target.

Usage: windlass-bench <word> [--json]

Words:
  inprocess   turns in memory: CPU per turn, growth, memory per session
  files       the memory file system: write, list, search
  daemon      the daemon over HTTP and SSE: turns, subscribers, start, memory

Options:
  --json      one JSON object per line: {\"bench\",\"name\",\"value\",\"unit\",\"target\",\"ok\"}
  --help      this text

Examples:
  cargo run --release -p windlass-bench -- inprocess
  cargo run --release -p windlass-bench -- inprocess --json | jq .value

A missed target is shown, never hidden; the exit status is 1 if there is one.
";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.is_empty() || args.iter().any(|arg| arg == "--help" || arg == "-h") {
        print!("{HELP}");
        return ExitCode::SUCCESS;
    }
    let (options, words): (Vec<_>, Vec<_>) = args
        .iter()
        .map(String::as_str)
        .partition(|arg| arg.starts_with('-'));
    let format = match options.as_slice() {
        [] => Format::Table,
        ["--json"] => Format::JsonLines,
        [option, ..] => return refuse(&format!("unknown option `{option}`")),
    };
    let report = match words.as_slice() {
        ["inprocess"] => inprocess::run(Report::new("inprocess", format)).map_err(Into::into),
        ["files"] => files::run(Report::new("files", format)).map_err(Into::into),
        ["daemon"] => daemon::run(Report::new("daemon", format)),
        [word, ..] => return refuse(&format!("unknown word `{word}`")),
        [] => return refuse("a word is missing"),
    };
    match report {
        Ok(report) => report.finish(),
        Err(error) => {
            eprintln!("windlass-bench: {error}");
            ExitCode::FAILURE
        }
    }
}

fn refuse(what: &str) -> ExitCode {
    eprintln!("windlass-bench: {what}; see --help");
    ExitCode::from(2)
}
