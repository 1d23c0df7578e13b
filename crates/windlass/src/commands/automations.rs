//! `windlass automations`: tasks that run on a schedule.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, ValueEnum};
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::operations::{AutomationRunsQuery, IdPath};
use windlass_protocol::{
    AutomationRecord, AutomationRunRecord, AutomationStatus, Call, CreateAutomation, MissedRuns,
};

use crate::cli::{FAILED, GlobalOptions, note, without_code};
use crate::client::calls::by_id;
use crate::client::connect::DaemonConnection;
use crate::client::follow::send_once;
use crate::client::ids::{by_end, is_complete, short};
use crate::commands::data_options::DataOptions;
use crate::commands::job_args::{self, JobArgs, job_error};
use crate::inert_json::{write_json, write_json_lines};
use crate::terminal::Listing;

const ADVICE: &str = "`windlass automations list` shows all automations";
const NONE_YET: &str = "there are no automations yet; `windlass automations add` creates one";

/// Queues tasks on a schedule. `windlass serve` runs them.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass automations add Nightly \"Run the tests and report failures\" \\
    --rule \"FREQ=WEEKLY;BYDAY=MO,WE,FR;BYHOUR=2;BYMINUTE=30\"
  windlass automations add Watch \"Check the log\" --rule \"0 */6 * * *\"
  windlass automations list
  windlass automations run 1f2e3d4c
  windlass automations runs 1f2e3d4c

The end of an ID is enough. Automations fire only while `windlass serve` runs; --missed decides what happens to times that pass otherwise.")]
pub(crate) struct Automations {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Creates an automation and prints its ID.
    Add(Box<Add>),
    /// Lists automations, newest first.
    List,
    /// Shows an automation.
    Show {
        /// ID of the automation.
        id: String,
    },
    /// Suspends its schedule. Queued runs continue.
    Pause {
        /// ID of the automation.
        id: String,
    },
    /// Resumes its schedule. Missed times are not run.
    Resume {
        /// ID of the automation.
        id: String,
    },
    /// Queues a run now, regardless of the schedule.
    Run {
        /// ID of the automation.
        id: String,
    },
    /// Deletes an automation. Queued runs continue.
    Delete {
        /// ID of the automation.
        id: String,
        /// Skips the confirmation.
        #[arg(long, short)]
        yes: bool,
    },
    /// Lists its runs, newest first.
    Runs {
        /// ID of the automation.
        id: String,
        /// Maximum number of runs, 1 to 500.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
    },
}

#[derive(Args)]
struct Add {
    /// Name that lists display.
    name: String,
    /// Prompt of each run; `-` reads it from standard input.
    prompt: String,
    /// Schedule: a cron expression such as `0 9 * * 1-5`, or an RRULE such as `FREQ=DAILY;BYHOUR=9;BYMINUTE=0`.
    #[arg(long, value_name = "RRULE")]
    rule: String,
    /// Time zone of the schedule, such as Europe/Berlin [default: the daemon's].
    #[arg(long, value_name = "ZONE")]
    time_zone: Option<String>,
    /// What happens to times that pass while no daemon runs.
    #[arg(long, default_value = "once")]
    missed: Missed,
    /// Creates the automation with its schedule suspended.
    #[arg(long)]
    paused: bool,
    #[command(flatten)]
    job: JobArgs,
    /// Working directory, in the workspace of the daemon that runs the automation [default: the current directory].
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
}

/// What happens to missed times.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum Missed {
    /// They are skipped.
    Skip,
    /// The last one runs.
    Once,
    /// All run, at most the last thousand.
    All,
}

