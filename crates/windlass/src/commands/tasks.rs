//! `windlass tasks`: unattended work in the daemon's queue.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::operations::{CommaList, QueryValue, TasksQuery};
use windlass_protocol::{Call, CreateTask, TaskRecord, TaskStatus, TaskSummary, TaskToolStatus};

use crate::calls::by_id;
use crate::cli::{note, without_code};
use crate::commands::job_args::{self, JobArgs, refused};
use crate::connect::DaemonConnection;
use crate::follow::once;
use crate::ids::{by_end, short};
use crate::inert_json::json_line;
use crate::terminal::{Listing, time};

const ADVICE: &str = "`windlass tasks list` shows them";
const NONE_YET: &str = "there are no tasks yet; `windlass tasks add \"…\"` queues one";
/// Number of newest tasks that are searched for the suffix of an ID; this is the maximum page size of the API.
const LOOKED_THROUGH: u64 = 500;

/// Queues work that nobody sits beside, and shows what became of it. `windlass serve` carries it out.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass tasks add --yes \"Write release notes into NOTES.md\"
  git log -20 | windlass tasks add -
  windlass tasks list --status queued,running
  windlass tasks show 1f2e3d4c
  windlass tasks cancel 1f2e3d4c

The end of an id will do wherever one is asked for. Where no daemon runs, a task is queued all the same; it waits until `windlass serve` runs.")]
pub(crate) struct Tasks {
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
    /// Queues a task, and writes its id.
    Add {
        /// What to do; `-` reads it from standard input.
        prompt: String,
        #[command(flatten)]
        job: JobArgs,
        /// The directory to work in, in the workspace of the daemon that carries it out [default: the current one].
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
    },
    /// Lists tasks, the newest first.
    List {
        /// How many at most, 1 to 500.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Only those that are there: queued, running, completed, failed or canceled, with commas between.
        #[arg(long, value_delimiter = ',', value_parser = ["queued", "running", "completed", "failed", "canceled"])]
        status: Vec<String>,
    },
    /// Shows a task, and what came of it.
    Show {
        /// The task.
        id: String,
    },
    /// Calls a task off. What it has done stays.
    Cancel {
        /// The task.
        id: String,
    },
}

