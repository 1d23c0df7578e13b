//! `windlass threads`: lists, shows, forks, exports and deletes threads.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::operations::ThreadSummariesQuery;
use windlass_protocol::{
    Call, ForkThread, Item, ItemKind, RestoredFiles, Status, Thread, ThreadDetail, ThreadSummary,
    Turn, UndoThread,
};

use crate::cli::{FAILED, GlobalOptions, count, note, without_code};
use crate::client::calls::{self, by_id};
use crate::client::connect::{DaemonConnection, DaemonTarget};
use crate::client::follow::{EventFollower, FollowStep};
use crate::client::ids::short;
use crate::client::thread_session::{find, find_turn};
use crate::commands::data_options::DataOptions;
use crate::commands::job_args::confirm_removal;
use crate::data;
use crate::inert_json::{Inert, event_line, write_json};
use crate::local_time;
use crate::terminal::{Listing, ShownCall, main_argument};

/// Shown instead of an empty list.
const NONE_YET: &str = "there are no threads yet; `windlass run \"…\"` begins one";

/// Maximum number of lines that are shown of a call's result.
const RESULT_LINES: usize = 10;

/// Maximum number of restored files that are listed.
const MAX_LISTED_FILES: usize = 20;

/// Lists, shows, forks, rewinds, exports and deletes threads.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass threads list
  windlass threads show 1f2e3d4c
  windlass threads fork 1f2e3d4c
  windlass threads rewind 1f2e3d4c --turns 2
  windlass threads export 1f2e3d4c > thread.jsonl

The end of an ID is enough.")]
pub(crate) struct Threads {
    #[command(flatten)]
    options: DataOptions,
    #[command(subcommand)]
    subcommand: Subcommand,
}

#[derive(clap::Subcommand)]
enum Subcommand {
    /// Lists threads, newest first.
    List {
        /// Maximum number of threads.
        #[arg(long, default_value_t = 20, value_parser = count)]
        limit: usize,
        /// Includes archived threads.
        #[arg(long)]
        all: bool,
    },
    /// Shows the messages and calls of a thread.
    Show {
        /// ID of the thread.
        id: String,
    },
    /// Creates a thread that starts with the history of this one.
    Fork {
        /// ID of the thread.
        id: String,
        /// Last turn that the new thread has [default: the last that has ended].
        #[arg(long, value_name = "ID")]
        turn: Option<String>,
    },
    /// Creates a thread without the last turns of this one, and archives this one: `list --all` shows it.
    Rewind {
        /// ID of the thread.
        id: String,
        /// Number of turns.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        turns: u32,
        /// Also restores the files that those turns changed.
        #[arg(long)]
        files: bool,
        /// Includes changes of calls that a crash cut off.
        #[arg(long, requires = "files")]
        cut_off: bool,
    },
    /// Writes a thread with all its events, as lines of JSON.
    Export {
        /// ID of the thread.
        id: String,
    },
    /// Deletes a thread and all its records.
    Delete {
        /// ID of the thread.
        id: String,
        /// Skips the confirmation.
        #[arg(long, short)]
        yes: bool,
    },
}

