//! `windlass runs`: recorded runs of a data directory, also while a daemon uses it.

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use windlass_core::runs::{OutcomeStatus, RunRecord, RunStatus, RunSummary};
use windlass_runs::{AllRuns, AnyRun, RunLimits, ThreadTurns};
use windlass_runtime::{SqliteOptions, SqliteStore};
use windlass_store::RunFilter;

use crate::cli::{count, note, printable};
use crate::client::ids::{SEARCHED, by_end, short};
use crate::commands::data_options::DataOptions;
use crate::data;
use crate::inert_json::{write_json_lines, write_value};
use crate::terminal::{Listing, Style};

/// Maximum width of an agent's name, in characters.
const AGENT_WIDTH: usize = 13;
/// Maximum number of records per read.
const PAGE_RECORDS: usize = 200;
/// Maximum size of records per read, in bytes.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// Polling interval for a run that has not ended.
const POLL_INTERVAL: Duration = Duration::from_millis(200);
/// Maximum width of an intent, in characters.
const MAX_TEXT_WIDTH: usize = 60;

/// Lists runs and shows their records.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass runs list --status failure
  windlass runs show 1f2e3d4c
  windlass runs tail 1f2e3d4c

The end of an ID is enough.")]
pub(crate) struct RunsCommand {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Lists runs, newest first.
    List {
        /// Only runs of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// Only runs with this status or outcome.
        #[arg(long, value_parser = status_parser())]
        status: Option<String>,
        /// Maximum number of runs.
        #[arg(long, default_value_t = 20, value_parser = count)]
        limit: usize,
    },
    /// Shows the records of a run.
    Show {
        /// ID of the run, or the end of it.
        run_id: String,
    },
    /// Shows the records of a run and follows new ones until it ends.
    Tail {
        /// ID of the run, or the end of it.
        run_id: String,
    },
}

/// Returns the outcome of a run, or the status of a run without one.
fn status_name(run: &RunSummary) -> &'static str {
    run.outcome
        .map_or(run.status.as_str(), OutcomeStatus::as_str)
}

/// Returns whether a run has a status or an outcome of this name.
fn has_status(run: &RunSummary, name: &str) -> bool {
    run.status.as_str() == name || status_name(run) == name
}

/// Accepts the names of statuses and outcomes.
fn status_parser() -> PossibleValuesParser {
    let statuses = RunStatus::ALL.map(RunStatus::as_str);
    let outcomes = OutcomeStatus::ALL.map(OutcomeStatus::as_str);
    PossibleValuesParser::new(statuses.into_iter().chain(outcomes))
}