impl Tasks {
    pub(crate) async fn run(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let is_add = matches!(self.subcommand, Subcommand::Add { .. });
        let is_list = matches!(self.subcommand, Subcommand::List { .. });
        if !is_add && job_args::is_empty(self.data.clone(), "tasks", is_list)? {
            note(NONE_YET);
            return Ok(ExitCode::SUCCESS);
        }
        // Standard input is read first: other commands cannot use the data directory while it is open.
        let wanted = match &self.subcommand {
            Subcommand::Add { prompt, job, cwd } => {
                let place = job_args::place(cwd.as_deref(), workspace.as_deref())?;
                Some(wanted(prompt, job, place)?)
            }
            _ => None,
        };
        let place = wanted.as_ref().and_then(|wanted| wanted.workspace.as_ref());
        let workspace = workspace.or_else(|| place.map(PathBuf::from));
        let daemon = job_args::connect(self.data.clone(), workspace, config).await?;
        let done = self.on(&daemon, wanted).await;
        daemon.leave().await;
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn on(self, daemon: &DaemonConnection, wanted: Option<CreateTask>) -> Result<()> {
        let api = daemon.api();
        let mut out = io::stdout();
        match self.subcommand {
            Subcommand::Add { .. } => {
                let wanted = wanted.unwrap_or_default();
                let place = wanted.workspace.clone().unwrap_or_default();
                let call = Call::new((), wanted);
                let made = match once(daemon, call, |api, call| api.create_task(call)).await? {
                    Ok(made) => made,
                    Err(error) => {
                        return Err(job_args::not_queued(daemon, &place, error).await);
                    }
                };
                if self.json {
                    writeln!(out, "{}", json_line(&made)?)?
                } else {
                    writeln!(out, "{}", made.id)?
                }
                job_args::tell_if_unbegun(
                    daemon,
                    "the task is queued, and begins",
                    &made.workspace,
                )
                .await;
            }
            Subcommand::List { limit, status } => {
                let statuses = status.iter().filter_map(|word| TaskStatus::parse(word));
                let query = TasksQuery {
                    limit: Some(limit.into()),
                    status: (!status.is_empty()).then(|| CommaList(statuses.collect())),
                    ..TasksQuery::default()
                };
                let found = api.list_tasks(Call::new((), ()).with_query(query)).await;
                let found = found.map_err(refused)?;
                if self.json {
                    for task in &found.tasks {
                        writeln!(out, "{}", json_line(task)?)?;
                    }
                } else {
                    list(&found.tasks, !status.is_empty(), &mut out)?;
                    if found.tasks.iter().any(|task| is_open(task.status)) {
                        job_args::tell_if_unattended(daemon, "what is open goes on").await;
                    }
                }
            }
            Subcommand::Show { id } => {
                let path = by_id(&find(daemon, &id).await?);
                let task = api.get_task(Call::new(path, ())).await.map_err(refused)?;
                if self.json {
                    // Sorts the fields by name.
                    writeln!(out, "{}", json_line(&serde_json::to_value(&task)?)?)?
                } else {
                    show(&task, daemon.is_own().await, &mut out)?
                }
            }
            Subcommand::Cancel { id } => {
                let path = by_id(&find(daemon, &id).await?);
                let task = api
                    .cancel_task(Call::new(path, ()))
                    .await
                    .map_err(refused)?;
                if self.json {
                    writeln!(out, "{}", json_line(&task)?)?
                } else {
                    tell_canceled(&task)
                }
                if is_open(task.status) {
                    job_args::tell_if_unattended(daemon, "it ends").await;
                }
            }
        }
        Ok(out.flush()?)
    }
}

fn wanted(prompt: &str, job: &JobArgs, place: String) -> Result<CreateTask> {
    let task = CreateTask {
        prompt: job_args::prompt(prompt)?,
        workspace: Some(place),
        max_attempts: job.attempts,
        ..CreateTask::default()
    };
    Ok(task.with_policy(&job.policy()))
}

fn is_open(status: TaskStatus) -> bool {
    matches!(status, TaskStatus::Queued | TaskStatus::Running)
}

/// Finds a task by its ID or a suffix of the ID.
async fn find(daemon: &DaemonConnection, id: &str) -> Result<String> {
    if job_args::is_whole("task_", id, ADVICE)? {
        return Ok(id.to_owned());
    }
    let query = TasksQuery {
        limit: Some(LOOKED_THROUGH),
        ..TasksQuery::default()
    };
    let found = daemon
        .api()
        .list_tasks(Call::new((), ()).with_query(query))
        .await;
    let found = found.map_err(refused)?;
    Ok(by_end("task", id, found.tasks, |task| &task.id, ADVICE)?.id)
}

fn list(tasks: &[TaskSummary], is_filtered: bool, out: &mut impl Write) -> Result<()> {
    if tasks.is_empty() {
        note(if is_filtered {
            "no task is like that"
        } else {
            NONE_YET
        });
        return Ok(());
    }
    let listing = Listing::of_stdout();
    let line = |id: &str, queued: &str, status: &str, model: &str, prompt: &str| {
        let model = listing.column(model, 16);
        let line = format!("{id:<8}  {queued:<16}  {status:<9}  {model:<16}  {prompt}");
        listing.line(&line)
    };
    writeln!(out, "{}", line("ID", "QUEUED", "STATUS", "MODEL", "PROMPT"))?;
    for task in tasks {
        let line = line(
            &one_line(short(&task.id)),
            &job_args::minute(&task.created_at),
            &job_args::status_of(task.status, task.held.as_ref(), task.unapproved_calls),
            &one_line(&task.model),
            &one_line(&task.prompt_summary),
        );
        writeln!(out, "{line}")?;
    }
    Ok(())
}

/// Formats a task as text. An in-process daemon does not know the defaults of the daemon that will run the task.
fn show(task: &TaskRecord, is_own: bool, out: &mut impl Write) -> Result<()> {
    writeln!(out, "task     {}", one_line(&task.id))?;
    let status = job_args::status_of(task.status, task.held.as_ref(), task.unapproved_calls);
    writeln!(out, "status   {status}")?;
    if let Some(calls) = &task.unapproved_calls {
        writeln!(out, "skipped  {}", job_args::unapproved(*calls))?;
    }
    if let Some(retry_at) = task.held.as_ref().and_then(|held| held.retry_at.as_ref()) {
        writeln!(out, "retry    {} UTC", job_args::minute(retry_at))?;
    }
    if !is_own {
        writeln!(out, "in       {}", one_line(&task.workspace))?;
        let by = task.backend.as_ref().unwrap_or(&task.model);
        writeln!(out, "with     {}", one_line(by))?;
    }
    writeln!(out, "queued   {}", job_args::minute(&task.created_at))?;
    if let Some(took) = task.duration_ms {
        writeln!(out, "took     {}", time(Duration::from_millis(took)))?;
    }
    if task.attempt_count > 1 {
        let (count, most) = (task.attempt_count, task.max_attempts);
        writeln!(out, "attempt  {count} of {most}")?;
    }
    if let Some(thread) = &task.thread_id {
        writeln!(out, "thread   {}", one_line(thread))?;
    }
    writeln!(out, "\n> {}", lines(&task.prompt))?;
    for call in &task.tool_calls {
        let about = call.input_summary.as_deref().unwrap_or_default();
        let how = match call.status {
            TaskToolStatus::Running => "running",
            TaskToolStatus::Success => "completed",
            TaskToolStatus::Failed => "failed",
            TaskToolStatus::Canceled => "interrupted",
        };
        let (name, about) = (one_line(&call.name), one_line(about));
        writeln!(out, "\n[{name}] {about}  ({how})")?;
    }
    if let Some(result) = &task.result_summary {
        writeln!(out, "\n{}", lines(result))?;
    }
    if let Some(error) = &task.error {
        let what = if task.held.is_some() {
            "held"
        } else {
            "failed"
        };
        writeln!(out, "\n[{what}] {}", lines(without_code(error)))?;
    }
    Ok(())
}

fn tell_canceled(task: &TaskRecord) {
    let id = short(&task.id);
    note(&match task.status {
        TaskStatus::Canceled => format!("{id} is called off"),
        TaskStatus::Queued | TaskStatus::Running => {
            format!("{id} is called off, and ends when its turn has")
        }
        TaskStatus::Completed | TaskStatus::Failed => {
            format!("{id} had ended before: {}", job_args::status(task.status))
        }
    });
}
