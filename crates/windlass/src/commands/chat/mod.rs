//! `windlass chat`: an interactive thread on the terminal.

mod view;

use std::borrow::Cow;
use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result};
use clap::Args;
use reedline::{
    Emacs, FileBackedHistory, KeyCode, KeyModifiers, Prompt, PromptEditMode, PromptHistorySearch,
    Reedline, ReedlineEvent, Signal, default_emacs_keybindings,
};
use tokio::sync::{Notify, oneshot};
use windlass_core::bounds::one_line;
use windlass_protocol::{Call, CreateThread, ForkThread, PatchThread, StartTurn, UndoThread};

use crate::cli::{GlobalOptions, error_text, note};
use crate::client::calls::{self, by_id};
use crate::client::connect::DaemonConnection;
use crate::client::ids::short;
use crate::client::thread_session::{self, ApprovalMode, ThreadSession, TurnViewEnd};
use crate::commands::attachments::Attachments;
use crate::commands::run;
use crate::commands::thread_args::ThreadArgs;
use crate::commands::threads::{archive, note_restored};
use crate::data::private_file;
use crate::terminal::{self, Colour, Details, Screen, TypedAhead};

/// Maximum number of lines in the history file.
const MAX_HISTORY_LINES: usize = 1000;
const HELP: &str = "\
/help          this text
/new           start a new thread; `/new TEXT` with a prompt
/resume ID     continue another thread; the end of its ID is enough
/btw TEXT      ask a side question; the thread does not change
/undo          undo the last turn; `/undo files` also restores its files
/model NAME    use another model, as provider/model
/show N        show the result #N, or the last one; so does Ctrl-O
/yes           allow all calls without asking
/quit          quit, as Ctrl-D does; Ctrl-C stops a turn";

/// Starts an interactive thread.
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

/// A line of input.
enum ChatInput {
    Text(String),
    Command(String, String),
    /// The end of input.
    Quit,
}

