//! `windlass chat`: an interactive thread on the terminal.

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use reedline::{FileBackedHistory, Prompt, PromptEditMode, PromptHistorySearch, Reedline, Signal};
use tokio::sync::{Notify, oneshot};
use windlass_core::bounds::one_line;
use windlass_protocol::{Call, CreateThread, ForkThread, PatchThread, StartTurn, UndoThread};

use crate::calls::{self, by_id};
use crate::cli::{note, words};
use crate::commands::attachments::Attachments;
use crate::commands::run;
use crate::commands::thread_args::ThreadArgs;
use crate::commands::threads::{archive, tell_restored};
use crate::connect::{DaemonConnection, explained};
use crate::ids::short;
use crate::private_file;
use crate::terminal::{self, Colour, Screen, TypedAhead};
use crate::thread_session::{self, Approvals, Ended, ThreadSession};

/// Maximum number of lines in the history file.
const KEPT_LINES: usize = 1000;
const HELP: &str = "\
/help          this text
/new           begin a new thread; `/new TEXT` with something to do
/resume ID     go on with another one; the end of its id will do
/btw TEXT      ask on the side; it does not become part of the thread
/undo          take the last turn back; `/undo files` also what it changed in files
/model NAME    use another model from here on, as provider/model
/yes           allow everything without asking, from here on
/quit          leave; Ctrl-D does the same. Ctrl-C stops a turn";

/// Talks with an agent, line by line.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass chat
  windlass chat --continue
  windlass chat --backend claude-code

Lines that begin with a slash are commands; /help lists them.")]
pub(crate) struct Chat {
    #[command(flatten)]
    thread_args: ThreadArgs,
    #[command(flatten)]
    attachments: Attachments,
}

/// A parsed line of input.
enum Said {
    Text(String),
    Command(String, String),
    /// End of input.
    Leave,
}

impl Chat {
    pub(crate) async fn run(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let cwd = self.thread_args.cwd(workspace)?;
        let daemon = self.thread_args.connect(&cwd, config).await?;
        let talked = self.session(&daemon, &cwd).await;
        daemon.leave().await;
        talked.map(|()| ExitCode::SUCCESS)
    }

    async fn session(&self, daemon: &Arc<DaemonConnection>, cwd: &Path) -> Result<()> {
        let mut chat = ChatLoop {
            daemon: Arc::clone(daemon),
            cwd: cwd.to_owned(),
            new_thread: self.thread_args.new_thread(),
            of_turns: StartTurn {
                input: self.attachments.read()?,
                ..self.thread_args.turn_options()
            },
            approvals: Approvals::here(self.thread_args.yes),
            ahead: Lines::ahead(),
            session: None,
        };
        if let Some(id) = self.thread_args.earlier(daemon, cwd).await? {
            chat.resume(&id).await?;
        }
        let mut lines = Lines::open(&self.thread_args.data()?);
        loop {
            match lines.next().await? {
                Said::Leave => break,
                Said::Text(text) => chat.say(&text).await?,
                Said::Command(name, _) if matches!(name.as_str(), "quit" | "exit" | "q") => break,
                Said::Command(name, rest) => {
                    // A failed command does not end the chat.
                    if let Err(error) = chat.command(&name, rest.trim()).await {
                        note(&format!("error: {}", words(&error)));
                    }
                }
            }
        }
        if let Some(session) = &chat.session {
            let id = short(&session.thread.id);
            note(&format!("go on with: windlass chat --resume {id}"));
        }
        Ok(())
    }
}

/// The state of the chat loop.
struct ChatLoop {
    daemon: Arc<DaemonConnection>,
    cwd: PathBuf,
    /// The request that creates new threads.
    new_thread: CreateThread,
    /// Options for turns of the earlier thread that the command line names.
    of_turns: StartTurn,
    approvals: Approvals,
    /// How input that is typed during a turn is read.
    ahead: TypedAhead,
    session: Option<ThreadSession>,
}

impl ChatLoop {
    async fn resume(&mut self, id: &str) -> Result<()> {
        let session = ThreadSession::resume(&self.daemon, id, self.approvals).await?;
        let mut screen = Screen::new(false);
        session.tell_allowed(&mut screen)?;
        if let Some(open) = session.left_open().await? {
            tell_end(&open.watched(&mut screen, self.ahead).await?, &mut screen)?;
        }
        note(&format!("thread {}", short(&session.thread.id)));
        self.session = Some(session);
        Ok(())
    }

