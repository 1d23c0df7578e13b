//! `windlass chat`: an interactive thread on the terminal.

mod commands;
mod completion;
mod diff;
mod handlers;
mod view;

use std::io::{self, BufRead, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Result;
use clap::Args;
use tokio::sync::Notify;
use windlass_protocol::{Call, CreateThread, InputPart, Mode, StartTurn};

use crate::cli::{GlobalOptions, error_text, note};
use crate::client::connect::DaemonConnection;
use crate::client::ids::short;
use crate::client::mentions::mentioned;
use crate::client::thread_session::{ApprovalMode, ThreadSession, TurnView, TurnViewEnd};
use crate::commands::attachments::Attachments;
use crate::commands::run;
use crate::commands::thread_args::ThreadArgs;
use crate::terminal::{self, Colour, Details, Entered, LineEditor, Screen, TypedKeys};
use commands::{find, unknown};
use completion::Words;

/// Starts an interactive thread.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass chat
  windlass chat --continue
  windlass chat --backend claude-code

Lines that begin with a slash are commands; /help lists them. @PATH in a prompt sends a file, an image or the list of a directory.")]
pub(crate) struct Chat {
    #[command(flatten)]
    thread_args: ThreadArgs,
    #[command(flatten)]
    attachments: Attachments,
}

impl Chat {
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let GlobalOptions { workspace, config } = global;
        terminal::configure(config.as_deref());
        let cwd = self.thread_args.cwd(workspace)?;
        let daemon = self.thread_args.connect(&cwd, config).await?;
        let ended = self.session(&daemon, &cwd).await;
        match ended {
            Ok(ChatEnd::Detached) => daemon.close_now().await,
            Ok(ChatEnd::Quit) | Err(_) => daemon.close().await,
        }
        ended.map(|_| ExitCode::SUCCESS)
    }

    async fn session(&self, daemon: &Arc<DaemonConnection>, cwd: &Path) -> Result<ChatEnd> {
        let data = self.thread_args.data()?;
        let mut chat = ChatLoop {
            daemon: Arc::clone(daemon),
            cwd: cwd.to_owned(),
            data: data.clone(),
            new_thread: self.thread_args.new_thread(),
            turn_options: self.thread_args.turn_options(),
            attachments: self.attachments.read()?.unwrap_or_default(),
            approvals: ApprovalMode::for_terminal(self.thread_args.yes),
            keys: InputSource::reads_keys().then(TypedKeys::default),
            session: None,
            details: Details::default(),
            status: String::new(),
            skills: Vec::new(),
            unsent: None,
            end: None,
        };
        if let Some(id) = self.thread_args.find_thread(daemon, cwd).await? {
            chat.resume(&id).await?;
        }
        chat.skills = chat.skills_of_repository().await;
        let words = Words {
            cwd: cwd.to_owned(),
            skills: chat.skills.clone(),
        };
        let mut input = InputSource::open(&data, words);
        let end = loop {
            if let Some(text) = chat.unsent.take() {
                input.insert(&text);
            }
            if let Some(end) = chat.end.take() {
                break end;
            }
            chat.show_status().await?;
            match input.next().await? {
                None => break ChatEnd::Quit,
                Some(line) => chat.enter(line.trim()).await?,
            }
        };
        if let Some(session) = &chat.session {
            let id = short(&session.thread.id);
            note(format!("continue with: windlass chat --resume {id}"));
        }
        Ok(end)
    }
}

/// How a chat ended.
#[derive(Clone, Copy)]
enum ChatEnd {
    Quit,
    /// The user left an open turn.
    Detached,
}

