//! `windlass run`: one prompt, carried to its end before one's eyes.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde_json::{Value, json};
use windlass_protocol::{Status, Turn};

use crate::cli::{FAILED, INTERRUPTED, note, words};
use crate::data;
use crate::reach::{Link, Reach};
use crate::talk::{self, Approvals, Ended, Talk};
use crate::terminal::{Colour, Screen};

/// Gives an agent something to do, and shows what it does.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass run \"What is this project about?\"
  git diff | windlass run - --yes
  windlass run --backend claude-code \"Fix the failing test\"
  windlass run --continue \"Now the documentation\"
  windlass run --json \"List the files\" | jq -r .event

The agent works in the current directory, with files and a shell, and asks before it changes something. Everything is recorded: a run that was
interrupted or killed goes on with --continue. Ctrl-C stops the turn and keeps what is there; a second one leaves at once.")]
pub(crate) struct Run {
    /// What to do; `-` reads it from standard input. It may be left out to go on with a turn that was left open.
    prompt: Option<String>,
    /// The model, as `provider/model`; providers are openai, openai-chat, anthropic, gemini and sim.
    #[arg(long, env = "WINDLASS_MODEL")]
    model: Option<String>,
    /// The agent of others that does it, such as claude-code, codex or gemini.
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// The directory to work in [default: the current one].
    #[arg(long, value_name = "DIR")]
    cwd: Option<PathBuf>,
    /// Allows everything without asking.
    #[arg(long, short)]
    yes: bool,
    /// Goes on with this conversation; the end of its id will do.
    #[arg(long, value_name = "ID", conflicts_with = "go_on")]
    resume: Option<String>,
    /// Goes on with the newest conversation of this directory.
    #[arg(long = "continue", short = 'c')]
    go_on: bool,
    /// Instructions for the agent.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// How much the model should think, such as low or high.
    #[arg(long)]
    effort: Option<String>,
    /// Writes every event as a line of JSON instead of the answer's text.
    #[arg(long)]
    json: bool,
    /// The data directory [default: the user's own, under `$XDG_STATE_HOME/windlass`].
    #[arg(long, value_name = "DIR", env = "WINDLASS_DATA")]
    data: Option<PathBuf>,
}

impl Run {
    /// What goes wrong before the turn is a wrong command line or configuration; what goes wrong in it has failed.
    pub(crate) async fn carry_out(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let prompt = self.prompt()?;
        let cwd = match self.cwd.clone().or(workspace) {
            Some(cwd) => cwd,
            None => std::env::current_dir().context("the current directory is gone")?,
        };
        ensure!(
            cwd.is_dir(),
            "{} is no directory; name another with --cwd",
            crate::cli::printable(&cwd)
        );
        let link = Arc::new(
            Link::open(Reach {
                data: data::directory(self.data.clone()),
                config: config.map(Path::to_owned),
                model: self.model.clone(),
                workspace: cwd.clone(),
            })
            .await?,
        );
        let ended = self.on(&link, &cwd, prompt).await;
        let ended = match ended {
            Ok(code) => code,
            Err(error) if is_closed(&error) => ExitCode::SUCCESS,
            Err(error) => {
                note(&format!("error: {}", words(&error)));
                ExitCode::from(FAILED)
            }
        };
        link.leave().await;
        Ok(ended)
    }

    /// Takes the prompt from the command line, or from standard input for `-`.
    fn prompt(&self) -> Result<Option<String>> {
        let prompt = match self.prompt.as_deref() {
            None if self.go_on || self.resume.is_some() => return Ok(None),
            None => {
                bail!("say what to do: windlass run \"…\", or `-` to read it from standard input")
            }
            Some("-") => io::read_to_string(io::stdin()).context("the prompt cannot be read")?,
            Some(prompt) => prompt.to_owned(),
        };
        ensure!(
            !prompt.trim().is_empty(),
            "the prompt is empty; say what to do, or `-` to read it from standard input"
        );
        Ok(Some(prompt))
    }