impl Add {
    fn request(&self, workspace: Option<&Path>) -> Result<CreateAutomation> {
        let cwd = job_args::working_directory(self.cwd.as_deref(), workspace)?;
        let automation = CreateAutomation {
            name: self.name.clone(),
            prompt: job_args::prompt(&self.prompt)?,
            rrule: self.rule.clone(),
            cwds: vec![cwd],
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
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let GlobalOptions { workspace, config } = global;
        let is_add = matches!(self.subcommand, Subcommand::Add(_));
        let is_list = matches!(self.subcommand, Subcommand::List);
        if !is_add && job_args::is_empty(&self.options, "automations", is_list)? {
            note(NONE_YET);
            return Ok(ExitCode::SUCCESS);
        }
        // Confirmations and standard input come first: other commands cannot use the data directory while it is open.
        let request = match &self.subcommand {
            Subcommand::Add(add) => Some(add.request(workspace.as_deref())?),
            Subcommand::Delete { id, yes: false } => {
                if !job_args::confirm_removal("automation", id)? {
                    return Ok(ExitCode::from(FAILED));
                }
                None
            }
            _ => None,
        };
        let cwd = request.as_ref().and_then(|request| request.cwds.first());
        let workspace = workspace.or_else(|| cwd.map(PathBuf::from));
        let daemon = job_args::connect(&self.options, workspace, config).await?;
        let done = self.run_on(&daemon, request).await;
        daemon.close().await;
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn run_on(
        self,
        daemon: &DaemonConnection,
        request: Option<CreateAutomation>,
    ) -> Result<()> {
        let (api, is_json) = (daemon.api(), self.options.json);
        let mut out = io::stdout();
        match self.subcommand {
            Subcommand::Add(_) => {
                let request = request.unwrap_or_default();
                let cwd = request.cwds.first().cloned().unwrap_or_default();
                let call = Call::new((), request);
                let created = send_once(daemon, call, |api, call| api.create_automation(call));
                let created = match created.await? {
                    Ok(created) => created,
                    Err(error) => return Err(job_args::not_queued(daemon, &cwd, error).await),
                };
                if is_json {
                    write_json(&mut out, &created)?
                } else {
                    writeln!(out, "{}", created.id)?;
                    note_next_run(&created);
                }
                job_args::note_if_unattended(daemon, "it fires", Some(&cwd)).await;
            }
            Subcommand::List => {
                let page = api.list_automations(Call::new((), ())).await;
                let automations = page.map_err(job_error)?.entries;
                if is_json {
                    write_json_lines(&mut out, &automations)?
                } else {
                    list(&automations, &mut out)?
                }
            }
            Subcommand::Show { id } => {
                let call = Call::new(find(daemon, &id).await?, ());
                let automation = api.get_automation(call).await.map_err(job_error)?;
                if is_json {
                    write_json(&mut out, &automation)?
                } else {
                    show(&automation, &mut out)?
                }
            }
            Subcommand::Pause { id } => {
                let call = Call::new(find(daemon, &id).await?, ());
                let paused = api.pause_automation(call).await.map_err(job_error)?;
                show_next_run(&paused, is_json, &mut out)?;
            }
            Subcommand::Resume { id } => {
                let call = Call::new(find(daemon, &id).await?, ());
                let resumed = api.resume_automation(call).await.map_err(job_error)?;
                show_next_run(&resumed, is_json, &mut out)?;
                job_args::note_if_unattended(daemon, "it fires", None).await;
            }
            Subcommand::Run { id } => {
                let call = Call::new(find(daemon, &id).await?, ());
                let run = send_once(daemon, call, |api, call| api.run_automation(call)).await?;
                let run = run.map_err(job_error)?;
                if is_json {
                    write_json(&mut out, &run)?
                } else {
                    writeln!(out, "{}", run.task_id.as_ref().unwrap_or(&run.id))?
                }
                job_args::note_if_unattended(daemon, "the task is queued and starts", None).await;
            }
            Subcommand::Delete { id, .. } => {
                let call = Call::new(find(daemon, &id).await?, ());
                api.delete_automation(call).await.map_err(job_error)?;
            }
            Subcommand::Runs { id, limit } => {
                let limit = Some(limit.into());
                let call = Call::new(find(daemon, &id).await?, ())
                    .with_query(AutomationRunsQuery { limit });
                let page = api.list_automation_runs(call).await;
                let runs = page.map_err(job_error)?.entries;
                if is_json {
                    write_json_lines(&mut out, &runs)?
                } else {
                    list_runs(&runs, &mut out)?
                }
            }
        }
        Ok(out.flush()?)
    }
}

/// Finds an automation by its ID or the end of the ID.
async fn find(daemon: &DaemonConnection, id: &str) -> Result<IdPath> {
    if is_complete("auto_", id, ADVICE)? {
        return Ok(by_id(id));
    }
    let page = daemon.api().list_automations(Call::new((), ())).await;
    let all = page.map_err(job_error)?.entries;
    Ok(by_id(
        &by_end("automation", id, all, |it| &it.id, ADVICE)?.id,
    ))
}

/// Shows an automation after it was paused or resumed.
fn show_next_run(after: &AutomationRecord, is_json: bool, out: &mut impl Write) -> Result<()> {
    if is_json {
        // Sorts the fields by name.
        write_json(out, &serde_json::to_value(after)?)?
    } else {
        note_next_run(after)
    }
    Ok(())
}

/// Reports when an automation runs next.
fn note_next_run(one: &AutomationRecord) {
    let id = short(&one.id);
    note(&match &one.next_run_at {
        Some(next) => format!("{id} runs next at {} UTC", job_args::minute(next)),
        None => format!("{id} is paused; `windlass automations resume {id}` resumes it"),
    });
}

fn status(status: AutomationStatus) -> &'static str {
    match status {
        AutomationStatus::Active => "active",
        AutomationStatus::Paused => "paused",
    }
}

fn list(automations: &[AutomationRecord], out: &mut impl Write) -> Result<()> {
    if automations.is_empty() {
        note(NONE_YET);
        return Ok(());
    }
    let columns = [
        ("ID", 8),
        ("STATUS", 6),
        ("NEXT (UTC)", 16),
        ("NAME", 20),
        ("RULE", 0),
    ];
    let rows = automations.iter().map(|it| {
        let next = it.next_run_at.as_deref().map(job_args::minute);
        [
            short(&it.id).to_owned(),
            status(it.status).to_owned(),
            next.unwrap_or_else(|| "-".to_owned()),
            it.name.clone(),
            it.rrule.clone(),
        ]
    });
    Ok(Listing::for_stdout().write(out, columns, rows)?)
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
    let columns = [
        ("FOR (UTC)", 16),
        ("STATUS", 9),
        ("TASK", 8),
        ("THREAD", 8),
        ("ERROR", 0),
    ];
    let end = |id: &Option<String>| id.as_deref().map_or("-", short).to_owned();
    let rows = runs.iter().map(|run| {
        [
            job_args::minute(&run.scheduled_for),
            job_args::status_of(run.status, run.held.as_ref(), run.unapproved_calls),
            end(&run.task_id),
            end(&run.thread_id),
            without_code(run.error.as_deref().unwrap_or_default()).to_owned(),
        ]
    });
    Ok(Listing::for_stdout().write(out, columns, rows)?)
}