/// The state of the chat loop.
struct ChatLoop {
    daemon: Arc<DaemonConnection>,
    cwd: PathBuf,
    data: PathBuf,
    /// The request that creates new threads.
    new_thread: CreateThread,
    /// Options for turns of the thread that the command line names.
    turn_options: StartTurn,
    /// Images and files of the next prompt.
    attachments: Vec<InputPart>,
    approvals: ApprovalMode,
    /// The keys that are typed during a turn; `None` without a line editor.
    keys: Option<TypedKeys>,
    session: Option<ThreadSession>,
    /// Results that the user can open.
    details: Details,
    /// The status line that was shown last.
    status: String,
    /// Skills of the repository with their descriptions.
    skills: Vec<(String, String)>,
    /// Text that was not sent, for the next input.
    unsent: Option<String>,
    /// Set when the chat is over.
    end: Option<ChatEnd>,
}

impl ChatLoop {
    /// Processes a line of input: a command, or a prompt. A failed command does not end the chat.
    async fn enter(&mut self, line: &str) -> Result<()> {
        let Some(command) = line.strip_prefix('/') else {
            return if line.is_empty() {
                Ok(())
            } else {
                self.prompt(line).await
            };
        };
        let (name, rest) = command
            .split_once(char::is_whitespace)
            .unwrap_or((command, ""));
        if let Err(error) = self.command(name, rest.trim()).await {
            note(format!("error: {}", error_text(&error)));
        }
        Ok(())
    }

    async fn command(&mut self, name: &str, rest: &str) -> Result<()> {
        if let Some(command) = find(name) {
            return (command.run)(self, rest).await;
        }
        if !self.skills.iter().any(|(skill, _)| skill == name) {
            note(unknown(name, &self.skills));
            return Ok(());
        }
        let prompt = format!("Use the skill `{name}`. {rest}");
        self.prompt(prompt.trim()).await
    }

    async fn resume(&mut self, id: &str) -> Result<()> {
        let session = ThreadSession::resume(&self.daemon, id, self.approvals).await?;
        session.show_approval_notice(&mut Screen::for_chat(&self.details))?;
        self.show_last_exchange(&session.thread.id).await?;
        if let Some(open) = session.view_open_turn().await? {
            let watched = watch(open, &mut self.keys, &self.details).await?;
            self.take(watched);
        }
        self.session = Some(session);
        Ok(())
    }

    async fn begin(&self) -> Result<ThreadSession> {
        let request = self.new_thread.clone();
        ThreadSession::begin(&self.daemon, &self.cwd, request, self.approvals).await
    }

    /// Takes the session of the chat, or creates it.
    async fn connected_session(&mut self) -> Result<ThreadSession> {
        self.daemon.ensure_connected().await?;
        match self.session.take() {
            Some(session) => Ok(session),
            None => self.begin().await,
        }
    }

    async fn prompt(&mut self, text: &str) -> Result<()> {
        self.prompt_in(text, None).await
    }

    /// Sends a prompt and shows its turn; `mode` applies to this turn only. A prompt that cannot be sent becomes the next input again.
    async fn prompt_in(&mut self, text: &str, mode: Option<Mode>) -> Result<()> {
        let cwd = self.session.as_ref().map_or(&*self.cwd, ThreadSession::cwd);
        let mentioned = match mentioned(text, cwd) {
            Ok(parts) => parts,
            Err(error) => {
                note(format!("error: {}; nothing was sent", error_text(&error)));
                self.unsent = Some(text.to_owned());
                return Ok(());
            }
        };
        let mut session = match self.connected_session().await {
            Ok(session) => session,
            Err(error) => {
                note(format!("error: {}; nothing was sent", error_text(&error)));
                self.unsent = Some(text.to_owned());
                return Ok(());
            }
        };
        session.approvals = self.approvals;
        let parts: Vec<_> = self.attachments.drain(..).chain(mentioned).collect();
        session.turn_options = StartTurn {
            mode: mode.or(self.turn_options.mode),
            input: (!parts.is_empty()).then_some(parts),
            ..self.turn_options.clone()
        };
        let watched = match session.start_turn(text).await {
            Ok(turn) => watch(turn, &mut self.keys, &self.details).await?,
            Err(error) => {
                note(format!("error: {}", error_text(&error)));
                Watched {
                    unsent: Some(text.to_owned()),
                    is_detached: false,
                }
            }
        };
        self.session = Some(session);
        self.take(watched);
        Ok(())
    }