    async fn on(&self, link: &Arc<Link>, cwd: &Path, prompt: Option<String>) -> Result<ExitCode> {
        let approvals = match self.prompt.as_deref() {
            // Standard input is the prompt, so nobody can answer there.
            Some("-") if !self.yes => Approvals::Refuse,
            _ => Approvals::here(self.yes),
        };
        let mut screen = Screen::new(self.json);
        let talk = self.conversation(link, cwd, approvals).await?;
        if self.go_on || self.resume.is_some() {
            let ended = talk.go_on(&mut screen).await?;
            match (ended, &prompt) {
                (Some(ended), None) => return self.end(&talk, ended, &mut screen),
                (Some(Ended::Left), _) => return Ok(ExitCode::from(INTERRUPTED)),
                (None, None) => bail!(
                    "the conversation {} waits for you: say what to do next",
                    talk.thread.id
                ),
                (_, Some(_)) => {}
            }
        }
        let ended = talk.say(&prompt.unwrap_or_default(), &mut screen).await?;
        self.end(&talk, ended, &mut screen)
    }

    async fn conversation(
        &self,
        link: &Arc<Link>,
        cwd: &Path,
        approvals: Approvals,
    ) -> Result<Talk> {
        let id = match &self.resume {
            Some(id) => Some(talk::find(link, id).await?),
            None if self.go_on => {
                let newest = talk::newest_in(link, cwd).await?;
                Some(newest.context("there is no conversation in this directory yet")?)
            }
            None => None,
        };
        if let Some(id) = id {
            return Talk::resume(link, &id, approvals).await;
        }
        let wanted = json!({
            "model": self.model,
            "backend": self.backend,
            "system_prompt": self.system,
            "reasoning_effort": self.effort,
        });
        Talk::begin(link, cwd, without_nulls(wanted), approvals).await
    }

    /// Says how it ended and how to go on.
    fn end(&self, talk: &Talk, ended: Ended, screen: &mut Screen) -> Result<ExitCode> {
        let Ended::Turn(turn) = ended else {
            note(&format!(
                "the turn was left open; `windlass run --resume {}` goes on with it",
                talk.thread.id
            ));
            return Ok(ExitCode::from(INTERRUPTED));
        };
        screen.sum_up(&turn)?;
        let code = exit_code(&turn);
        if !self.json && io::stderr().is_terminal() {
            let id = talk::short(&talk.thread.id);
            let next = format!("conversation {id}; go on with: windlass run --resume {id} \"…\"");
            screen.tell(Colour::Dim, &next)?;
        }
        Ok(code)
    }
}

/// Leaves out what is not said.
fn without_nulls(mut value: Value) -> Value {
    if let Some(fields) = value.as_object_mut() {
        fields.retain(|_, value| !value.is_null());
    }
    value
}

/// Tells whether whoever reads the answer has seen enough.
fn is_closed(error: &anyhow::Error) -> bool {
    let error = error.downcast_ref::<io::Error>();
    error.is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
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
            let next = advice(code).map_or(String::new(), |advice| format!("; {advice}"));
            note(&format!("error ({code}): {cause}{next}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Says what a person can do about an error of this kind, where the error itself cannot know.
fn advice(code: &str) -> Option<&'static str> {
    match code {
        "auth" => Some("check the key of the provider"),
        "network" => Some("check the connection, and the base URL if you set one"),
        "model_missing" => Some("check the name after --model"),
        "rate_limited" | "overloaded" => {
            Some("wait a while and go on with --continue, or choose another model with --model")
        }
        "server" | "timeout" | "stalled" | "broken_stream" => Some(
            "the provider has trouble: try again with --continue, or choose another with --model",
        ),
        "too_large" => Some("begin a new conversation, or compact this one"),
        _ => None,
    }
}