impl Chat {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let GlobalOptions { workspace, config } = global;
        let cwd = self.thread_args.cwd(workspace)?;
        let daemon = self.thread_args.connect(&cwd, config).await?;
        let ended = self.session(&daemon, &cwd).await;
        daemon.close().await;
        ended.map(|()| ExitCode::SUCCESS)
    }

    async fn session(&self, daemon: &Arc<DaemonConnection>, cwd: &Path) -> Result<()> {
        let mut chat = ChatLoop {
            daemon: Arc::clone(daemon),
            cwd: cwd.to_owned(),
            new_thread: self.thread_args.new_thread(),
            turn_options: StartTurn {
                input: self.attachments.read()?,
                ..self.thread_args.turn_options()
            },
            approvals: ApprovalMode::for_terminal(self.thread_args.yes),
            ahead: LineSource::typed_ahead(),
            session: None,
            details: Details::default(),
            status: String::new(),
        };
        if let Some(id) = self.thread_args.find_thread(daemon, cwd).await? {
            chat.resume(&id).await?;
        }
        let mut lines = LineSource::open(&self.thread_args.data()?);
        loop {
            chat.show_status().await?;
            match lines.next().await? {
                ChatInput::Quit => break,
                ChatInput::Text(text) => chat.prompt(&text).await?,
                ChatInput::Command(name, _) if matches!(name.as_str(), "quit" | "exit" | "q") => {
                    break;
                }
                ChatInput::Command(name, rest) => {
                    // A failed command does not end the chat.
                    if let Err(error) = chat.command(&name, rest.trim()).await {
                        note(format!("error: {}", error_text(&error)));
                    }
                }
            }
        }
        if let Some(session) = &chat.session {
            let id = short(&session.thread.id);
            note(format!("continue with: windlass chat --resume {id}"));
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
    /// Options for turns of the thread that the command line names.
    turn_options: StartTurn,
    approvals: ApprovalMode,
    /// How input that is typed during a turn is read.
    ahead: TypedAhead,
    session: Option<ThreadSession>,
    /// Results that the user can open.
    details: Details,
    /// The status line that was shown last.
    status: String,
}

impl ChatLoop {
    async fn resume(&mut self, id: &str) -> Result<()> {
        let session = ThreadSession::resume(&self.daemon, id, self.approvals).await?;
        let mut screen = Screen::for_chat(&self.details);
        session.show_approval_notice(&mut screen)?;
        self.show_last_exchange(&session.thread.id).await?;
        if let Some(open) = session.view_open_turn().await? {
            show_end(&open.watch(&mut screen, self.ahead).await?, &mut screen)?;
        }
        self.session = Some(session);
        Ok(())
    }

    async fn begin(&self) -> Result<ThreadSession> {
        let request = self.new_thread.clone();
        ThreadSession::begin(&self.daemon, &self.cwd, request, self.approvals).await
    }

    async fn prompt(&mut self, text: &str) -> Result<()> {
        self.daemon.ensure_connected().await?;
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.begin().await?,
        };
        session.approvals = self.approvals;
        session.turn_options.clone_from(&self.turn_options);
        // Attachments are sent only with the first prompt.
        self.turn_options.input = None;
        let mut screen = Screen::for_chat(&self.details);
        let ended = run_turn(&session, text, &mut screen, self.ahead).await;
        self.session = Some(session);
        match ended {
            Ok(ended) => show_end(&ended, &mut screen),
            Err(error) => {
                screen.end_line()?;
                note(format!("error: {}", error_text(&error)));
                Ok(())
            }
        }
    }

    async fn command(&mut self, name: &str, rest: &str) -> Result<()> {
        if matches!(name, "resume" | "btw" | "undo" | "model") {
            self.daemon.ensure_connected().await?;
        }
        match name {
            "help" | "?" => note(HELP),
            "new" => {
                self.session = None;
                self.turn_options = StartTurn::default();
                if !rest.is_empty() {
                    self.prompt(rest).await?;
                }
            }
            "resume" => {
                let id = thread_session::find(&self.daemon, rest).await?;
                self.turn_options = StartTurn::default();
                self.resume(&id).await?;
            }
            "btw" => self.aside(rest).await?,
            "undo" => self.undo(rest).await?,
            "model" => self.model(rest).await?,
            "show" => self.show_detail(rest)?,
            "yes" => {
                self.approvals = ApprovalMode::All;
                note("all calls are allowed from now on");
            }
            _ => note(format!(
                "there is no command `/{name}`; /help lists the commands"
            )),
        }
        Ok(())
    }

    /// Asks in a fork, so that the thread itself does not change.
    async fn aside(&mut self, text: &str) -> Result<()> {
        anyhow::ensure!(!text.is_empty(), "the question is missing: /btw TEXT");
        let mut aside = match &self.session {
            Some(session) => {
                let call = Call::new(by_id(&session.thread.id), ForkThread::default());
                let fork = self.daemon.api().fork_thread(call).await?;
                ThreadSession::resume(&self.daemon, &fork.id, self.approvals).await?
            }
            None => self.begin().await?,
        };
        aside.turn_options.clone_from(&self.turn_options);
        let mut screen = Screen::for_chat(&self.details);
        let ended = run_turn(&aside, text, &mut screen, self.ahead).await;
        // The fork is archived, whether the turn succeeded or not.
        let archived = calls::archive(&*self.daemon.api(), &aside.thread.id).await;
        show_end(&ended?, &mut screen)?;
        archived?;
        Ok(())
    }

    async fn undo(&mut self, rest: &str) -> Result<()> {
        anyhow::ensure!(matches!(rest, "" | "files"), "use `/undo` or `/undo files`");
        let session = self
            .session
            .as_ref()
            .context("there is no turn to undo yet")?;
        let request = UndoThread {
            files: rest == "files",
            ..UndoThread::default()
        };
        let call = Call::new(by_id(&session.thread.id), request);
        let undone = self.daemon.api().undo_thread(call).await?;
        archive(&self.daemon, &session.thread.id).await;
        note(format!("undone: {}", undone.original_user_text));
        match &undone.files {
            Some(files) => note_restored(files, None),
            None => note(format!(
                "files were not restored; `windlass threads rewind {} --files` restores them",
                short(&session.thread.id)
            )),
        }
        self.session =
            Some(ThreadSession::resume(&self.daemon, &undone.thread.id, self.approvals).await?);
        Ok(())
    }

    async fn model(&mut self, name: &str) -> Result<()> {
        anyhow::ensure!(
            !name.is_empty(),
            "the name is missing: /model provider/model"
        );
        self.daemon.check_model(name).await?;
        if let Some(session) = &self.session {
            let change = PatchThread {
                model: Some(name.to_owned()),
                ..PatchThread::default()
            };
            let changed = calls::patch(&*self.daemon.api(), &session.thread.id, change).await;
            changed?;
        }
        self.new_thread.model = Some(name.to_owned());
        self.turn_options.model = None;
        note(format!("{} is used from now on", one_line(name)));
        Ok(())
    }
}

