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

use crate::calls::{self, by_id};
use crate::cli::{FAILED, count, note, without_code};
use crate::commands::job_args::is_meant;
use crate::connect::{DaemonConnection, DaemonTarget, explained};
use crate::data;
use crate::follow::{Follower, Next};
use crate::ids::short;
use crate::inert_json::{Inert, event_line, json_line};
use crate::local_time;
use crate::terminal::{Listing, ToolCall, about};
use crate::thread_session::{find, find_turn};

/// Shown instead of an empty list.
const NONE_YET: &str = "there are no threads yet; `windlass run \"…\"` begins one";

/// Maximum number of lines shown of a call's result.
const RESULT_LINES: usize = 10;

/// Maximum number of restored files that are listed.
const NAMED_FILES: usize = 20;

/// Shows and keeps threads.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass threads list
  windlass threads show 1f2e3d4c
  windlass threads fork 1f2e3d4c
  windlass threads rewind 1f2e3d4c --turns 2
  windlass threads export 1f2e3d4c > thread.jsonl

The end of an id will do wherever one is asked for.")]
pub(crate) struct Threads {
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
    /// Lists threads, the newest first.
    List {
        /// How many at most.
        #[arg(long, default_value_t = 20, value_parser = count)]
        limit: usize,
        /// Those that were put away too.
        #[arg(long)]
        all: bool,
    },
    /// Shows a thread.
    Show {
        /// The thread.
        id: String,
    },
    /// Makes a new thread that begins as this one.
    Fork {
        /// The thread.
        id: String,
        /// The last turn that the new one has [default: the last that is at its end].
        #[arg(long, value_name = "ID")]
        turn: Option<String>,
    },
    /// Makes a new thread without the last turns of this one, which is archived: `list --all` shows it.
    Rewind {
        /// The thread.
        id: String,
        /// How many turns.
        #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
        turns: u32,
        /// Brings the files back too that those turns changed.
        #[arg(long)]
        files: bool,
        /// Takes back as well what calls may have changed that were cut off when Windlass died.
        #[arg(long, requires = "files")]
        cut_off: bool,
    },
    /// Writes a thread with all its events, as lines of JSON.
    Export {
        /// The thread.
        id: String,
    },
    /// Removes a thread, and all that is recorded of it.
    Delete {
        /// The thread.
        id: String,
        /// Does not ask.
        #[arg(long, short)]
        yes: bool,
    },
}

