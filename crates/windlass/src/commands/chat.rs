//! `windlass chat`: a thread, line by line.

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
use crate::commands::run;
use crate::commands::talking::Talking;
use crate::commands::threads::{archive, tell_restored};
use crate::ids::short;
use crate::private_file;
use crate::reach::{Link, explained};
use crate::talk::{self, Approvals, Ended, Talk};
use crate::terminal::{self, Colour, Screen, TypedAhead};

/// How many lines the history keeps.
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
    talking: Talking,
}

/// What a line asks for.
enum Said {
    Text(String),
    Command(String, String),
    /// Nobody says anything any more.
    Leave,
}

impl Chat {
    pub(crate) async fn carry_out(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let cwd = self.talking.cwd(workspace)?;
        let link = self.talking.link(&cwd, config).await?;
        let talked = self.talk(&link, &cwd).await;
        link.leave().await;
        talked.map(|()| ExitCode::SUCCESS)
    }

    async fn talk(&self, link: &Arc<Link>, cwd: &Path) -> Result<()> {
        let mut room = Room {
            link: Arc::clone(link),
            cwd: cwd.to_owned(),
            new_thread: self.talking.new_thread(),
            of_turns: self.talking.turn_options(),
            approvals: Approvals::here(self.talking.yes),
            ahead: Lines::ahead(),
            talk: None,
        };
        if let Some(id) = self.talking.earlier(link, cwd).await? {
            room.resume(&id).await?;
        }
        let mut lines = Lines::open(&self.talking.data()?);
        loop {
            match lines.next().await? {
                Said::Leave => break,
                Said::Text(text) => room.say(&text).await?,
                Said::Command(name, _) if matches!(name.as_str(), "quit" | "exit" | "q") => break,
                Said::Command(name, rest) => {
                    // A command that does not work is no reason to leave.
                    if let Err(error) = room.command(&name, rest.trim()).await {
                        note(&format!("error: {}", words(&error)));
                    }
                }
            }
        }
        if let Some(talk) = &room.talk {
            let id = short(&talk.thread.id);
            note(&format!("go on with: windlass chat --resume {id}"));
        }
        Ok(())
    }
}

/// Where somebody talks.
struct Room {
    link: Arc<Link>,
    cwd: PathBuf,
    /// The request for a new thread.
    new_thread: CreateThread,
    /// The options of turns of the earlier thread that was named.
    of_turns: StartTurn,
    approvals: Approvals,
    /// Who reads what is typed while a turn runs.
    ahead: TypedAhead,
    talk: Option<Talk>,
}

impl Room {
    async fn resume(&mut self, id: &str) -> Result<()> {
        let talk = Talk::resume(&self.link, id, self.approvals).await?;
        let mut screen = Screen::new(false);
        talk.tell_allowed(&mut screen)?;
        if let Some(open) = talk.left_open().await? {
            tell_end(&open.watched(&mut screen, self.ahead).await?, &mut screen)?;
        }
        note(&format!("thread {}", short(&talk.thread.id)));
        self.talk = Some(talk);
        Ok(())
    }

    async fn begin(&self) -> Result<Talk> {
        let request = self.new_thread.clone();
        Talk::begin(&self.link, &self.cwd, request, self.approvals).await
    }