    /// Applies what happened during a turn.
    fn take(&mut self, watched: Watched) {
        self.unsent = watched.unsent;
        if watched.is_detached {
            self.end = Some(ChatEnd::Detached);
        }
    }

    /// Returns the enabled skills of the repository; none if they cannot be listed.
    async fn skills_of_repository(&self) -> Vec<(String, String)> {
        let listed = self.daemon.api().list_skills(Call::new((), ())).await;
        let skills = listed.map(|listed| listed.skills).unwrap_or_default();
        let enabled = skills.into_iter().filter(|skill| skill.enabled);
        enabled
            .map(|skill| (skill.name, skill.description))
            .collect()
    }
}

/// What happened while turns were shown.
struct Watched {
    /// Text that the user typed and that was not queued.
    unsent: Option<String>,
    /// Whether the user left an open turn.
    is_detached: bool,
}

/// Shows a turn, and the turns of the prompts that the user queues meanwhile.
async fn watch(
    mut view: TurnView<'_>,
    keys: &mut Option<TypedKeys>,
    details: &Details,
) -> Result<Watched> {
    let mut is_detached = false;
    loop {
        let mut screen = Screen::for_chat(details);
        match view.watch(&mut screen, keys.as_mut()).await {
            Ok(ended) => {
                show_end(&ended, &mut screen)?;
                is_detached = matches!(ended, TurnViewEnd::Detached { .. });
            }
            Err(error) => {
                screen.end_line()?;
                note(format!("error: {}", error_text(&error)));
                break;
            }
        }
        if is_detached {
            break;
        }
        match view.next_queued() {
            Some(text) => note(format!("> {text}")),
            None => break,
        }
    }
    let mut unsent = view.take_unsent();
    unsent.extend(keys.as_mut().and_then(TypedKeys::take_text));
    Ok(Watched {
        unsent: (!unsent.is_empty()).then(|| unsent.join("\n")),
        is_detached,
    })
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

/// The source of input: a line editor on a terminal, else plain standard input.
enum InputSource {
    Editor {
        editor: Box<LineEditor>,
        /// Notified when the terminal goes away, because the editor would wait for a key forever.
        gone: Arc<Notify>,
    },
    Plain,
}

impl InputSource {
    /// Returns whether the user types into a line editor.
    fn reads_keys() -> bool {
        io::stdin().is_terminal() && io::stdout().is_terminal()
    }

    fn open(data: &Path, words: Words) -> Self {
        if !Self::reads_keys() {
            return Self::Plain;
        }
        let completions = Box::new(move |before: &str| words.complete(before));
        note("Type a prompt; /help lists commands, Ctrl-D quits.");
        Self::Editor {
            editor: Box::new(LineEditor::open(data, completions)),
            gone: terminal::hang_up(),
        }
    }

    /// Inserts text that the user can edit in the next input.
    fn insert(&mut self, text: &str) {
        if let Self::Editor { editor, .. } = self {
            editor.insert(text);
        }
    }

    /// Returns the next input; `None` at its end, and after Ctrl-C twice.
    async fn next(&mut self) -> Result<Option<String>> {
        let Self::Editor { editor, gone } = self else {
            return Ok(tokio::task::spawn_blocking(plain_line).await??);
        };
        let mut interrupts = 0;
        loop {
            let entered = tokio::select! {
                entered = editor.read() => entered?,
                () = gone.notified() => return Ok(None),
            };
            match entered {
                Entered::Text(line) => return Ok(Some(line)),
                Entered::End => return Ok(None),
                Entered::Interrupt if interrupts > 0 => return Ok(None),
                Entered::Interrupt => {
                    interrupts += 1;
                    note("press Ctrl-C again, or Ctrl-D, to quit");
                }
            }
        }
    }
}

fn plain_line() -> io::Result<Option<String>> {
    let mut line = String::new();
    let count = io::stdin().lock().read_line(&mut line)?;
    Ok((count > 0).then_some(line))
}