impl Threads {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let data = self.options.directory()?;
        if !data::has_store(&data)? {
            if let Subcommand::List { .. } = self.subcommand {
                note(NONE_YET);
                return Ok(ExitCode::SUCCESS);
            }
            bail!(
                "there are no threads in {} yet",
                crate::cli::printable(&data)
            );
        }
        if let Subcommand::Delete { id, yes: false } = &self.subcommand {
            let daemon = DaemonConnection::open(DaemonTarget::for_maintenance(
                data.clone(),
                global.config.clone(),
            )?)
            .await?;
            let found = check_exists(&daemon, id).await;
            daemon.close().await;
            found?;
            if !confirm_removal("thread", id)? {
                return Ok(ExitCode::from(FAILED));
            }
        }
        let daemon = Arc::new(
            DaemonConnection::open(DaemonTarget::for_maintenance(data, global.config)?).await?,
        );
        let done = self.run_on(&daemon).await;
        daemon.close().await;
        done
    }

    async fn run_on(self, daemon: &Arc<DaemonConnection>) -> Result<ExitCode> {
        let api = daemon.api();
        let mut out = io::stdout();
        match self.subcommand {
            Subcommand::List { limit, all } if self.options.json => {
                for thread in calls::recent_threads(&*api, limit, all).await? {
                    let mut json = serde_json::to_value(&thread)?;
                    // Scripts get the title in every line, also an empty one.
                    json["title"] = thread.title.into();
                    write_json(&mut out, &json)?;
                }
            }
            Subcommand::List { limit, all } => {
                let query = ThreadSummariesQuery {
                    limit: Some(limit as u64),
                    include_archived: Some(all),
                    git: Some(false),
                    ..ThreadSummariesQuery::default()
                };
                let call = Call::new((), ()).with_query(query);
                let threads = api.summarize_threads(call).await?;
                list(&threads.entries, &mut out)?;
            }
            Subcommand::Show { id } => {
                let id = find(daemon, &id).await?;
                let detail = calls::full_thread(&*api, &id).await?;
                if self.options.json {
                    // Sorts the fields by name.
                    write_json(&mut out, &serde_json::to_value(&detail)?)?
                } else {
                    show(&detail, &mut out)?
                }
            }
            Subcommand::Fork { id, turn } => {
                let thread = find(daemon, &id).await?;
                let mut request = ForkThread::default();
                if let Some(turn) = turn {
                    let advice = format!("`windlass threads show --json {id}` shows the turns");
                    request.turn_id = Some(find_turn(daemon, &thread, &turn, &advice).await?);
                }
                let made = api.fork_thread(Call::new(by_id(&thread), request)).await?;
                show_new(&made, self.options.json, &mut out)?;
            }
            Subcommand::Rewind {
                id,
                turns,
                files,
                cut_off,
            } => {
                let thread = find(daemon, &id).await?;
                let request = UndoThread {
                    depth: turns - 1,
                    files,
                    cut_off,
                };
                let made = api.undo_thread(Call::new(by_id(&thread), request)).await?;
                archive(daemon, &thread).await;
                if let Some(files) = &made.files {
                    let root = root_of(daemon, &made.thread).await;
                    note_restored(files, root.as_deref());
                }
                show_new(&made.thread, self.options.json, &mut out)?;
            }
            Subcommand::Export { id } => {
                let id = find(daemon, &id).await?;
                calls::export(&*api, &id, None, &mut Inert::new(&mut out)).await?;
            }
            Subcommand::Delete { id, .. } => {
                let path = by_id(&find(daemon, &id).await?);
                api.delete_thread(Call::new(path, ())).await?;
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Archives a thread that another one replaces. A failure is only reported.
pub(crate) async fn archive(daemon: &DaemonConnection, id: &str) {
    if let Err(error) = calls::archive(&*daemon.api(), id).await {
        note(format!("the earlier thread could not be archived: {error}"));
    }
}

/// Checks that a thread exists before the user is asked to confirm.
async fn check_exists(daemon: &DaemonConnection, id: &str) -> Result<()> {
    let id = find(daemon, id).await?;
    calls::newest_turns(&*daemon.api(), &id, 0).await?;
    Ok(())
}

fn list(threads: &[ThreadSummary], out: &mut impl Write) -> Result<()> {
    if threads.is_empty() {
        note(NONE_YET);
        return Ok(());
    }
    let listing = Listing::for_stdout();
    let columns = [
        ("ID", 8),
        ("CHANGED", 23),
        ("DIRECTORY", 24),
        ("MODEL", 20),
        ("TITLE", 0),
    ];
    let rows = threads.iter().map(|thread| {
        let open = match thread.latest_turn_status {
            Some(Status::InProgress) => "[open] ",
            Some(Status::Queued) => "[queued] ",
            _ => "",
        };
        [
            short(&thread.id).to_owned(),
            local_time::minute(&thread.updated_at),
            listing.end_of(&one_line(&thread.workspace), 24),
            thread.backend.as_ref().unwrap_or(&thread.model).clone(),
            format!("{open}{}", thread.title),
        ]
    });
    Ok(listing.write(out, columns, rows)?)
}

/// Formats a thread as text.
pub(crate) fn show(detail: &ThreadDetail, out: &mut impl Write) -> Result<()> {
    let thread = &detail.thread;
    writeln!(out, "thread     {}", thread.id)?;
    writeln!(out, "in         {}", one_line(&thread.workspace))?;
    let model = thread.qualified_model.as_ref().unwrap_or(&thread.model);
    let by = thread.backend.as_ref().unwrap_or(model);
    writeln!(out, "with       {}", one_line(by))?;
    let created = local_time::minute(&thread.created_at);
    writeln!(out, "created    {}", one_line(&created))?;
    if let Some(parent) = &thread.parent {
        let (thread, turn) = (one_line(&parent.thread_id), one_line(&parent.turn_id));
        writeln!(out, "works for  {thread}, turn {turn}")?;
    }
    for item in &detail.items {
        writeln!(out)?;
        show_item(item, out)?;
    }
    for turn in &detail.turns {
        if matches!(turn.status, Status::Failed) {
            let cause = turn.error.as_deref().unwrap_or("it failed");
            writeln!(out, "\n[failed] {}", lines(without_code(cause)))?;
        }
    }
    let is_open = |turn: &Turn| matches!(turn.status, Status::Queued | Status::InProgress);
    let what = match detail.turns.iter().any(is_open) {
        _ if !detail.pending_approvals.is_empty() => "an approval is pending",
        true => "[open] a turn has not ended; continue it",
        false => return Ok(()),
    };
    writeln!(out, "\n{what}: windlass run --resume {}", short(&thread.id))?;
    Ok(())
}

fn show_item(item: &Item, out: &mut impl Write) -> Result<()> {
    let text = item.detail.as_deref().unwrap_or_default();
    match item.kind {
        ItemKind::UserMessage => {
            if let Some(at) = &item.started_at {
                writeln!(out, "[{}]", one_line(&local_time::minute(at)))?;
            }
            writeln!(out, "> {}", lines(text))?;
        }
        ItemKind::AgentMessage => writeln!(out, "{}", lines(text))?,
        ItemKind::AgentReasoning => {}
        ItemKind::ToolCall | ItemKind::FileChange | ItemKind::CommandExecution => {
            let call = ShownCall::from_item(item);
            let name = call.as_ref().map_or("tool", |call| &call.name);
            let argument = call.as_ref().map(|call| main_argument(&call.input));
            let (name, argument) = (one_line(name), argument.unwrap_or_default());
            let status = serde_json::to_value(item.status)?;
            let status = status.as_str().unwrap_or_default();
            writeln!(out, "[{name}] {argument}  ({status})")?;
            show_result(text, out)?;
        }
        kind => {
            let kind = serde_json::to_value(kind)?;
            writeln!(
                out,
                "[{}] {}",
                kind.as_str().unwrap_or_default(),
                lines(text)
            )?;
        }
    }
    Ok(())
}

/// Shows the first lines of a call's result.
fn show_result(text: &str, out: &mut impl Write) -> Result<()> {
    let shown = lines(text.trim_end());
    for line in shown.lines().take(RESULT_LINES) {
        writeln!(out, "  {line}")?;
    }
    match shown.lines().count().saturating_sub(RESULT_LINES) {
        0 => {}
        1 => writeln!(out, "  (1 more line)")?,
        more => writeln!(out, "  ({more} more lines)")?,
    }
    Ok(())
}

/// Returns the directory to which the paths of a thread's files are relative, if there is only one.
async fn root_of(daemon: &DaemonConnection, thread: &Thread) -> Option<PathBuf> {
    let [only] = thread.environments.as_deref()? else {
        return None;
    };
    let there = calls::environments(&*daemon.api()).await.ok()?;
    there
        .into_iter()
        .find(|it| it.id == only.environment_id)
        .map(|it| it.root)
}

/// Reports which files were restored. If the root directory is known, files that the restoration removed are marked.
pub(crate) fn note_restored(files: &RestoredFiles, root: Option<&Path>) {
    note(&match files.restored.len() {
        0 => "no file had to be restored".to_owned(),
        1 => "1 file was restored".to_owned(),
        count => format!("{count} files were restored"),
    });
    for path in files.restored.iter().take(MAX_LISTED_FILES) {
        let change = match root.map(|root| root.join(path).symlink_metadata().is_ok()) {
            Some(true) => "restored  ",
            Some(false) => "removed   ",
            None => "",
        };
        note(format!("  {change}{}", one_line(path)));
    }
    if let Some(more) = files.restored.len().checked_sub(MAX_LISTED_FILES + 1) {
        note(format!("  and {} more", more + 1));
    }
    if !files.left.is_empty() {
        let left = files.left.join(", ");
        note(format!("not restored: {}", one_line(&left)));
    }
}

fn show_new(thread: &Thread, is_json: bool, out: &mut impl Write) -> Result<()> {
    if is_json {
        write_json(out, thread)?
    } else {
        writeln!(out, "{}", thread.id)?;
        note(format!(
            "continue with: windlass run --resume {} \"…\"",
            short(&thread.id)
        ));
    }
    Ok(())
}

/// Shows the events of a thread.
#[derive(Args)]
pub(crate) struct EventsCommand {
    #[command(subcommand)]
    subcommand: EventsSubcommand,
}

#[derive(clap::Subcommand)]
enum EventsSubcommand {
    /// Writes the events of a thread as lines of JSON and follows new ones.
    Tail {
        /// ID of the thread, or the end of it.
        id: String,
        /// Number of the event after which the output starts.
        #[arg(long, default_value_t = 0, value_name = "SEQ")]
        since: u64,
        /// Stops at the newest event.
        #[arg(long)]
        no_follow: bool,
        /// Data directory [default: `$XDG_STATE_HOME/windlass`, else `~/.local/state/windlass`].
        #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
        data: Option<PathBuf>,
    },
}

impl EventsCommand {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let EventsSubcommand::Tail {
            id,
            since,
            no_follow,
            data,
        } = self.subcommand;
        let daemon = Arc::new(
            DaemonConnection::open(DaemonTarget::for_maintenance(
                data::directory(data)?,
                global.config,
            )?)
            .await?,
        );
        let no_follow = no_follow
            || daemon.is_in_process().await && {
                note("no daemon runs on this data, so there are no new events");
                true
            };
        let tailed = tail(&daemon, &id, since, no_follow).await;
        daemon.close().await;
        tailed.map(|()| ExitCode::SUCCESS)
    }
}

async fn tail(daemon: &Arc<DaemonConnection>, id: &str, since: u64, no_follow: bool) -> Result<()> {
    let id = find(daemon, id).await?;
    let mut out = io::stdout();
    if no_follow {
        let mut out = Inert::new(&mut out);
        let mut events = AfterFirstLine::new(&mut out);
        return calls::export(&*daemon.api(), &id, Some(since), &mut events).await;
    }
    let mut events = EventFollower::after(daemon, &id, since).await?;
    loop {
        let event = match events.next().await? {
            FollowStep::Event(event) => event,
            FollowStep::Lost if daemon.reconnect_to_restarted().await? => {
                // If the connection is lost again, the loop reconnects again.
                match events.reopen().await {
                    Err(error) if !error.is_lost() => return Err(error.into()),
                    _ => continue,
                }
            }
            FollowStep::Lost => {
                note("the daemon has stopped, so there are no new events");
                return Ok(());
            }
        };
        writeln!(out, "{}", event_line(&event)?)?;
        out.flush()?;
    }
}

/// Skips the first line of an export, which describes the thread; the other lines are events.
struct AfterFirstLine<'a, W> {
    to: &'a mut W,
    is_after: bool,
}

impl<'a, W> AfterFirstLine<'a, W> {
    fn new(to: &'a mut W) -> Self {
        let is_after = false;
        Self { to, is_after }
    }
}

impl<W: Write> Write for AfterFirstLine<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.is_after {
            return self.to.write(bytes);
        }
        let end = bytes.iter().position(|byte| *byte == b'\n');
        self.is_after = end.is_some();
        Ok(end.map_or(bytes.len(), |end| end + 1))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}
