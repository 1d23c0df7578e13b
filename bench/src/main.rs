//! Benchmarks of Windlass: each subcommand measures one part and prints its metrics with their targets.

#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a benchmark is a command that people read"
)]

mod backends;
mod cli;
mod daemon;
mod files;
mod inprocess;
mod journal;
mod machine;
mod model;
mod report;
mod runs;
mod tasks;
mod tools;
mod upkeep;

use std::process::ExitCode;

use report::{Report, ReportFormat};

const HELP: &str = "\
Measures Windlass and prints each metric with its target.

Usage: windlass-bench <benchmark> [part] [--json]

Benchmarks:
  inprocess   turns in memory: CPU per turn, growth, memory per session
  files       the memory file system: write, list, search
  journal     the journal on disk compared with bare SQLite; parts: appends, turns, reading, forks or idle
  model       turns over HTTP compared with a bare loop: CPU, memory, cancelling; parts: durable
  daemon      the daemon over HTTP and SSE; parts: turns, idle, many (100,000 threads), active (2,000 sessions), forks,
              load, readers, fanout or chat
  runs        run tracing: durable pairs over WebSocket, a page of a long list, memory
  backends    turns of a stub agent compared with the bare stub: CPU, first text, 50 at once, an answer of 50 MB
  cli         the command line: its start, the first text of a run, the list of 10,000 threads
  tasks       queued tasks compared with turns of clients; memory of 100,000 queued tasks; start latency
  tools       the agent's tools compared with rg, bubblewrap and a direct MCP connection; deferred tools; checkpoints
  upkeep      a store with 500,000 runs: the start of the daemon, and appends while retention sweeps

Options:
  --json      one JSON object per line: {\"bench\",\"name\",\"value\",\"unit\",\"target\",\"ok\"}
  --help      this text

Examples:
  cargo run --release -p windlass-bench -- inprocess
  cargo run --release -p windlass-bench -- inprocess --json | jq .value
  TMPDIR=/mnt/disk cargo run --release -p windlass-bench -- journal    on a disk of your choice

Missed targets are marked, and the exit status is 1 if there is one.
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
    if let Some(part) = model::part(&words) {
        return part;
    }
    let format = match options.as_slice() {
        [] => ReportFormat::Table,
        ["--json"] => ReportFormat::JsonLines,
        [option, ..] => return refuse(&format!("unknown option `{option}`")),
    };
    let report = match words.as_slice() {
        ["inprocess"] => inprocess::run(Report::new("inprocess", format)).map_err(Into::into),
        ["journal"] => journal::run(Report::new("journal", format), None).map_err(Into::into),
        ["journal", part] => match journal::JournalPart::named(part) {
            Some(part) => {
                journal::run(Report::new("journal", format), Some(part)).map_err(Into::into)
            }
            None => return refuse(&format!("`journal` has no part `{part}`")),
        },
        // The child process in which `journal` measures memory.
        [journal::CHILD, directory, opened] => {
            return journal::live_as_child(directory, opened);
        }
        ["files"] => files::run(Report::new("files", format)).map_err(Into::into),
        ["model"] => model::run(Report::new("model", format)).map_err(Into::into),
        ["model", "durable"] => model::durable(Report::new("model", format)).map_err(Into::into),
        ["daemon"] => daemon::run(Report::new("daemon", format), None),
        ["daemon", part] => match daemon::DaemonPart::named(part) {
            Some(part) => daemon::run(Report::new("daemon", format), Some(part)),
            None => return refuse(&format!("`daemon` has no part `{part}`")),
        },
        ["runs"] => runs::run(Report::new("runs", format)),
        ["backends"] => backends::run(Report::new("backends", format)),
        ["cli"] => cli::run(Report::new("cli", format)),
        ["tasks"] => tasks::run(Report::new("tasks", format)),
        ["tools"] => tools::run(Report::new("tools", format)),
        // The server that `tools` calls.
        [tools::CHILD] => return tools::live_as_child(),
        ["upkeep"] => upkeep::run(Report::new("upkeep", format)),
        // The reference server of `runs`, in a separate process.
        [runs::CHILD, directory] => return runs::live_as_child(directory),
        [word, ..] => return refuse(&format!("unknown benchmark `{word}`")),
        [] => return refuse("a benchmark is missing"),
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