    async fn say(&mut self, text: &str) -> Result<()> {
        self.link.is_there().await?;
        let mut talk = match self.talk.take() {
            Some(talk) => talk,
            None => self.begin().await?,
        };
        talk.approvals = self.approvals;
        talk.of_turns.clone_from(&self.of_turns);
        let mut screen = Screen::new(false);
        let said = watched(&talk, text, &mut screen, self.ahead).await;
        self.talk = Some(talk);
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
            self.link.is_there().await?;
        }
        match name {
            "help" | "?" => note(HELP),
            "new" => {
                self.talk = None;
                self.of_turns = StartTurn::default();
                if !rest.is_empty() {
                    self.say(rest).await?;
                }
            }
            "resume" => {
                let id = talk::find(&self.link, rest).await?;
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

    /// Asks in a fork, so that the thread stays as it is.
    async fn aside(&mut self, text: &str) -> Result<()> {
        anyhow::ensure!(!text.is_empty(), "say what to ask: /btw TEXT");
        let mut aside = match &self.talk {
            Some(talk) => {
                let call = Call::new(by_id(&talk.thread.id), ForkThread::default());
                let fork = self.link.api().fork_thread(call).await.map_err(explained)?;
                Talk::resume(&self.link, &fork.id, self.approvals).await?
            }
            None => self.begin().await?,
        };
        aside.of_turns.clone_from(&self.of_turns);
        let mut screen = Screen::new(false);
        let said = watched(&aside, text, &mut screen, self.ahead).await;
        // Whatever came of it, nobody goes on with it.
        let archived = calls::archive(&*self.link.api(), &aside.thread.id).await;
        tell_end(&said?, &mut screen)?;
        archived.map_err(explained)?;
        Ok(())
    }

    async fn undo(&mut self, rest: &str) -> Result<()> {
        anyhow::ensure!(
            matches!(rest, "" | "files"),
            "it is `/undo` or `/undo files`"
        );
        let talk = self
            .talk
            .as_ref()
            .context("there is nothing to take back yet")?;
        let request = UndoThread {
            files: rest == "files",
            ..UndoThread::default()
        };
        let call = Call::new(by_id(&talk.thread.id), request);
        let undone = self.link.api().undo_thread(call).await.map_err(explained)?;
        archive(&self.link, &talk.thread.id).await;
        note(&format!("taken back: {}", undone.original_user_text));
        match &undone.files {
            Some(files) => tell_restored(files),
            None => note(&format!(
                "files stay as they are; `windlass threads rewind {} --files` brings them back",
                short(&talk.thread.id)
            )),
        }
        self.talk = Some(Talk::resume(&self.link, &undone.thread.id, self.approvals).await?);
        Ok(())
    }

    async fn model(&mut self, name: &str) -> Result<()> {
        anyhow::ensure!(!name.is_empty(), "say which: /model provider/model");
        self.link.check_model(name).await?;
        if let Some(talk) = &self.talk {
            let change = PatchThread {
                model: Some(name.to_owned()),
                ..PatchThread::default()
            };
            let changed = calls::patch(&*self.link.api(), &talk.thread.id, change).await;
            changed.map_err(explained)?;
        }
        self.new_thread.model = Some(name.to_owned());
        self.of_turns.model = None;
        note(&format!("{} answers from here on", one_line(name)));
        Ok(())
    }
}

/// Says something, and watches the turn to its end.
async fn watched(talk: &Talk, text: &str, screen: &mut Screen, ahead: TypedAhead) -> Result<Ended> {
    talk.say(text).await?.watched(screen, ahead).await
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

/// Where lines come from: an editor on a terminal, else standard input as it is.
enum Lines {
    Editor {
        editor: Option<Box<Reedline>>,
        /// Hears when the terminal goes away: an editor would wait for ever for its keys.
        gone: Arc<Notify>,
    },
    Plain,
}

impl Lines {
    /// Says what is read at the next prompt: keys of an editor, where there is a terminal for one.
    fn ahead() -> TypedAhead {
        match io::stdin().is_terminal() && io::stdout().is_terminal() {
            true => TypedAhead::Keys,
            false => TypedAhead::Lines,
        }
    }

    fn open(data: &Path) -> Self {
        if Self::ahead() == TypedAhead::Lines {
            return Self::Plain;
        }
        let editor = Reedline::create();
        let editor = match history(data) {
            Ok(history) => editor.with_history(Box::new(history)),
            // It is a comfort, and no reason not to talk.
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

/// Lets an editor read a line, in a thread that nobody waits for when the terminal is gone.
async fn edited(mut editor: Box<Reedline>) -> Result<(Box<Reedline>, io::Result<Signal>)> {
    let (tell, told) = oneshot::channel();
    std::thread::spawn(move || {
        let read = editor.read_line(&Mark);
        // Whoever asked may have left.
        let _ = tell.send((editor, read));
    });
    told.await.context("the editor is gone")
}

/// Opens what was said before, in a file that only its owner can read.
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

/// What stands before a line.
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
