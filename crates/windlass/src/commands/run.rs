//! `windlass run`: one prompt, carried to its end before one's eyes.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use windlass_protocol::{CreateThread, StartTurn, Status, Turn};

use crate::cli::{FAILED, INTERRUPTED, USAGE, failed, note, without_code};
use crate::commands::talking::Talking;
use crate::ids::short;
use crate::piped;
use crate::reach::Link;
use crate::talk::{Approvals, Ended, Talk};
use crate::terminal::{Colour, Screen, TypedAhead};

/// Gives an agent something to do, and shows what it does.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass run \"What is this project about?\"
  git diff | windlass run --yes \"Review this change\"
  windlass run --backend claude-code \"Fix the failing test\"
  windlass run --continue \"Now the documentation\"
  windlass run --json \"List the files\" | jq -r .event

The agent works in the current directory, with files and a shell, and asks before it changes something. Everything is recorded: a run that was \
killed goes on with --continue. Ctrl-C interrupts the turn and keeps what is there, a second one leaves at once; --continue then needs a prompt \
that says what to do next.")]
pub(crate) struct Run {
    /// What to do. Piped input is appended to it; `-` is the input alone. It may be left out to go on with a turn that was left open.
    prompt: Option<String>,
    #[command(flatten)]
    talking: Talking,
    /// Instructions for the agent; an earlier thread keeps its own.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["resume", "go_on"])]
    system: Option<String>,
    /// How much the model should think, such as low or high.
    #[arg(long)]
    effort: Option<String>,
    /// Writes every event as a line of JSON instead of the answer's text.
    #[arg(long)]
    json: bool,
    /// Does not say how to go on: the data is gone afterwards.
    #[arg(long, hide = true)]
    no_hint: bool,
}

