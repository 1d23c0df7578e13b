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
use crate::connect::{DaemonConnection, DaemonTarget, explained};
use crate::data;
use crate::piped;

/// Who does the work, and how freely.
#[derive(Args)]
pub(crate) struct JobArgs {
    /// The model, as `provider/model` [default: that of the daemon].
    #[arg(long)]
    pub(crate) model: Option<String>,
    /// The agent of others that does the work, such as claude-code, codex or gemini.
    #[arg(long, value_name = "NAME")]
    pub(crate) backend: Option<String>,
    /// How freely it works: agent, plan (it changes nothing), operate or yolo [default: agent].
    #[arg(long)]
    pub(crate) mode: Option<Mode>,
    /// Allows everything without asking. Without it a call that needs an approval waits a while for somebody, and is then refused.
    #[arg(long, short)]
    pub(crate) yes: bool,
    /// Lets it run no commands.
    #[arg(long)]
    pub(crate) no_shell: bool,
    /// How often it is tried while it fails, 1 to 10 [default: 1].
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
pub(crate) fn place(cwd: Option<&Path>, workspace: Option<&Path>) -> Result<String> {
    directory(cwd.or(workspace).unwrap_or(Path::new(".")))
}

/// Explains why a new job was rejected, and which directories are available if the daemon cannot work in `place`.
pub(crate) async fn not_queued(
    daemon: &DaemonConnection,
    place: &str,
    error: CallError,
) -> anyhow::Error {
    if error.code() != Some(ErrorCode::CwdOutsideRoot) {
        return refused(error);
    }
    let workspace = daemon.workspace().await.unwrap_or_default();
    anyhow!(
        "{} is outside of {}, where the daemon works; name a directory in there with --cwd, or start the daemon with a --workspace that holds yours",
        one_line(place),
        printable(&workspace)
    )
}

/// Connects to the daemon that owns the queue. If none runs, an in-process daemon stores jobs without running them.
pub(crate) async fn connect(
    data: Option<PathBuf>,
    workspace: Option<PathBuf>,
    config: Option<&Path>,
) -> Result<DaemonConnection> {
    let workspace = or_current(workspace)?;
    DaemonConnection::open(DaemonTarget::to_queue(
        data::directory(data)?,
        workspace,
        config,
    ))
    .await
}

/// Returns whether there is no data yet: a list is then empty, and looking for an ID is an error.
pub(crate) fn is_empty(data: Option<PathBuf>, what: &str, is_list: bool) -> Result<bool> {
    let data = data::directory(data)?;
    if data::has_store(&data)? {
        return Ok(false);
    }
    ensure!(is_list, "there are no {what} in {} yet", printable(&data));
    Ok(true)
}

/// Reports that waiting jobs do not run because there is no daemon to run them.
pub(crate) async fn tell_if_unattended(daemon: &DaemonConnection, what: &str) {
    if let Some(why) = unattended(daemon).await {
        note(&format!("{why}: {what} once `windlass serve` runs"));
    }
}

/// Reports that a new job does not start because there is no daemon to run it, and where to start one.
pub(crate) async fn tell_if_unbegun(daemon: &DaemonConnection, what: &str, place: &str) {
    if let Some(why) = unattended(daemon).await {
        note(&format!(
            "{why}: {what} once `windlass serve` runs in {} or above it",
            one_line(place)
        ));
    }
}

/// Returns why queued jobs do not start now; `None` if the daemon runs them.
async fn unattended(daemon: &DaemonConnection) -> Option<&'static str> {
    if daemon.is_own().await {
        return Some("no daemon runs on this data");
    }
    let info = daemon
        .api()
        .get_runtime_info(Call::new((), ()))
        .await
        .ok()?;
    let is_attended = info.features.iter().any(|name| name == "tasks");
    (!is_attended).then_some("`windlass run` or `chat` works on this data and starts no tasks")
}

/// Translates an API error to advice for the user of the command.
pub(crate) fn refused(error: CallError) -> anyhow::Error {
    match error.code() {
        Some(ErrorCode::NotConfigured) => anyhow!(
            "the process that works on this data has no tasks; wait until it ends, or start `windlass serve` in its place"
        ),
        _ => explained(error),
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
        "the prompt is empty; say what to do"
    );
    Ok(prompt)
}

/// Returns the canonical path of a directory, which is valid whatever the daemon's working directory is.
pub(crate) fn directory(path: &Path) -> Result<String> {
    let shown = printable(path);
    let whole = path.canonicalize();
    let whole = whole.with_context(|| format!("{shown} cannot be worked in"))?;
    ensure!(whole.is_dir(), "{shown} is no directory");
    let whole = whole.into_os_string().into_string();
    whole.map_err(|_| anyhow!("{shown} cannot be worked in: its name is not UTF-8"))
}

/// Returns whether `id` is a complete ID. Returns an error if it cannot be a suffix of one either.
pub(crate) fn is_whole(prefix: &str, id: &str, advice: &str) -> Result<bool> {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if !id.bytes().all(is_letter) {
        bail!("`{}` is no id; {advice}", one_line(id));
    }
    let hex = id.strip_prefix(prefix);
    Ok(hex.is_some_and(|hex| hex.len() == 32))
}

/// Asks for confirmation of a removal and reports if it was declined. The data directory is not open meanwhile, so other commands can use it.
pub(crate) fn is_meant(kind: &str, id: &str) -> Result<bool> {
    if !io::stdin().is_terminal() {
        bail!("nobody is here to ask; --yes removes it");
    }
    let id = one_line(id);
    write!(io::stderr(), "Remove the {kind} {id} for good? [y/N] ")?;
    io::stderr().flush()?;
    let mut line = String::new();
    io::stdin().read_line(&mut line).context("no answer")?;
    let is_meant = matches!(line.trim(), "y" | "Y" | "yes");
    if !is_meant {
        note("nothing was removed");
    }
    Ok(is_meant)
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
    unapproved: Option<UnapprovedCalls>,
) -> String {
    match (held, unapproved) {
        (Some(_), _) => "held".to_owned(),
        (None, Some(_)) => format!("{}*", status(task)),
        (None, None) => status(task).to_owned(),
    }
}

/// Formats the number of calls that did not run for lack of an approval.
pub(crate) fn unapproved(calls: UnapprovedCalls) -> String {
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
