//! `windlass threads`: lists, shows, forks, exports and deletes threads.

mod list;
mod search;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Result, bail};
use clap::Args;
use windlass_core::bounds::{lines, one_line};
use windlass_protocol::{
    Call, ForkThread, ItemKind, RestoredFiles, Status, Thread, ThreadDetail, Turn, UndoThread,
};

use crate::cli::{FAILED, GlobalOptions, count, note, without_code};
use crate::client::calls::{self, by_id};
use crate::client::connect::{DaemonConnection, DaemonTarget};
use crate::client::follow::{EventFollower, FollowStep};
use crate::client::ids::short;
use crate::client::thread_session::{find, find_turn};
use crate::client::thread_status::cost_of;
use crate::commands::data_options::DataOptions;
use crate::commands::job_args::confirm_removal;
use crate::data;
use crate::inert_json::{Inert, event_line, write_json};
use crate::local_time;
use crate::terminal::{Colour, Transcript, money, spent};

/// Shown instead of an empty list.
const NONE_YET: &str = "there are no threads yet; `windlass run \"…\"` begins one";

/// Maximum number of restored files that are listed.
const MAX_LISTED_FILES: usize = 20;

/// Lists, shows, forks, rewinds, exports and deletes threads.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass threads list
  windlass threads search \"failing test\"
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
    /// Lists the messages that contain a text, in any case. The newest threads come first.
    Search {
        /// Text to find.
        text: String,
        /// Maximum number of threads with such messages.
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
            Subcommand::List { limit, all } => list::list(&*api, limit, all, &mut out).await?,
            Subcommand::Search { text, limit, all } => {
                let found = search::search(&*api, &text, (limit, all), &mut out).await?;
                if found == 0 {
                    note("no message contains this text");
                    return Ok(ExitCode::from(FAILED));
                }
            }
            Subcommand::Show { id } => {
                let id = find(daemon, &id).await?;
                let detail = calls::full_thread(&*api, &id).await?;
                if self.options.json {
                    // Sorts the fields by name.
                    write_json(&mut out, &serde_json::to_value(&detail)?)?
                } else {
                    show(&detail, Transcript::for_stdout(), &mut out)?
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

/// Formats a thread as text.
pub(crate) fn show(
    detail: &ThreadDetail,
    transcript: Transcript,
    out: &mut impl Write,
) -> Result<()> {
    let thread = &detail.thread;
    let mut field = |name: &str, value: &str| {
        let name = transcript.paint(Colour::Dim, &format!("{name:<11}"));
        writeln!(out, "{name}{}", one_line(value))
    };
    field("thread", &thread.id)?;
    field("in", &thread.workspace)?;
    let model = thread.qualified_model.as_ref().unwrap_or(&thread.model);
    field("with", thread.backend.as_ref().unwrap_or(model))?;
    field("created", &local_time::minute(&thread.created_at))?;
    if let Some(parent) = &thread.parent {
        let works_for = format!("{}, turn {}", parent.thread_id, parent.turn_id);
        field("works for", &works_for)?;
    }
    if let Some(cost) = cost_of(&detail.turns) {
        field("cost", &money(cost))?;
    }
    let mut is_text_before = true;
    for item in &detail.items {
        let is_prompt = item.kind == ItemKind::UserMessage;
        let is_answer = item.kind == ItemKind::AgentMessage;
        // Calls and thoughts in succession are one block.
        if is_prompt || is_answer || is_text_before {
            writeln!(out)?;
        }
        is_text_before = is_prompt || is_answer;
        transcript.write(item, out)?;
        let is_last_of = |turn: &&Turn| turn.item_ids.last() == Some(&item.id);
        if let Some(turn) = detail.turns.iter().find(is_last_of) {
            show_end(turn, transcript, out)?;
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

/// Shows how a turn ended.
fn show_end(turn: &Turn, transcript: Transcript, out: &mut impl Write) -> io::Result<()> {
    match turn.status {
        Status::Failed => {
            let cause = turn.error.as_deref().unwrap_or("it failed");
            let cause = format!("[failed] {}", lines(without_code(cause)));
            writeln!(out, "\n{}", transcript.paint(Colour::Bad, &cause))
        }
        Status::Interrupted | Status::Canceled => {
            writeln!(
                out,
                "{}",
                transcript.paint(Colour::Warning, "[interrupted]")
            )
        }
        _ => {
            let spent = spent(turn).join(", ");
            writeln!(out, "{}", transcript.paint(Colour::Dim, &spent))
        }
    }
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