impl RunsCommand {
    pub(crate) async fn run(self) -> anyhow::Result<ExitCode> {
        let directory = self.options.directory()?;
        if !data::has_store(&directory)? {
            let shown = printable(&directory);
            let none = format!("there are no runs in {shown} yet; {ADVICE}");
            if let Subcommand::List { .. } = self.subcommand {
                note(&none);
                return Ok(ExitCode::SUCCESS);
            }
            bail!(none);
        }
        let runs = open(&directory).await?;
        let mut out = std::io::stdout();
        match self.subcommand {
            Subcommand::List {
                agent,
                status,
                limit,
            } => {
                let is_filtered = agent.is_some() || status.is_some();
                let found = list(&runs, agent, status.as_deref(), limit).await?;
                let summaries: Vec<_> = found.iter().map(AnyRun::summary).collect();
                match (self.options.json, summaries.is_empty()) {
                    (true, _) => write_json_lines(&mut out, summaries)?,
                    (false, true) if is_filtered => note("no run matches"),
                    (false, true) => note(format!("there are no runs yet; {ADVICE}")),
                    (false, false) => write_table(&summaries, Listing::for_stdout(), &mut out)?,
                }
            }
            Subcommand::Show { run_id } => {
                let run = find(&runs, &run_id).await?;
                show_after(&runs, &run, &mut 0, self.options.json, &mut out).await?;
            }
            Subcommand::Tail { run_id } => {
                let run = find(&runs, &run_id).await?;
                let mut seen = 0;
                while !show_after(&runs, &run, &mut seen, self.options.json, &mut out).await? {
                    tokio::time::sleep(POLL_INTERVAL).await;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

/// Opens the runs of a data directory read-only. A daemon may be running on it.
async fn open(directory: &Path) -> anyhow::Result<AllRuns> {
    let store = SqliteStore::open_read_only(SqliteOptions::new(directory)).await;
    let store = store.with_context(|| format!("cannot read {}", printable(directory)))?;
    let turns = ThreadTurns {
        journal: Arc::new(store.journal()),
        queries: Arc::new(store.queries()),
    };
    let limits = RunLimits::default();
    Ok(AllRuns::new(Arc::new(store.runs()), Some(turns), limits))
}

/// Returns the newest runs of a data directory.
pub(crate) async fn newest(directory: &Path, limit: usize) -> anyhow::Result<Vec<RunSummary>> {
    let found = list(&open(directory).await?, None, None, limit).await?;
    Ok(found.iter().map(|run| run.summary().clone()).collect())
}

/// Lists the newest runs that match the filters.
async fn list(
    runs: &AllRuns,
    agent: Option<String>,
    status: Option<&str>,
    limit: usize,
) -> anyhow::Result<Vec<AnyRun>> {
    let mut filter = RunFilter {
        agent_id: agent,
        // The store cannot filter by outcome.
        status: RunStatus::ALL
            .into_iter()
            .find(|it| Some(it.as_str()) == status),
        ..RunFilter::default()
    };
    let mut found = Vec::new();
    while found.len() < limit {
        let page = runs.list(filter.clone(), PAGE_RECORDS).await?;
        let Some(last) = page.last() else { break };
        filter.before = Some(last.position());
        let is_wanted =
            |run: &AnyRun| status.is_none_or(|status| has_status(run.summary(), status));
        found.extend(page.into_iter().filter(is_wanted));
    }
    found.truncate(limit);
    Ok(found)
}

/// Finds a run by its ID or the end of the ID.
async fn find(runs: &AllRuns, run_id: &str) -> anyhow::Result<AnyRun> {
    if let Some(run) = runs.get(run_id).await? {
        return Ok(run);
    }
    let all = list(runs, None, None, SEARCHED).await?;
    let advice = "`windlass runs list` shows the newest runs";
    by_end("run", run_id, all, |run| &run.summary().run_id, advice)
}

/// Shows the records after `seen`; returns whether the run has ended.
async fn show_after(
    runs: &AllRuns,
    run: &AnyRun,
    seen: &mut u64,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    loop {
        let page = runs.read(run, *seen, PAGE_RECORDS, PAGE_BYTES).await?;
        if page.head == 0 {
            bail!("run `{}` was removed", run.summary().run_id);
        }
        for record in &page.records {
            write_value(out, json, record, &line_of_record(record))?;
        }
        out.flush()?;
        *seen += page.records.len() as u64;
        if let Some(RunRecord::Ended(_)) = page.records.last() {
            return Ok(true);
        }
        if *seen >= page.head {
            return Ok(false);
        }
    }
}

/// Help for users who have no runs yet.
const ADVICE: &str =
    "every turn creates one (`windlass run \"…\"`), and programs report their own (docs/runs.md)";

fn write_table(runs: &[&RunSummary], listing: Listing, out: &mut impl Write) -> io::Result<()> {
    let statuses = runs.iter().map(|run| status_name(run).len());
    let columns = [
        ("ID", 8),
        ("STARTED", 16),
        ("STATUS", statuses.max().unwrap_or(0).max("STATUS".len())),
        ("TURNS", 5),
        ("AGENT", AGENT_WIDTH),
        ("INTENT", 0),
    ];
    let rows = runs.iter().map(|run| {
        [
            short(&run.run_id).to_owned(),
            run.started_at.format("%Y-%m-%d %H:%M").to_string(),
            status_name(run).to_owned(),
            format!("{:>5}", run.turn_count),
            run.agent_id.clone(),
            run.intent.lines().next().unwrap_or_default().to_owned(),
        ]
    });
    listing.write(out, columns, rows)
}

fn line_of_record(record: &RunRecord) -> String {
    let compact = |value: &Option<Value>| match value {
        Some(value) => first_line(&value.to_string()),
        None => String::new(),
    };
    match record {
        RunRecord::Started(started) => {
            format!(
                "{}  started by {}: {}",
                started.started_at, started.agent_id, started.intent
            )
        }
        RunRecord::Turn(turn) => format!(
            "{:>5}  {} {} -> {}",
            turn.index,
            turn.tool.as_deref().unwrap_or("-"),
            compact(&turn.parameters),
            compact(&turn.output)
        ),
        RunRecord::ModelTurn(turn) => {
            format!(
                "{:>5}  {}: {}",
                turn.index,
                turn.model_id,
                first_line(&turn.assistant_text)
            )
        }
        RunRecord::Ended(ended) => {
            let how = json!(ended.termination);
            let how = how["status"].as_str().or(how["kind"].as_str());
            format!("{}  ended: {}", ended.ended_at, how.unwrap_or_default())
        }
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    if line.chars().count() > MAX_TEXT_WIDTH {
        let shown: String = line.chars().take(MAX_TEXT_WIDTH).collect();
        shown + Style::for_stdout().dots()
    } else {
        line.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::width_of;

    fn run(agent: &str, outcome: Option<&str>, intent: &str) -> RunSummary {
        let status = if outcome.is_some() {
            "completed"
        } else {
            "in_progress"
        };
        serde_json::from_value(json!({
            "run_id": "turn_01a1e9ef9c2779cea64903e2bdb32cf3", "agent_id": agent, "intent": intent,
            "started_at": "2026-11-17T14:35:56Z", "status": status, "outcome": outcome, "turn_count": 1,
        }))
        .unwrap()
    }

    fn table(runs: &[&RunSummary], listing: Listing) -> Vec<String> {
        let mut out = Vec::new();
        write_table(runs, listing, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn list_has_a_header_and_fits_eighty_columns() {
        let runs = [
            run("windlass:main", Some("success"), "hi"),
            run(
                "an-agent-with-a-long-name",
                None,
                &"漢字 and more ".repeat(20),
            ),
        ];
        let lines = table(&[&runs[0], &runs[1]], Listing::with_width(80));
        assert_eq!(
            lines,
            [
                "ID        STARTED           STATUS       TURNS  AGENT          INTENT",
                "bdb32cf3  2026-11-17 14:35  success          1  windlass:main  hi",
                "bdb32cf3  2026-11-17 14:35  in_progress      1  an-agent-w...  漢字 and more ...",
            ]
        );
        let longest = run("agent", Some("partial_success"), &"x".repeat(200));
        for line in table(&[&longest], Listing::with_width(80)) {
            assert!(width_of(&line) <= 80, "{line}");
        }
        let whole = table(&[&runs[1]], Listing::FOR_PIPE).join("\n");
        assert!(
            whole.contains("an-agent-with-a-long-name")
                && whole.ends_with(runs[1].intent.trim_end()),
            "{whole}"
        );
    }

    #[test]
    fn status_and_outcome_are_filters() {
        let done = run("a", Some("give_up"), "x");
        assert!(has_status(&done, status_name(&done)));
        assert!(has_status(&done, "completed"));
        assert!(!has_status(&done, "success"));
    }
}
