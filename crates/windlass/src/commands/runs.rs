//! `windlass runs`: what agents did, read from the data of a daemon, whether one runs on it or not.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use windlass_core::bounds::one_line;
use windlass_core::runs::{RunRecord, RunStatus, RunSummary};
use windlass_runs::{AllRuns, AnyRun, OwnTurns, RunLimits};
use windlass_runtime::{SqliteOptions, SqliteStore};
use windlass_store::RunFilter;

use crate::data;

/// How many records are read at a time.
const PAGE: usize = 200;
/// How many bytes of records are read at a time.
const PAGE_BYTES: usize = 4 * 1024 * 1024;
/// How often a run that goes on is looked at.
const LOOK: Duration = Duration::from_millis(200);
/// How much of an intent a line shows.
const SHOWN: usize = 60;

/// Shows the runs of a data directory.
#[derive(Args)]
pub(crate) struct Runs {
    /// The data directory of the daemon [default: the user's own].
    #[arg(long, global = true, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes lines of JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    word: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Lists runs, the newest first.
    List {
        /// Only those of this agent.
        #[arg(long)]
        agent: Option<String>,
        /// Only those.
        #[arg(long)]
        status: Option<Status>,
        /// How many at most.
        #[arg(long, default_value_t = 20)]
        limit: usize,
    },
    /// Shows the records of a run.
    Show {
        /// The run.
        run_id: String,
    },
    /// Shows the records of a run as they come, until it ends.
    Tail {
        /// The run.
        run_id: String,
    },
}

#[derive(Clone, Copy, ValueEnum)]
#[value(rename_all = "snake_case")]
enum Status {
    InProgress,
    Completed,
    Incomplete,
    Cancelled,
}

impl From<Status> for RunStatus {
    fn from(status: Status) -> Self {
        match status {
            Status::InProgress => Self::InProgress,
            Status::Completed => Self::Completed,
            Status::Incomplete => Self::Incomplete,
            Status::Cancelled => Self::Cancelled,
        }
    }
}

impl Runs {
    pub(crate) async fn carry_out(self) -> anyhow::Result<ExitCode> {
        let directory = data::directory(self.data);
        let opened = SqliteStore::open_read_only(SqliteOptions::new(&directory)).await;
        let store = opened.with_context(|| format!("no runs in {}", directory.display()))?;
        let turns = OwnTurns {
            journal: Arc::new(store.journal()),
            queries: Arc::new(store.queries()),
        };
        let runs = AllRuns::new(Arc::new(store.runs()), Some(turns), RunLimits::default());
        let mut out = std::io::stdout();
        match self.word {
            Verb::List {
                agent,
                status,
                limit,
            } => {
                let filter = RunFilter {
                    agent_id: agent,
                    status: status.map(RunStatus::from),
                    ..RunFilter::default()
                };
                for run in runs.list(filter, limit).await? {
                    let line = match self.json {
                        true => json!(run.summary()).to_string(),
                        false => one_line(&line_of_run(run.summary())).into_owned(),
                    };
                    writeln!(out, "{line}")?;
                }
            }
            Verb::Show { run_id } => {
                let run = found(&runs, &run_id).await?;
                show_after(&runs, &run, &mut 0, self.json, &mut out).await?;
            }
            Verb::Tail { run_id } => {
                let run = found(&runs, &run_id).await?;
                let mut seen = 0;
                while !show_after(&runs, &run, &mut seen, self.json, &mut out).await? {
                    tokio::time::sleep(LOOK).await;
                }
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}

async fn found(runs: &AllRuns, run_id: &str) -> anyhow::Result<AnyRun> {
    let run = runs.get(run_id).await?;
    run.with_context(|| {
        format!("there is no run `{run_id}`; `windlass runs list` shows those that are there")
    })
}

/// Shows what is there after a number; tells whether the run has ended.
async fn show_after(
    runs: &AllRuns,
    run: &AnyRun,
    seen: &mut u64,
    json: bool,
    out: &mut impl Write,
) -> anyhow::Result<bool> {
    loop {
        let page = runs.read(run, *seen, PAGE, PAGE_BYTES).await?;
        if page.head == 0 {
            bail!("run `{}` was removed", run.summary().run_id);
        }
        for record in &page.records {
            let line = match json {
                true => json!(record).to_string(),
                false => one_line(&line_of_record(record)).into_owned(),
            };
            writeln!(out, "{line}")?;
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

fn line_of_run(run: &RunSummary) -> String {
    let end = match run.outcome {
        Some(outcome) => outcome.as_str(),
        None => run.status.as_str(),
    };
    format!(
        "{}  {}  {end:<15} {:>4} turns  {}  {}",
        run.run_id,
        run.started_at.format("%Y-%m-%d %H:%M:%S"),
        run.turn_count,
        run.agent_id,
        first_line(&run.intent)
    )
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
    match line.chars().count() > SHOWN {
        true => line.chars().take(SHOWN).chain(['…']).collect(),
        false => line.to_owned(),
    }
}
