//! `windlass tasks`: unattended work in the daemon's queue.

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Args;
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::operations::{CommaList, IdPath, QueryValue, TasksQuery};
use windlass_protocol::{Call, CreateTask, TaskRecord, TaskStatus, TaskSummary, TaskToolStatus};

use crate::cli::{GlobalOptions, note, without_code};
use crate::client::calls::by_id;
use crate::client::connect::DaemonConnection;
use crate::client::follow::send_once;
use crate::client::ids::{by_end, is_complete, short};
use crate::commands::data_options::DataOptions;
use crate::commands::job_args::{self, JobArgs, job_error};
use crate::inert_json::{write_json, write_json_lines};
use crate::terminal::{Listing, time};

const ADVICE: &str = "`windlass tasks list` shows the newest tasks";
const NONE_YET: &str = "there are no tasks yet; `windlass tasks add \"…\"` queues one";
/// Number of newest tasks that are searched for the end of an ID; this is the maximum page size of the API.
const SEARCHED: u64 = 500;

/// Queues unattended work and shows its results. `windlass serve` runs it.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass tasks add --yes \"Write release notes into NOTES.md\"
  git log -20 | windlass tasks add -
  windlass tasks list --status queued,running
  windlass tasks show 1f2e3d4c
  windlass tasks cancel 1f2e3d4c

The end of an ID is enough. Without a daemon, a task is queued and starts when `windlass serve` runs.")]
pub(crate) struct TasksCommand {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Queues a task and prints its ID.
    Add {
        /// Prompt; `-` reads it from standard input.
        prompt: String,
        #[command(flatten)]
        job: JobArgs,
        /// Working directory, in the workspace of the daemon that runs the task [default: the current directory].
        #[arg(long, value_name = "DIR")]
        cwd: Option<PathBuf>,
    },
    /// Lists tasks, newest first.
    List {
        /// Maximum number of tasks, 1 to 500.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=500))]
        limit: u32,
        /// Only tasks with these statuses: queued, running, completed, failed or canceled, separated by commas.
        #[arg(long, value_delimiter = ',', value_parser = ["queued", "running", "completed", "failed", "canceled"])]
        status: Vec<String>,
    },
    /// Shows a task and its result.
    Show {
        /// ID of the task.
        id: String,
    },
    /// Cancels a task. Its changes so far remain.
    Cancel {
        /// ID of the task.
        id: String,
    },
}

impl TasksCommand {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let GlobalOptions { workspace, config } = global;
        let is_add = matches!(self.subcommand, Subcommand::Add { .. });
        let is_list = matches!(self.subcommand, Subcommand::List { .. });
        if !is_add && job_args::is_empty(&self.options, "tasks", is_list)? {
            note(NONE_YET);
            return Ok(ExitCode::SUCCESS);
        }
        // Standard input is read first: other commands cannot use the data directory while it is open.
        let request = match &self.subcommand {
            Subcommand::Add { prompt, job, cwd } => {
                let cwd = job_args::working_directory(cwd.as_deref(), workspace.as_deref())?;
                Some(new_task(prompt, job, cwd)?)
            }
            _ => None,
        };
        let cwd = request.as_ref().and_then(|task| task.workspace.as_ref());
        let workspace = workspace.or_else(|| cwd.map(PathBuf::from));
        let daemon = job_args::connect(&self.options, workspace, config).await?;
        let done = self.run_on(&daemon, request).await;
        daemon.close().await;
        done.map(|()| ExitCode::SUCCESS)
    }

    async fn run_on(self, daemon: &DaemonConnection, request: Option<CreateTask>) -> Result<()> {
        let (api, is_json) = (daemon.api(), self.options.json);
        let mut out = io::stdout();
        match self.subcommand {
            Subcommand::Add { .. } => {
                let request = request.unwrap_or_default();
                let cwd = request.workspace.clone().unwrap_or_default();
                let call = Call::new((), request);
                let task = match send_once(daemon, call, |api, call| api.create_task(call)).await? {
                    Ok(task) => task,
                    Err(error) => return Err(job_args::not_queued(daemon, &cwd, error).await),
                };
                if is_json {
                    write_json(&mut out, &task)?
                } else {
                    writeln!(out, "{}", task.id)?
                }
                let what = "the task is queued and starts";
                job_args::note_if_unattended(daemon, what, Some(&task.workspace)).await;
            }
            Subcommand::List { limit, status } => {
                let statuses = status.iter().filter_map(|word| TaskStatus::parse(word));
                let query = TasksQuery {
                    limit: Some(limit.into()),
                    status: (!status.is_empty()).then(|| CommaList(statuses.collect())),
                    ..TasksQuery::default()
                };
                let page = api.list_tasks(Call::new((), ()).with_query(query)).await;
                let tasks = page.map_err(job_error)?.tasks;
                if is_json {
                    write_json_lines(&mut out, &tasks)?
                } else {
                    list(&tasks, !status.is_empty(), &mut out)?;
                    if tasks.iter().any(|task| is_open(task.status)) {
                        job_args::note_if_unattended(daemon, "open tasks continue", None).await;
                    }
                }
            }
            Subcommand::Show { id } => {
                let task = api.get_task(Call::new(find(daemon, &id).await?, ())).await;
                let task = task.map_err(job_error)?;
                if is_json {
                    // Sorts the fields by name.
                    write_json(&mut out, &serde_json::to_value(&task)?)?
                } else {
                    show(&task, daemon.is_in_process().await, &mut out)?
                }
            }
            Subcommand::Cancel { id } => {
                let task = api
                    .cancel_task(Call::new(find(daemon, &id).await?, ()))
                    .await
                    .map_err(job_error)?;
                if is_json {
                    write_json(&mut out, &task)?
                } else {
                    note_canceled(&task)
                }
                if is_open(task.status) {
                    job_args::note_if_unattended(daemon, "it ends", None).await;
                }
            }
        }
        Ok(out.flush()?)
    }
}

