//! Arguments and helpers that `tasks` and `automations` share.

use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use windlass_core::bounds::one_line;
use windlass_protocol::{
    Call, CallError, ErrorCode, JobHold, Mode, TaskStatus, TurnPolicyParams, UnapprovedCalls,
};

use crate::cli::{note, or_current, printable};
use crate::client::connect::{ConnectionPurpose, DaemonConnection, DaemonTarget};
use crate::commands::data_options::DataOptions;
use crate::data;
use crate::piped;

/// The agent of a job and its permissions.
#[derive(Args)]
pub(crate) struct JobArgs {
    /// Model, as `provider/model` [default: the daemon's].
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// External agent that does the work, such as claude-code, codex or gemini.
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// Mode: agent, plan (changes nothing), operate or yolo [default: agent].
    #[arg(long)]
    pub(crate) mode: Option<Mode>,
    /// Allows all calls without asking. Otherwise a call that needs an approval waits for a client to decide it, and is refused after a timeout.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Disables commands for this job.
    #[arg(long)]
    pub(crate) no_shell: bool,
    /// Attempts while the job fails, 1 to 10 [default: 1].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10))]
    pub(crate) attempts: Option<u32>,
}

impl JobArgs {
    /// Returns the options that the flags set.
    pub(crate) fn policy(&self) -> TurnPolicyParams {
        let policy = TurnPolicyParams {
            model: self.model.clone(),
            mode: self.mode,
            auto_approve: self.yes.then_some(true),
            backend: self.backend.clone(),
            ..TurnPolicyParams::default()
        };
        if self.no_shell {
            policy.without_shell()
        } else {
            policy
        }
    }
}

/// Returns the working directory of a new job: the one that the flags name, else the current directory. It is stored with the job, because the daemon
/// that runs the job may have another working directory.
pub(crate) fn working_directory(cwd: Option<&Path>, workspace: Option<&Path>) -> Result<String> {
    real_directory(cwd.or(workspace).unwrap_or(Path::new(".")))
}

/// Explains why a new job was rejected, and which directories are available if the daemon cannot work in `cwd`.
pub(crate) async fn not_queued(
    daemon: &DaemonConnection,
    cwd: &str,
    error: CallError,
) -> anyhow::Error {
    if error.code() != Some(ErrorCode::CwdOutsideRoot) {
        return job_error(error);
    }
    let workspace = daemon.workspace().await.unwrap_or_default();
    anyhow!(
        "{} is outside of {}, the daemon's workspace; name a directory in it with --cwd, or start the daemon with a --workspace that contains yours",
        one_line(cwd),
        printable(&workspace)
    )
}

/// Connects to the daemon that owns the queue. If none runs, an in-process daemon stores jobs without running them.
pub(crate) async fn connect(
    options: &DataOptions,
    workspace: Option<PathBuf>,
    config: Option<PathBuf>,
) -> Result<DaemonConnection> {
    let (data, workspace) = (options.directory()?, or_current(workspace)?);
    let purpose = ConnectionPurpose::QueueJobs;
    DaemonConnection::open(DaemonTarget::new(data, workspace, config, purpose)).await
}

/// Returns whether there is no data yet. Then a list is empty, and a command that needs a job is an error.
pub(crate) fn is_empty(options: &DataOptions, what: &str, is_list: bool) -> Result<bool> {
    let data = options.directory()?;
    if data::has_store(&data)? {
        return Ok(false);
    }
    ensure!(is_list, "there are no {what} in {} yet", printable(&data));
    Ok(true)
}

/// Reports that no daemon runs the queued jobs. A new job only starts if the daemon's workspace contains its working directory.
pub(crate) async fn note_if_unattended(daemon: &DaemonConnection, what: &str, cwd: Option<&str>) {
    if let Some(why) = why_unattended(daemon).await {
        let directory = cwd.map(|cwd| format!(" in {} or a parent directory", one_line(cwd)));
        let directory = directory.unwrap_or_default();
        note(format!(
            "{why}: {what} when `windlass serve` runs{directory}"
        ));
    }
}

/// Returns why queued jobs do not start now; `None` if the daemon runs them.
async fn why_unattended(daemon: &DaemonConnection) -> Option<&'static str> {
    if daemon.is_in_process().await {
        return Some("no daemon runs on this data");
    }
    let info = daemon
        .api()
        .get_runtime_info(Call::new((), ()))
        .await
        .ok()?;
    let is_attended = info.features.iter().any(|name| name == "tasks");
    (!is_attended).then_some("`windlass run` or `chat` uses this data and starts no tasks")
}

/// Translates an API error to advice for the user of the command.
pub(crate) fn job_error(error: CallError) -> anyhow::Error {
    match error.code() {
        Some(ErrorCode::NotConfigured) => anyhow!(
            "the process that uses this data has no task queue; wait until it exits, or start `windlass serve` instead"
        ),
        _ => error.into(),
    }
}

/// Returns the prompt of the command line, or standard input for `-`.
pub(crate) fn prompt(given: &str) -> Result<String> {
    let prompt = match given {
        "-" => piped::read()?,
        given => given.to_owned(),
    };
    ensure!(
        !prompt.trim().is_empty(),
        "the prompt is empty; describe the work"
    );
    Ok(prompt)
}

/// Returns the canonical path of a directory, which is valid whatever the daemon's working directory is.
fn real_directory(path: &Path) -> Result<String> {
    let shown = printable(path);
    let real = path.canonicalize();
    let real = real.with_context(|| format!("cannot work in {shown}"))?;
    ensure!(real.is_dir(), "{shown} is not a directory");
    let text = real.into_os_string().into_string();
    text.map_err(|_| anyhow!("cannot work in {shown}: its name is not UTF-8"))
}

/// Asks for confirmation of a removal and reports if it was declined. The data directory is not open meanwhile, so other commands can use it.
pub(crate) fn confirm_removal(kind: &str, id: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("standard input is not a terminal, so the removal cannot be confirmed; use --yes");
    }
    let id = one_line(id);
    write!(io::stderr(), "Delete the {kind} {id} permanently? [y/N] ")?;
    io::stderr().flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line).context("no answer")?;
    let confirm_removal = matches!(line.trim(), "y" | "Y" | "yes");
    if !confirm_removal {
        note("nothing was removed");
    }
    Ok(confirm_removal)
}

/// Formats a time without seconds.
pub(crate) fn minute(time: &str) -> String {
    let minute = time.get(..16).unwrap_or(time);
    one_line(&minute.replace('T', " ")).into_owned()
}

/// Formats the status of a task for a list. `*` marks a task with calls that did not get an approval.
pub(crate) fn status_of(
    task: TaskStatus,
    held: Option<&JobHold>,
    unapproved_calls: Option<UnapprovedCalls>,
) -> String {
    match (held, unapproved_calls) {
        (Some(_), _) => "held".to_owned(),
        (None, Some(_)) => format!("{}*", status(task)),
        (None, None) => status(task).to_owned(),
    }
}

/// Formats the number of calls that did not run for lack of an approval.
pub(crate) fn unapproved_calls(calls: UnapprovedCalls) -> String {
    let UnapprovedCalls { refused, timed_out } = calls;
    format!("calls without approval: {refused} refused, {timed_out} timed out")
}

pub(crate) fn status(status: TaskStatus) -> &'static str {
    match status {
        TaskStatus::Queued => "queued",
        TaskStatus::Running => "running",
        TaskStatus::Completed => "completed",
        TaskStatus::Failed => "failed",
        TaskStatus::Canceled => "canceled",
    }
}