/// Starts a turn with `text` and shows it until it ends.
async fn run_turn(
    session: &ThreadSession,
    text: &str,
    screen: &mut Screen,
    ahead: TypedAhead,
) -> Result<TurnViewEnd> {
    session.start_turn(text).await?.watch(screen, ahead).await
}

fn show_end(ended: &TurnViewEnd, screen: &mut Screen) -> Result<()> {
    match ended {
        TurnViewEnd::Ended(turn) => {
            screen.summarize(turn)?;
            run::exit_code(turn);
        }
        TurnViewEnd::Detached { is_interrupted } => {
            let end = if *is_interrupted {
                "the turn was interrupted"
            } else {
                "the turn was left open"
            };
            screen.notify(Colour::Dim, end)?;
        }
    }
    Ok(())
}

/// The source of input lines: a line editor on a terminal, else plain standard input.
enum LineSource {
    Editor {
        editor: Option<Box<Reedline>>,
        /// Notified when the terminal goes away, because the editor would wait for a key forever.
        gone: Arc<Notify>,
    },
    Plain,
}

impl LineSource {
    /// Returns how input typed during a turn is read: as keys if the next prompt uses the line editor, else as lines.
    fn typed_ahead() -> TypedAhead {
        if io::stdin().is_terminal() && io::stdout().is_terminal() {
            TypedAhead::Keys
        } else {
            TypedAhead::Lines
        }
    }

    fn open(data: &Path) -> Self {
        if Self::typed_ahead() == TypedAhead::Lines {
            return Self::Plain;
        }
        let mut keys = default_emacs_keybindings();
        let open = ReedlineEvent::ExecuteHostCommand("/show".to_owned());
        keys.add_binding(KeyModifiers::CONTROL, KeyCode::Char('o'), open);
        let editor = Reedline::create().with_edit_mode(Box::new(Emacs::new(keys)));
        let editor = match history(data) {
            Ok(history) => editor.with_history(Box::new(history)),
            // The history is optional; the chat works without it.
            Err(_) => editor,
        };
        note("Type a prompt; /help lists commands, Ctrl-D quits.");
        Self::Editor {
            editor: Some(Box::new(editor)),
            gone: terminal::hang_up(),
        }
    }

    async fn next(&mut self) -> Result<ChatInput> {
        loop {
            let line = match self {
                Self::Plain => tokio::task::spawn_blocking(plain_line).await??,
                Self::Editor { editor, gone } => {
                    let current = editor.take().context("the line editor has failed")?;
                    let (current, read) = tokio::select! {
                        read = edit_line(current) => read?,
                        () = gone.notified() => return Ok(ChatInput::Quit),
                    };
                    *editor = Some(current);
                    match read? {
                        Signal::Success(line) | Signal::HostCommand(line) => Some(line),
                        Signal::CtrlC => continue,
                        _ => None,
                    }
                }
            };
            let Some(line) = line else {
                return Ok(ChatInput::Quit);
            };
            let line = line.trim();
            match line.strip_prefix('/') {
                _ if line.is_empty() => {}
                Some(command) => {
                    let (name, rest) = command.split_once(' ').unwrap_or((command, ""));
                    return Ok(ChatInput::Command(name.to_owned(), rest.to_owned()));
                }
                None => return Ok(ChatInput::Text(line.to_owned())),
            }
        }
    }
}

/// Reads a line with the editor, in a detached thread: the process can exit while the editor blocks on a terminal that is gone.
async fn edit_line(mut editor: Box<Reedline>) -> Result<(Box<Reedline>, io::Result<Signal>)> {
    let (send, line) = oneshot::channel();
    std::thread::spawn(move || {
        let read = editor.read_line(&ChatPrompt);
        // The receiver may be dropped already.
        let _ = send.send((editor, read));
    });
    line.await.context("the line editor has failed")
}

/// Opens the history file, which only its owner can read.
fn history(data: &Path) -> Result<FileBackedHistory> {
    let file = data.join("chat_history");
    private_file::prepare(&file)?;
    Ok(FileBackedHistory::with_file(MAX_HISTORY_LINES, file)?)
}

fn plain_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line)?;
    Ok((count > 0).then_some(line))
}

/// The prompt in front of an input line.
struct ChatPrompt;

impl Prompt for ChatPrompt {
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