impl Threads {
    pub(crate) async fn run(self, config: Option<&Path>) -> Result<ExitCode> {
        let data = data::directory(self.data.clone())?;
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
            let daemon =
                DaemonConnection::open(DaemonTarget::to_look(data.clone(), config)?).await?;
            let found = is_there(&daemon, id).await;
            daemon.leave().await;
            found?;
            if !is_meant("thread", id)? {
                return Ok(ExitCode::from(FAILED));
            }
        }
        let daemon = Arc::new(DaemonConnection::open(DaemonTarget::to_look(data, config)?).await?);
        let done = self.on(&daemon).await;
        daemon.leave().await;
        done
    }

    async fn on(self, daemon: &Arc<DaemonConnection>) -> Result<ExitCode> {
        let api = daemon.api();
        let mut out = io::stdout();
        match self.subcommand {
            Subcommand::List { limit, all } if self.json => {
                let threads = calls::recent_threads(&*api, limit, all).await;
                for thread in threads.map_err(explained)? {
                    let mut said = serde_json::to_value(&thread)?;
                    // JSON output contains the title in every line, for programs that read it.
                    said["title"] = thread.title.into();
                    writeln!(out, "{}", json_line(&said)?)?;
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
                let threads = api.summarize_threads(call).await.map_err(explained)?;
                list(&threads.entries, &mut out)?;
            }
            Subcommand::Show { id } => {
                let id = find(daemon, &id).await?;
                let detail = calls::whole_thread(&*api, &id).await.map_err(explained)?;
                if self.json {
                    // Sorts the fields by name.
                    writeln!(out, "{}", json_line(&serde_json::to_value(&detail)?)?)?
                } else {
                    show(&detail, &mut out)?
                }
            }
            Subcommand::Fork { id, turn } => {
                let thread = find(daemon, &id).await?;
                let mut request = ForkThread::default();
                if let Some(turn) = turn {
                    let advice = format!("`windlass threads show --json {id}` shows them");
                    request.turn_id = Some(find_turn(daemon, &thread, &turn, &advice).await?);
                }
                let made = api.fork_thread(Call::new(by_id(&thread), request)).await;
                made_new(&made.map_err(explained)?, self.json, &mut out)?;
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
                let made = api.undo_thread(Call::new(by_id(&thread), request)).await;
                let made = made.map_err(explained)?;
                archive(daemon, &thread).await;
                if let Some(files) = &made.files {
                    let root = root_of(daemon, &made.thread).await;
                    tell_restored_below(files, root.as_deref());
                }
                made_new(&made.thread, self.json, &mut out)?;
            }
            Subcommand::Export { id } => {
                let id = find(daemon, &id).await?;
                calls::export(&*api, &id, None, &mut Inert::new(&mut out)).await?;
            }
            Subcommand::Delete { id, .. } => {
                let path = by_id(&find(daemon, &id).await?);
                let deleted = api.delete_thread(Call::new(path, ())).await;
                deleted.map_err(explained)?;
            }
        }
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Archives a thread that another one replaces. A failure is only reported.
pub(crate) async fn archive(daemon: &DaemonConnection, id: &str) {
    if let Err(error) = calls::archive(&*daemon.api(), id).await {
        note(&format!("the earlier thread stays in the list: {error}"));
    }
}

/// Checks that a thread exists before the user is asked to confirm.
async fn is_there(daemon: &DaemonConnection, id: &str) -> Result<()> {
    let id = find(daemon, id).await?;
    let there = calls::newest_turns(&*daemon.api(), &id, 0).await;
    there.map(drop).map_err(explained)
}

fn list(threads: &[ThreadSummary], out: &mut impl Write) -> Result<()> {
    if threads.is_empty() {
        note(NONE_YET);
        return Ok(());
    }
    let listing = Listing::of_stdout();
    writeln!(
        out,
        "{:<8}  {:<23}  {:<24}  {:<20}  TITLE",
        "ID", "CHANGED", "DIRECTORY", "MODEL"
    )?;
    for thread in threads {
        let open = match thread.latest_turn_status {
            Some(Status::InProgress) => "[open] ",
            Some(Status::Queued) => "[queued] ",
            _ => "",
        };
        let by = thread.backend.as_ref().unwrap_or(&thread.model);
        let line = format!(
            "{:<8}  {:<23}  {:<24}  {:<20}  {open}{}",
            short(&thread.id),
            one_line(&local_time::minute(&thread.updated_at)),
            listing.end_of(&one_line(&thread.workspace), 24),
            listing.column(&one_line(by), 20),
            one_line(&thread.title)
        );
        writeln!(out, "{}", listing.line(&line))?;
    }
    Ok(())
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
        _ if !detail.pending_approvals.is_empty() => "somebody is asked",
        true => "[open] a turn is not at its end; go on with it",
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
            let call = ToolCall::of_item(item);
            let name = call.as_ref().map_or("tool", |call| &call.name);
            let about = call.as_ref().map(|call| about(&call.input));
            let (name, about) = (one_line(name), about.unwrap_or_default());
            let how = serde_json::to_value(item.status)?;
            let how = how.as_str().unwrap_or_default().to_owned();
            writeln!(out, "[{name}] {about}  ({how})")?;
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

/// Shows the beginning of a call's result.
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

/// Reports which files were restored.
pub(crate) fn tell_restored(files: &RestoredFiles) {
    tell_restored_below(files, None);
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
fn tell_restored_below(files: &RestoredFiles, root: Option<&Path>) {
    note(&match files.restored.len() {
        0 => "no file had to be restored".to_owned(),
        1 => "1 file was restored".to_owned(),
        count => format!("{count} files were restored"),
    });
    for path in files.restored.iter().take(NAMED_FILES) {
        let became = match root.map(|root| root.join(path).symlink_metadata().is_ok()) {
            Some(true) => "restored  ",
            Some(false) => "removed   ",
            None => "",
        };
        note(&format!("  {became}{}", one_line(path)));
    }
    if let Some(more) = files.restored.len().checked_sub(NAMED_FILES + 1) {
        note(&format!("  and {} more", more + 1));
    }
    if !files.left.is_empty() {
        let left = files.left.join(", ");
        note(&format!("left as it is: {}", one_line(&left)));
    }
}

fn made_new(thread: &Thread, is_json: bool, out: &mut impl Write) -> Result<()> {
    if is_json {
        writeln!(out, "{}", json_line(thread)?)?
    } else {
        writeln!(out, "{}", thread.id)?;
        note(&format!(
            "go on with it: windlass run --resume {} \"…\"",
            short(&thread.id)
        ));
    }
    Ok(())
}

/// Shows the events of a thread as they come.
#[derive(Args)]
pub(crate) struct Events {
    #[command(subcommand)]
    subcommand: EventsSubcommand,
}

#[derive(clap::Subcommand)]
enum EventsSubcommand {
    /// Writes the events of a thread as lines of JSON, and goes on with those that come.
    Tail {
        /// The thread; the end of its id will do.
        id: String,
        /// The number of the last event that is known already.
        #[arg(long, default_value_t = 0, value_name = "SEQ")]
        since: u64,
        /// Ends with the event that is the last now.
        #[arg(long)]
        no_follow: bool,
        /// The data directory [default: the user's own].
        #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
        data: Option<PathBuf>,
    },
}

impl Events {
    pub(crate) async fn run(self, config: Option<&Path>) -> Result<ExitCode> {
        let EventsSubcommand::Tail {
            id,
            since,
            no_follow,
            data,
        } = self.subcommand;
        let daemon = Arc::new(
            DaemonConnection::open(DaemonTarget::to_look(data::directory(data)?, config)?).await?,
        );
        let no_follow = no_follow
            || daemon.is_own().await && {
                note("no daemon runs on this data, so no more events come than there are");
                true
            };
        let tailed = tail(&daemon, &id, since, no_follow).await;
        daemon.leave().await;
        tailed.map(|()| ExitCode::SUCCESS)
    }
}

async fn tail(daemon: &Arc<DaemonConnection>, id: &str, since: u64, no_follow: bool) -> Result<()> {
    let id = find(daemon, id).await?;
    let mut out = io::stdout();
    if no_follow {
        let mut out = Inert::new(&mut out);
        let mut events = AfterFirstLine::of(&mut out);
        return calls::export(&*daemon.api(), &id, Some(since), &mut events).await;
    }
    let mut events = Follower::after(daemon, &id, since).await?;
    loop {
        let event = match events.next().await? {
            Next::Event(event) => event,
            Next::Lost if daemon.is_started_again().await? => {
                // If the connection is lost again, the loop reconnects again.
                match events.follow_again().await {
                    Err(error) if !error.is_lost() => return Err(explained(error)),
                    _ => continue,
                }
            }
            Next::Lost => {
                note("the daemon has ended, so no more events come");
                return Ok(());
            }
        };
        writeln!(out, "{}", event_line(&event)?)?;
        out.flush()?;
    }
}

/// Writes everything after the first line; in an export, those lines are the events.
struct AfterFirstLine<'a, W> {
    to: &'a mut W,
    is_after: bool,
}

impl<'a, W> AfterFirstLine<'a, W> {
    fn of(to: &'a mut W) -> Self {
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