fn new_task(prompt: &str, job: &JobArgs, cwd: String) -> Result<CreateTask> {
    let task = CreateTask {
        prompt: job_args::prompt(prompt)?,
        workspace: Some(cwd),
        max_attempts: job.attempts,
        ..CreateTask::default()
    };
    Ok(task.with_policy(&job.policy()))
}

fn is_open(status: TaskStatus) -> bool {
    matches!(status, TaskStatus::Queued | TaskStatus::Running)
}

/// Finds a task by its ID or the end of the ID.
async fn find(daemon: &DaemonConnection, id: &str) -> Result<IdPath> {
    if is_complete("task_", id, ADVICE)? {
        return Ok(by_id(id));
    }
    let query = TasksQuery {
        limit: Some(SEARCHED),
        ..TasksQuery::default()
    };
    let call = Call::new((), ()).with_query(query);
    let page = daemon.api().list_tasks(call).await.map_err(job_error)?;
    let task = by_end("task", id, page.tasks, |task| &task.id, ADVICE)?;
    Ok(by_id(&task.id))
}

fn list(tasks: &[TaskSummary], is_filtered: bool, out: &mut impl Write) -> Result<()> {
    if tasks.is_empty() {
        note(if is_filtered {
            "no task matches"
        } else {
            NONE_YET
        });
        return Ok(());
    }
    let columns = [
        ("ID", 8),
        ("QUEUED", 16),
        ("STATUS", 9),
        ("MODEL", 16),
        ("PROMPT", 0),
    ];
    let rows = tasks.iter().map(|task| {
        [
            short(&task.id).to_owned(),
            job_args::minute(&task.created_at),
            job_args::status_of(task.status, task.held.as_ref(), task.unapproved_calls),
            task.model.clone(),
            task.prompt_summary.clone(),
        ]
    });
    Ok(Listing::for_stdout().write(out, columns, rows)?)
}

/// Formats a task as text. An in-process daemon does not know the defaults of the daemon that will run the task.
fn show(task: &TaskRecord, is_in_process: bool, out: &mut impl Write) -> Result<()> {
    writeln!(out, "task     {}", one_line(&task.id))?;
    let status = job_args::status_of(task.status, task.held.as_ref(), task.unapproved_calls);
    writeln!(out, "status   {status}")?;
    if let Some(calls) = &task.unapproved_calls {
        writeln!(out, "skipped  {}", job_args::unapproved_calls(*calls))?;
    }
    if let Some(retry_at) = task.held.as_ref().and_then(|held| held.retry_at.as_ref()) {
        writeln!(out, "retry    {} UTC", job_args::minute(retry_at))?;
    }
    if !is_in_process {
        writeln!(out, "in       {}", one_line(&task.workspace))?;
        let by = task.backend.as_ref().unwrap_or(&task.model);
        writeln!(out, "with     {}", one_line(by))?;
    }
    writeln!(out, "queued   {}", job_args::minute(&task.created_at))?;
    if let Some(took) = task.duration_ms {
        writeln!(out, "took     {}", time(Duration::from_millis(took)))?;
    }
    if task.attempt_count > 1 {
        let (count, max) = (task.attempt_count, task.max_attempts);
        writeln!(out, "attempt  {count} of {max}")?;
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

fn note_canceled(task: &TaskRecord) {
    let id = short(&task.id);
    note(&match task.status {
        TaskStatus::Canceled => format!("{id} is canceled"),
        TaskStatus::Queued | TaskStatus::Running => {
            format!("{id} is canceled and ends with its turn")
        }
        TaskStatus::Completed | TaskStatus::Failed => {
            format!("{id} has already ended: {}", job_args::status(task.status))
        }
    });
}