    async fn begin(&self) -> Result<ThreadSession> {
        let request = self.new_thread.clone();
        ThreadSession::begin(&self.daemon, &self.cwd, request, self.approvals).await
    }

    async fn say(&mut self, text: &str) -> Result<()> {
        self.daemon.is_there().await?;
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.begin().await?,
        };
        session.approvals = self.approvals;
        session.of_turns.clone_from(&self.of_turns);
        // Files come with the first prompt alone.
        self.of_turns.input = None;
        let mut screen = Screen::new(false);
        let said = watched(&session, text, &mut screen, self.ahead).await;
        self.session = Some(session);
        match said {
            Ok(ended) => tell_end(&ended, &mut screen),
            Err(error) => {
                screen.rest()?;
                note(&format!("error: {}", words(&error)));
                Ok(())
            }
        }
    }

    async fn command(&mut self, name: &str, rest: &str) -> Result<()> {
        if matches!(name, "resume" | "btw" | "undo" | "model") {
            self.daemon.is_there().await?;
        }
        match name {
            "help" | "?" => note(HELP),
            "new" => {
                self.session = None;
                self.of_turns = StartTurn::default();
                if !rest.is_empty() {
                    self.say(rest).await?;
                }
            }
            "resume" => {
                let id = thread_session::find(&self.daemon, rest).await?;
                self.of_turns = StartTurn::default();
                self.resume(&id).await?;
            }
            "btw" => self.aside(rest).await?,
            "undo" => self.undo(rest).await?,
            "model" => self.model(rest).await?,
            "yes" => {
                self.approvals = Approvals::All;
                note("everything is allowed from here on");
            }
            _ => note(&format!(
                "there is no command `/{name}`; /help lists those there are"
            )),
        }
        Ok(())
    }

    /// Asks in a fork, so that the thread itself does not change.
    async fn aside(&mut self, text: &str) -> Result<()> {
        anyhow::ensure!(!text.is_empty(), "say what to ask: /btw TEXT");
        let mut aside = match &self.session {
            Some(session) => {
                let call = Call::new(by_id(&session.thread.id), ForkThread::default());
                let fork = self
                    .daemon
                    .api()
                    .fork_thread(call)
                    .await
                    .map_err(explained)?;
                ThreadSession::resume(&self.daemon, &fork.id, self.approvals).await?
            }
            None => self.begin().await?,
        };
        aside.of_turns.clone_from(&self.of_turns);
        let mut screen = Screen::new(false);
        let said = watched(&aside, text, &mut screen, self.ahead).await;
        // The fork is archived, whether the turn succeeded or not.
        let archived = calls::archive(&*self.daemon.api(), &aside.thread.id).await;
        tell_end(&said?, &mut screen)?;
        archived.map_err(explained)?;
        Ok(())
    }

    async fn undo(&mut self, rest: &str) -> Result<()> {
        anyhow::ensure!(
            matches!(rest, "" | "files"),
            "it is `/undo` or `/undo files`"
        );
        let session = self
            .session
            .as_ref()
            .context("there is nothing to take back yet")?;
        let request = UndoThread {
            files: rest == "files",
            ..UndoThread::default()
        };
        let call = Call::new(by_id(&session.thread.id), request);
        let undone = self
            .daemon
            .api()
            .undo_thread(call)
            .await
            .map_err(explained)?;
        archive(&self.daemon, &session.thread.id).await;
        note(&format!("taken back: {}", undone.original_user_text));
        match &undone.files {
            Some(files) => tell_restored(files),
            None => note(&format!(
                "files stay as they are; `windlass threads rewind {} --files` brings them back",
                short(&session.thread.id)
            )),
        }
        self.session =
            Some(ThreadSession::resume(&self.daemon, &undone.thread.id, self.approvals).await?);
        Ok(())
    }

    async fn model(&mut self, name: &str) -> Result<()> {
        anyhow::ensure!(!name.is_empty(), "say which: /model provider/model");
        self.daemon.check_model(name).await?;
        if let Some(session) = &self.session {
            let change = PatchThread {
                model: Some(name.to_owned()),
                ..PatchThread::default()
            };
            let changed = calls::patch(&*self.daemon.api(), &session.thread.id, change).await;
            changed.map_err(explained)?;
        }
        self.new_thread.model = Some(name.to_owned());
        self.of_turns.model = None;
        note(&format!("{} answers from here on", one_line(name)));
        Ok(())
    }
}

