//! `windlass automations`: tasks by a schedule.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Result;
use clap::{Args, Subcommand, ValueEnum};
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::operations::AutomationRunsQuery;
use windlass_protocol::{
    AutomationRecord, AutomationRunRecord, AutomationStatus, Call, CreateAutomation, MissedRuns,
};

use crate::calls::by_id;
use crate::cli::{FAILED, note, without_code};
use crate::commands::working::{self, Working, refused};
use crate::follow::once;
use crate::ids::{by_end, short};
use crate::inert_json::json_line;
use crate::reach::Link;
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
    word: Verb,
}

#[derive(Subcommand)]
enum Verb {
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
    working: Working,
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
        let place = working::place(self.cwd.as_deref(), workspace)?;
        let automation = CreateAutomation {
            name: self.name.clone(),
            prompt: working::prompt(&self.prompt)?,
            rrule: self.rule.clone(),
            cwds: vec![place],
            status: match self.paused {
                true => AutomationStatus::Paused,
                false => AutomationStatus::Active,
            },
            time_zone: self.time_zone.clone(),
            missed: Some(match self.missed {
                Missed::Skip => MissedRuns::Skip,
                Missed::Once => MissedRuns::Once,
                Missed::All => MissedRuns::All,
            }),
            max_attempts: self.working.attempts,
            ..CreateAutomation::default()
        };
        Ok(automation.with_policy(&self.working.policy()))
    }
}

impl Automations {
    pub(crate) async fn carry_out(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let is_add = matches!(self.word, Verb::Add(_));
        let is_list = matches!(self.word, Verb::List);
        if !is_add && working::is_empty(self.data.clone(), "automations", is_list)? {
            note(NONE_YET);
            return Ok(ExitCode::SUCCESS);
        }
        // What somebody is asked, or says on standard input, comes before others have to wait for the data.
        let wanted = match &self.word {
            Verb::Add(add) => Some(add.wanted(workspace.as_deref())?),
            Verb::Delete { id, yes: false } => {
                if !working::is_meant("automation", id)? {
                    return Ok(ExitCode::from(FAILED));
                }
                None
            }
            _ => None,
        };
        let place = wanted.as_ref().and_then(|wanted| wanted.cwds.first());
        let workspace = workspace.or_else(|| place.map(PathBuf::from));
        let link = working::link(self.data.clone(), workspace, config).await?;
        let done = self.on(&link, wanted).await;
        link.leave().await;
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn on(self, link: &Link, wanted: Option<CreateAutomation>) -> Result<()> {
        let (api, is_json) = (link.api(), self.json);
        let mut out = io::stdout();
        match self.word {
            Verb::Add(_) => {
                let body = wanted.unwrap_or_default();
                let place = body.cwds.first().cloned().unwrap_or_default();
                let call = Call::new((), body);
                let made = match once(link, call, |api, call| api.create_automation(call)).await? {
                    Ok(made) => made,
                    Err(error) => return Err(working::not_queued(link, &place, error).await),
                };
                match is_json {
                    true => writeln!(out, "{}", json_line(&made)?)?,
                    false => {
                        writeln!(out, "{}", made.id)?;
                        tell_next(&made);
                    }
                }
                working::tell_if_unbegun(link, "its times come", &place).await;
            }
            Verb::List => {
                let found = api.list_automations(Call::new((), ())).await;
                let found = found.map_err(refused)?.entries;
                match is_json {
                    true => {
                        for one in &found {
                            writeln!(out, "{}", json_line(one)?)?;
                        }
                    }
                    false => list(&found, &mut out)?,
                }
            }
            Verb::Show { id } => {
                let path = by_id(&find(link, &id).await?);
                let found = api.get_automation(Call::new(path, ())).await;
                let found = found.map_err(refused)?;
                match is_json {
                    true => writeln!(out, "{}", json_line(&found)?)?,
                    false => show(&found, &mut out)?,
                }
            }
            Verb::Pause { id } => {
                let path = by_id(&find(link, &id).await?);
                let paused = api.pause_automation(Call::new(path, ())).await;
                switched(&paused.map_err(refused)?, is_json, &mut out)?;
            }
            Verb::Resume { id } => {
                let path = by_id(&find(link, &id).await?);
                let resumed = api.resume_automation(Call::new(path, ())).await;
                switched(&resumed.map_err(refused)?, is_json, &mut out)?;
                working::tell_if_unattended(link, "its times come").await;
            }
            Verb::Run { id } => {
                let call = Call::new(by_id(&find(link, &id).await?), ());
                let run = once(link, call, |api, call| api.run_automation(call)).await?;
                let run = run.map_err(refused)?;
                match (is_json, &run.task_id) {
                    (true, _) => writeln!(out, "{}", json_line(&run)?)?,
                    (false, Some(task)) => writeln!(out, "{task}")?,
                    (false, None) => writeln!(out, "{}", run.id)?,
                }
                working::tell_if_unattended(link, "the task is queued, and begins").await;
            }
            Verb::Delete { id, .. } => {
                let path = by_id(&find(link, &id).await?);
                let deleted = api.delete_automation(Call::new(path, ())).await;
                deleted.map_err(refused)?;
            }
            Verb::Runs { id, limit } => {
                let limit = Some(limit.into());
                let call = Call::new(by_id(&find(link, &id).await?), ())
                    .with_query(AutomationRunsQuery { limit });
                let runs = api.list_automation_runs(call).await;
                let runs = runs.map_err(refused)?.entries;
                match is_json {
                    true => {
                        for run in &runs {
                            writeln!(out, "{}", json_line(run)?)?;
                        }
                    }
                    false => list_runs(&runs, &mut out)?,
                }
            }
        }
        Ok(out.flush()?)
    }
}

/// Finds an automation by its id, or by the end of it.
async fn find(link: &Link, id: &str) -> Result<String> {
    if working::is_whole("auto_", id, ADVICE)? {
        return Ok(id.to_owned());
    }
    let found = link.api().list_automations(Call::new((), ())).await;
    let found = found.map_err(refused)?.entries;
    Ok(by_end("automation", id, found, |one| &one.id, ADVICE)?.id)
}

/// Shows an automation that was paused or resumed.
fn switched(after: &AutomationRecord, is_json: bool, out: &mut impl Write) -> Result<()> {
    match is_json {
        // The fields in the order of their names.
        true => writeln!(out, "{}", json_line(&serde_json::to_value(after)?)?)?,
        false => tell_next(after),
    }
    Ok(())
}

/// Says when an automation runs next.
fn tell_next(one: &AutomationRecord) {
    let id = short(&one.id);
    note(&match &one.next_run_at {
        Some(next) => format!("{id} runs next at {} UTC", working::minute(next)),
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
        let next = one.next_run_at.as_deref().map(working::minute);
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
        writeln!(out, "last        {} UTC", working::minute(last))?;
    }
    if let Some(next) = &one.next_run_at {
        writeln!(out, "next        {} UTC", working::minute(next))?;
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
            &working::minute(&run.scheduled_for),
            &working::status_of(run.status, run.held.as_ref(), run.unapproved_calls),
            &id(&run.task_id),
            &id(&run.thread_id),
            &one_line(without_code(run.error.as_deref().unwrap_or_default())),
        );
        writeln!(out, "{line}")?;
    }
    Ok(())
}
