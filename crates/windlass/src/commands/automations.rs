//! `windlass automations`: tasks that run on a schedule.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::operations::AutomationRunsQuery;
use windlass_protocol::{
    AutomationRecord, AutomationRunRecord, AutomationStatus, Call, CreateAutomation, MissedRuns,
};

use crate::calls::by_id;
use crate::cli::{FAILED, note, without_code};
use crate::commands::job_args::{self, JobArgs, refused};
use crate::connect::DaemonConnection;
use crate::follow::once;
use crate::ids::{by_end, short};
use crate::inert_json::json_line;
use crate::terminal::Listing;

const ADVICE: &str = "`windlass automations list` shows them";
const NONE_YET: &str = "there are no automations yet; `windlass automations add` makes one";

/// Queues tasks by a schedule. `windlass serve` carries them out.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass automations add Nightly \"Run the tests and say what broke\" \\
    --rule \"FREQ=WEEKLY;BYDAY=MO,WE,FR;BYHOUR=2;BYMINUTE=30\"
  windlass automations add Watch \"Look at the log\" --rule \"0 */6 * * *\"
  windlass automations list
  windlass automations run 1f2e3d4c
  windlass automations runs 1f2e3d4c

The end of an id will do wherever one is asked for. Times come only while `windlass serve` runs; --missed says what becomes of the others.")]
pub(crate) struct Automations {
    /// The data directory [default: the user's own, under `$XDG_STATE_HOME/windlass`].
    #[arg(long, global = true, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
    /// Writes JSON.
    #[arg(long, global = true)]
    json: bool,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Makes an automation, and writes its id.
    Add(Box<Add>),
    /// Lists automations, the newest first.
    List,
    /// Shows an automation.
    Show {
        /// The automation.
        id: String,
    },
    /// Lets it run by itself no more. What is queued goes on.
    Pause {
        /// The automation.
        id: String,
    },
    /// Lets it run by itself again. Times that passed are not made up for.
    Resume {
        /// The automation.
        id: String,
    },
    /// Queues a run of it now, whatever its schedule says.
    Run {
        /// The automation.
        id: String,
    },
    /// Removes it. What is queued goes on.
    Delete {
        /// The automation.
        id: String,
        /// Does not ask.
        #[arg(long, short)]
        yes: bool,
    },
    /// Lists its runs, the newest first.
    Runs {
        /// The automation.
        id: String,
        /// How many at most, 1 to 500.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
}

#[derive(Args)]
struct Add {
    /// What people call it.
    name: String,
    /// What to do each time; `-` reads it from standard input.
    prompt: String,
    /// When: a cron expression such as `0 9 * * 1-5`, or an RRULE such as `FREQ=DAILY;BYHOUR=9;BYMINUTE=0`.
    #[arg(long, value_name = "RRULE")]
    rule: String,
    /// The time zone of the rule, such as Europe/Berlin [default: that of the daemon].
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// What becomes of times that passed while no daemon ran.
    #[arg(long, default_value = "once")]
    missed: Missed,
    /// Makes it so that it does not run by itself until it is resumed.
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    job: JobArgs,
    /// The directory to work in, in the workspace of the daemon that carries it out [default: the current one].
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

/// What becomes of times that passed.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Missed {
    /// They are left out.
    Skip,
    /// The last one is made up for.
    Once,
    /// All are made up for, the last thousand at most.
    All,
}

impl Add {
    fn wanted(&self, workspace: Option<&Path>) -> Result<CreateAutomation> {
        let place = job_args::place(self.cwd.as_deref(), workspace)?;
        let automation = CreateAutomation {
            name: self.name.clone(),
            prompt: job_args::prompt(&self.prompt)?,
            rrule: self.rule.clone(),
            cwds: vec![place],
            status: if self.paused {
                AutomationStatus::Paused
            } else {
                AutomationStatus::Active
            },
            time_zone: self.time_zone.clone(),
            missed: Some(match self.missed {
                Missed::Skip => MissedRuns::Skip,
                Missed::Once => MissedRuns::Once,
                Missed::All => MissedRuns::All,
            }),
            max_attempts: self.job.attempts,
            ..CreateAutomation::default()
        };
        Ok(automation.with_policy(&self.job.policy()))
    }
}

impl Automations {
    pub(crate) async fn run(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let is_add = matches!(self.subcommand, Subcommand::Add(_));
        let is_list = matches!(self.subcommand, Subcommand::List);
        if !is_add && job_args::is_empty(self.data.clone(), "automations", is_list)? {
            note(NONE_YET);
            return Ok(ExitCode::SUCCESS);
        }
        // Confirmations and standard input come first: other commands cannot use the data directory while it is open.
        let wanted = match &self.subcommand {
            Subcommand::Add(add) => Some(add.wanted(workspace.as_deref())?),
            Subcommand::Delete { id, yes: false } => {
                if !job_args::is_meant("automation", id)? {
                    return Ok(ExitCode::from(FAILED));
                }
                None
            }
            _ => None,
        };
        let place = wanted.as_ref().and_then(|wanted| wanted.cwds.first());
        let workspace = workspace.or_else(|| place.map(PathBuf::from));
        let daemon = job_args::connect(self.data.clone(), workspace, config).await?;
        let done = self.on(&daemon, wanted).await;
        daemon.leave().await;
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn on(self, daemon: &DaemonConnection, wanted: Option<CreateAutomation>) -> Result<()> {
        let (api, is_json) = (daemon.api(), self.json);
        let mut out = io::stdout();
        match self.subcommand {
            Subcommand::Add(_) => {
                let body = wanted.unwrap_or_default();
                let place = body.cwds.first().cloned().unwrap_or_default();
                let call = Call::new((), body);
                let made = match once(daemon, call, |api, call| api.create_automation(call)).await?
                {
                    Ok(made) => made,
                    Err(error) => return Err(job_args::not_queued(daemon, &place, error).await),
                };
                if is_json {
                    writeln!(out, "{}", json_line(&made)?)?
                } else {
                    writeln!(out, "{}", made.id)?;
                    tell_next(&made);
                }
                job_args::tell_if_unbegun(daemon, "its times come", &place).await;
            }
            Subcommand::List => {
                let found = api.list_automations(Call::new((), ())).await;
                let found = found.map_err(refused)?.entries;
                if is_json {
                    for one in &found {
                        writeln!(out, "{}", json_line(one)?)?;
                    }
                } else {
                    list(&found, &mut out)?
                }
            }
            Subcommand::Show { id } => {
                let path = by_id(&find(daemon, &id).await?);
                let found = api.get_automation(Call::new(path, ())).await;
                let found = found.map_err(refused)?;
                if is_json {
                    writeln!(out, "{}", json_line(&found)?)?
                } else {
                    show(&found, &mut out)?
                }
            }
            Subcommand::Pause { id } => {
                let path = by_id(&find(daemon, &id).await?);
                let paused = api.pause_automation(Call::new(path, ())).await;
                switched(&paused.map_err(refused)?, is_json, &mut out)?;
            }
            Subcommand::Resume { id } => {
                let path = by_id(&find(daemon, &id).await?);
                let resumed = api.resume_automation(Call::new(path, ())).await;
                switched(&resumed.map_err(refused)?, is_json, &mut out)?;
                job_args::tell_if_unattended(daemon, "its times come").await;
            }
            Subcommand::Run { id } => {
                let call = Call::new(by_id(&find(daemon, &id).await?), ());
                let run = once(daemon, call, |api, call| api.run_automation(call)).await?;
                let run = run.map_err(refused)?;
                match (is_json, &run.task_id) {
                    (true, _) => writeln!(out, "{}", json_line(&run)?)?,
                    (false, Some(task)) => writeln!(out, "{task}")?,
                    (false, None) => writeln!(out, "{}", run.id)?,
                }
                job_args::tell_if_unattended(daemon, "the task is queued, and begins").await;
            }
            Subcommand::Delete { id, .. } => {
                let path = by_id(&find(daemon, &id).await?);
                let deleted = api.delete_automation(Call::new(path, ())).await;
                deleted.map_err(refused)?;
            }
            Subcommand::Runs { id, limit } => {
                let limit = Some(limit.into());
                let call = Call::new(by_id(&find(daemon, &id).await?), ())
                    .with_query(AutomationRunsQuery { limit });
                let runs = api.list_automation_runs(call).await;
                let runs = runs.map_err(refused)?.entries;
                if is_json {
                    for run in &runs {
                        writeln!(out, "{}", json_line(run)?)?;
                    }
                } else {
                    list_runs(&runs, &mut out)?
                }
            }
        }
        Ok(out.flush()?)
    }
}

/// Finds an automation by its ID or a suffix of the ID.
async fn find(daemon: &DaemonConnection, id: &str) -> Result<String> {
    if job_args::is_whole("auto_", id, ADVICE)? {
        return Ok(id.to_owned());
    }
    let found = daemon.api().list_automations(Call::new((), ())).await;
    let found = found.map_err(refused)?.entries;
    Ok(by_end("automation", id, found, |one| &one.id, ADVICE)?.id)
}

/// Shows an automation after it was paused or resumed.
fn switched(after: &AutomationRecord, is_json: bool, out: &mut impl Write) -> Result<()> {
    if is_json {
        // Sorts the fields by name.
        writeln!(out, "{}", json_line(&serde_json::to_value(after)?)?)?
    } else {
        tell_next(after)
    }
    Ok(())
}

/// Reports when an automation runs next.
fn tell_next(one: &AutomationRecord) {
    let id = short(&one.id);
    note(&match &one.next_run_at {
        Some(next) => format!("{id} runs next at {} UTC", job_args::minute(next)),
        None => format!("{id} is paused; `windlass automations resume {id}` lets it run"),
    });
}

fn status(status: AutomationStatus) -> &'static str {
    match status {
        AutomationStatus::Active => "active",
        AutomationStatus::Paused => "paused",
    }
}

fn list(all: &[AutomationRecord], out: &mut impl Write) -> Result<()> {
    if all.is_empty() {
        note(NONE_YET);
        return Ok(());
    }
    let listing = Listing::of_stdout();
    let line = |id: &str, status: &str, next: &str, name: &str, rule: &str| {
        let name = listing.column(name, 20);
        let line = format!("{id:<8}  {status:<6}  {next:<16}  {name:<20}  {rule}");
        listing.line(&line)
    };
    writeln!(
        out,
        "{}",
        line("ID", "STATUS", "NEXT (UTC)", "NAME", "RULE")
    )?;
    for one in all {
        let next = one.next_run_at.as_deref().map(job_args::minute);
        let line = line(
            &one_line(short(&one.id)),
            status(one.status),
            &next.unwrap_or_else(|| "-".to_owned()),
            &one_line(&one.name),
            &one_line(&one.rrule),
        );
        writeln!(out, "{line}")?;
    }
    Ok(())
}

fn show(one: &AutomationRecord, out: &mut impl Write) -> Result<()> {
    writeln!(out, "automation  {}", one_line(&one.id))?;
    writeln!(out, "name        {}", one_line(&one.name))?;
    writeln!(out, "status      {}", status(one.status))?;
    writeln!(out, "rule        {}", one_line(&one.rrule))?;
    if let Some(zone) = &one.time_zone {
        writeln!(out, "time zone   {}", one_line(zone))?;
    }
    for cwd in &one.cwds {
        writeln!(out, "in          {}", one_line(cwd))?;
    }
    if let Some(by) = one.backend.as_ref().or(one.model.as_ref()) {
        writeln!(out, "with        {}", one_line(by))?;
    }
    if let Some(last) = &one.last_run_at {
        writeln!(out, "last        {} UTC", job_args::minute(last))?;
    }
    if let Some(next) = &one.next_run_at {
        writeln!(out, "next        {} UTC", job_args::minute(next))?;
    }
    writeln!(out, "\n> {}", lines(&one.prompt))?;
    Ok(())
}

fn list_runs(runs: &[AutomationRunRecord], out: &mut impl Write) -> Result<()> {
    if runs.is_empty() {
        note("it has not run yet");
        return Ok(());
    }
    let listing = Listing::of_stdout();
    let line = |time: &str, status: &str, task: &str, thread: &str, error: &str| {
        let line = format!("{time:<16}  {status:<9}  {task:<8}  {thread:<8}  {error}");
        listing.line(&line)
    };
    writeln!(
        out,
        "{}",
        line("FOR (UTC)", "STATUS", "TASK", "THREAD", "ERROR")
    )?;
    for run in runs {
        let id = |id: &Option<String>| match id {
            Some(id) => one_line(short(id)).into_owned(),
            None => "-".to_owned(),
        };
        let line = line(
            &job_args::minute(&run.scheduled_for),
            &job_args::status_of(run.status, run.held.as_ref(), run.unapproved_calls),
            &id(&run.task_id),
            &id(&run.thread_id),
            &one_line(without_code(run.error.as_deref().unwrap_or_default())),
        );
        writeln!(out, "{line}")?;
    }
    Ok(())
}