/// Starts a turn with `text` and shows it until it ends.
async fn watched(
    session: &ThreadSession,
    text: &str,
    screen: &mut Screen,
    ahead: TypedAhead,
) -> Result<Ended> {
    session.say(text).await?.watched(screen, ahead).await
}

fn tell_end(ended: &Ended, screen: &mut Screen) -> Result<()> {
    match ended {
        Ended::Turn(turn) => {
            screen.sum_up(turn)?;
            run::exit_code(turn);
        }
        Ended::Left { is_interrupted } => {
            let told = match is_interrupted {
                true => "the turn was interrupted",
                false => "the turn was left open",
            };
            screen.tell(Colour::Dim, told)?;
        }
    }
    Ok(())
}

/// The source of input lines: a line editor on a terminal, else plain standard input.
enum Lines {
    Editor {
        editor: Option<Box<Reedline>>,
        /// Notified when the terminal goes away, because the editor would wait for a key forever.
        gone: Arc<Notify>,
    },
    Plain,
}

impl Lines {
    /// Returns how input typed during a turn is read: as keys if the next prompt uses the line editor, else as lines.
    fn ahead() -> TypedAhead {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            TypedAhead::Keys
        } else {
            TypedAhead::Lines
        }
    }

    fn open(data: &Path) -> Self {
        if Self::ahead() == TypedAhead::Lines {
            return Self::Plain;
        }
        let editor = Reedline::create();
        let editor = match history(data) {
            Ok(history) => editor.with_history(Box::new(history)),
            // The history is optional; the chat works without it.
            Err(_) => editor,
        };
        note("Say something; /help lists commands, Ctrl-D leaves.");
        Self::Editor {
            editor: Some(Box::new(editor)),
            gone: terminal::hang_up(),
        }
    }

    async fn next(&mut self) -> Result<Said> {
        loop {
            let line = match self {
                Self::Plain => tokio::task::spawn_blocking(plain_line).await??,
                Self::Editor { editor, gone } => {
                    let taken = editor.take().context("the editor is gone")?;
                    let (taken, read) = tokio::select! {
                        read = edited(taken) => read?,
                        () = gone.notified() => return Ok(Said::Leave),
                    };
                    *editor = Some(taken);
                    match read? {
                        Signal::Success(line) => Some(line),
                        Signal::CtrlC => continue,
                        _ => None,
                    }
                }
            };
            let Some(line) = line else {
                return Ok(Said::Leave);
            };
            let line = line.trim();
            match line.strip_prefix('/') {
                _ if line.is_empty() => {}
                Some(command) => {
                    let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
                    return Ok(Said::Command(name.to_owned(), rest.to_owned()));
                }
                None => return Ok(Said::Text(line.to_owned())),
            }
        }
    }
}

/// Reads a line with the editor, in a detached thread: the process can exit while the editor blocks on a terminal that is gone.
async fn edited(mut editor: Box<Reedline>) -> Result<(Box<Reedline>, io::Result<Signal>)> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let read = editor.read_line(&Mark);
        // The receiver may be dropped already.
        let _ = tell.send((editor, read));
    });
    told.await.context("the editor is gone")
}

/// Opens the history, in a file that only its owner can read.
fn history(data: &Path) -> Result<FileBackedHistory> {
    let file = data.join("chat_history");
    private_file::prepare(&file)?;
    Ok(FileBackedHistory::with_file(KEPT_LINES, file)?)
}

fn plain_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line)?;
    Ok((count > 0).then_some(line))
}

/// The prompt in front of an input line.
struct Mark;

impl Prompt for Mark {
    fn render_prompt_left(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
    fn render_prompt_right(&self) -> Cow<'_, str> {
        Cow::Borrowed("")
    }
    fn render_prompt_indicator(&self, _mode: PromptEditMode) -> Cow<'_, str> {
        Cow::Borrowed("> ")
    }
    fn render_prompt_multiline_indicator(&self) -> Cow<'_, str> {
        Cow::Borrowed("  ")
    }
    fn render_prompt_history_search_indicator(&self, search: PromptHistorySearch) -> Cow<'_, str> {
        Cow::Owned(format!("(search: {}) ", search.term))
    }
}