impl Run {
    /// What goes wrong before the turn is a wrong command line or configuration; what goes wrong in it has failed.
    pub(crate) async fn carry_out(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let prompt = self.prompt()?;
        let cwd = self.talking.cwd(workspace)?;
        let link = self.talking.link(&cwd, config).await?;
        let ended = match self.on(&link, &cwd, prompt).await {
            Ok(code) => code,
            Err(Stopped::Left) => {
                link.leave_at_once().await;
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(Stopped::Before(error)) => failed(&error, USAGE),
            Err(Stopped::In(error)) => failed(&error, FAILED),
        };
        link.leave().await;
        Ok(ended)
    }

    /// Returns the prompt of the command line with what is piped in after it; `None` to continue without one.
    fn prompt(&self) -> Result<Option<String>> {
        let prompt = match self.prompt.as_deref() {
            Some("-") => piped::read()?,
            Some(prompt) => match piped::input()? {
                Some(input) if !prompt.trim().is_empty() => format!("{prompt}\n\n{input}"),
                _ => prompt.to_owned(),
            },
            None => match piped::input()? {
                Some(input) => input,
                None if self.talking.is_earlier() => return Ok(None),
                None => {
                    bail!(
                        "say what to do: windlass run \"…\", or `-` to read it from standard input"
                    )
                }
            },
        };
        ensure!(
            !prompt.trim().is_empty(),
            "the prompt is empty; say what to do, or `-` to read it from standard input"
        );
        Ok(Some(prompt))
    }

    async fn on(
        &self,
        link: &Arc<Link>,
        cwd: &Path,
        prompt: Option<String>,
    ) -> Result<ExitCode, Stopped> {
        let approvals = match self.prompt.as_deref() {
            // Standard input is the prompt, so nobody can answer there.
            Some("-") if !self.talking.yes => Approvals::Refuse,
            _ => Approvals::here(self.talking.yes),
        };
        let mut screen = Screen::new(self.json);
        let talk = self.talk(link, cwd, approvals).await;
        let talk = talk.map_err(Stopped::Before)?;
        if self.talking.is_earlier() && !self.json {
            talk.tell_allowed(&mut screen)?;
        }
        if self.talking.is_earlier()
            && let Some(open) = talk.left_open().await.map_err(Stopped::Before)?
        {
            let ended = open
                .watched(&mut screen, TypedAhead::Lines)
                .await
                .map_err(Stopped::In)?;
            if prompt.is_none() || matches!(ended, Ended::Left { .. }) {
                return self.end(&talk, ended, &mut screen);
            }
            screen.rest()?;
        }
        let Some(prompt) = prompt else {
            let waits = anyhow!(
                "the thread {} waits for you: say what to do next",
                talk.thread.id
            );
            return Err(Stopped::Before(waits));
        };
        let turn = talk.say(&prompt).await.map_err(Stopped::Before)?;
        let ended = turn
            .watched(&mut screen, TypedAhead::Lines)
            .await
            .map_err(Stopped::In)?;
        self.end(&talk, ended, &mut screen)
    }

    async fn talk(&self, link: &Arc<Link>, cwd: &Path, approvals: Approvals) -> Result<Talk> {
        if self.talking.is_earlier() {
            let id = self.talking.earlier(link, cwd).await?;
            let id = id.context("there is no thread in this directory yet")?;
            let mut talk = Talk::resume(link, &id, approvals).await?;
            talk.of_turns = StartTurn {
                reasoning_effort: self.effort.clone(),
                ..self.talking.turn_options()
            };
            return Ok(talk);
        }
        let request = CreateThread {
            system_prompt: self.system.clone(),
            reasoning_effort: self.effort.clone(),
            ..self.talking.new_thread()
        };
        Talk::begin(link, cwd, request, approvals).await
    }

    /// Says how it ended and how to go on.
    fn end(&self, talk: &Talk, ended: Ended, screen: &mut Screen) -> Result<ExitCode, Stopped> {
        let turn = match ended {
            Ended::Turn(turn) => turn,
            Ended::Left { is_interrupted } => {
                note(&left(&talk.thread.id, is_interrupted));
                return Err(Stopped::Left);
            }
        };
        screen.sum_up(&turn)?;
        let code = exit_code(&turn);
        if !self.json && !self.no_hint && io::stderr().is_terminal() {
            let id = short(&talk.thread.id);
            let dots = screen.style().dots();
            let next = format!("thread {id}; go on with: windlass run --resume {id} \"{dots}\"");
            screen.tell(Colour::Dim, &next)?;
        }
        Ok(code)
    }
}

/// How far a run came before something went wrong.
enum Stopped {
    /// No turn was begun.
    Before(anyhow::Error),
    /// In the turn.
    In(anyhow::Error),
    /// The person wanted to be away.
    Left,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::In(error.into())
    }
}

/// Says how to go on with what somebody left: a turn that is interrupted does not.
fn left(thread: &str, is_interrupted: bool) -> String {
    match is_interrupted {
        true => {
            format!(
                "the turn was interrupted; `windlass run --resume {thread} \"…\"` says what to do next"
            )
        }
        false => {
            format!("the turn was left open; `windlass run --resume {thread}` goes on with it")
        }
    }
}

pub(crate) fn exit_code(turn: &Turn) -> ExitCode {
    match turn.status {
        Status::Completed => ExitCode::SUCCESS,
        Status::Interrupted | Status::Canceled => {
            note("interrupted");
            ExitCode::from(INTERRUPTED)
        }
        _ => {
            let code = turn.error_code.as_deref().unwrap_or("failed");
            let cause = turn.error.as_deref().unwrap_or("the turn failed");
            let cause = without_code(cause);
            let next = advice(code).map_or(String::new(), |advice| format!("; {advice}"));
            note(&format!("error ({code}): {cause}{next}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Says what a person can do here about an error of this kind. What to do about the provider, the error says itself.
fn advice(code: &str) -> Option<&'static str> {
    match code {
        "model_missing" => Some("--model names another"),
        "rate_limited" | "overloaded" | "server" | "timeout" | "stalled" | "broken_stream" => {
            Some("--continue goes on with the thread, --model asks another model")
        }
        _ => None,
    }
}
