//! `windlass run`: one prompt, carried to its end before one's eyes.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use windlass_protocol::{Status, Turn};

use crate::cli::{FAILED, INTERRUPTED, failed, note};
use crate::commands::talking::Talking;
use crate::reach::Link;
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
    #[command(flatten)]
    talking: Talking,
    /// Instructions for the agent.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// How much the model should think, such as low or high.
    #[arg(long)]
    effort: Option<String>,
    /// Writes every event as a line of JSON instead of the answer's text.
    #[arg(long)]
    json: bool,
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
        let ended = self.on(&link, &cwd, prompt).await;
        let ended = match ended {
            Ok(code) => code,
            Err(error) => failed(&error, FAILED),
        };
        link.leave().await;
        Ok(ended)
    }

    /// Takes the prompt from the command line, or from standard input for `-`.
    fn prompt(&self) -> Result<Option<String>> {
        let prompt = match self.prompt.as_deref() {
            None if self.talking.is_earlier() => return Ok(None),
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
            Some("-") if !self.talking.yes => Approvals::Refuse,
            _ => Approvals::here(self.talking.yes),
        };
        let mut screen = Screen::new(self.json);
        let talk = self.conversation(link, cwd, approvals).await?;
        if self.talking.is_earlier() {
            if !self.json {
                talk.tell_allowed(&mut screen)?;
            }
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
        if self.talking.is_earlier() {
            let id = self.talking.earlier(link, cwd).await?;
            let id = id.context("there is no conversation in this directory yet")?;
            return Talk::resume(link, &id, approvals).await;
        }
        let mut wanted = self.talking.wanted();
        for (name, value) in [
            ("system_prompt", &self.system),
            ("reasoning_effort", &self.effort),
        ] {
            if let Some(value) = value {
                wanted[name] = value.as_str().into();
            }
        }
        Talk::begin(link, cwd, wanted, approvals).await
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
