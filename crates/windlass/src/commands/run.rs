//! `windlass run`: runs one prompt to its end and shows the progress.

use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::{Args, ValueEnum};
use serde_json::Value;
use windlass_core::llm_driver_registry::MAX_OUTPUT_SCHEMA_BYTES;
use windlass_protocol::{CreateThread, InputPart, OnBusy, StartTurn, Status, Turn};

use crate::cli::{FAILED, INTERRUPTED, USAGE, failed, note, printable, without_code};
use crate::commands::attachments::{Attachments, read_at_most};
use crate::commands::thread_args::ThreadArgs;
use crate::connect::DaemonConnection;
use crate::ids::short;
use crate::piped;
use crate::terminal::{Colour, Screen, TypedAhead};
use crate::thread_session::{Approvals, Ended, ThreadSession};

/// What happens to a prompt while a turn is open.
#[derive(Debug, Clone, Copy, ValueEnum)]
enum BusyPolicy {
    /// The command fails.
    Refuse,
    /// The prompt waits for its own turn.
    Queue,
    /// The prompt joins the open turn.
    Steer,
    /// The open turn is interrupted.
    Interrupt,
}

impl From<BusyPolicy> for OnBusy {
    fn from(policy: BusyPolicy) -> Self {
        match policy {
            BusyPolicy::Refuse => Self::Refuse,
            BusyPolicy::Queue => Self::Queue,
            BusyPolicy::Steer => Self::Steer,
            BusyPolicy::Interrupt => Self::Interrupt,
        }
    }
}

/// Gives an agent something to do, and shows what it does.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass run \"What is this project about?\"
  git diff | windlass run --yes \"Review this change\"
  windlass run --backend claude-code \"Fix the failing test\"
  windlass run --continue \"Now the documentation\"
  windlass run --image screenshot.png \"What is wrong here?\"
  windlass run --output-schema city.json \"Which city is the largest of Norway?\" | jq -r .name
  windlass run --json \"List the files\" | jq -r .event

The agent works in the current directory, with files and a shell, and asks before it changes something. Everything is recorded: a run that was \
killed goes on with --continue. Ctrl-C interrupts the turn and keeps what is there, a second one leaves at once; --continue then needs a prompt \
that says what to do next.")]
pub(crate) struct Run {
    /// What to do. Piped input is appended to it; `-` is the input alone. It may be left out to go on with a turn that was left open.
    prompt: Option<String>,
    #[command(flatten)]
    thread_args: ThreadArgs,
    #[command(flatten)]
    attachments: Attachments,
    /// What happens to the prompt while the earlier thread has an open turn [default: the open turn is shown to its end first]. The
    /// command then shows the turn that the prompt starts or joins.
    #[arg(long, value_name = "POLICY")]
    on_busy: Option<BusyPolicy>,
    /// Instructions for the agent; an earlier thread keeps its own.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["resume", "go_on"])]
    system: Option<String>,
    /// How much the model should think, such as low or high.
    #[arg(long)]
    effort: Option<String>,
    /// The file with the JSON Schema that the answer must match. Only the answer's JSON value is then written to standard output.
    #[arg(long, value_name = "FILE", conflicts_with = "backend")]
    output_schema: Option<PathBuf>,
    /// Writes every event as a line of JSON instead of the answer's text.
    #[arg(long)]
    json: bool,
    /// Does not say how to go on: the data is gone afterwards.
    #[arg(long, hide = true)]
    no_hint: bool,
}

impl Run {
    /// Errors before the turn are usage errors; errors during the turn are failures.
    pub(crate) async fn run(
        self,
        workspace: Option<PathBuf>,
        config: Option<&Path>,
    ) -> Result<ExitCode> {
        let prompt = self.prompt()?;
        let schema = self.output_schema.as_deref().map(read_schema).transpose()?;
        let parts = self.attachments.read()?;
        ensure!(
            prompt.is_some() || parts.is_none() && self.on_busy.is_none(),
            "files and --on-busy need a prompt"
        );
        let cwd = self.thread_args.cwd(workspace)?;
        let daemon = self.thread_args.connect(&cwd, config).await?;
        let ended = match self.on(&daemon, &cwd, prompt, (schema, parts)).await {
            Ok(code) => code,
            Err(Stopped::Left) => {
                daemon.leave_at_once().await;
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(Stopped::Before(error)) => failed(&error, USAGE),
            Err(Stopped::In(error)) => failed(&error, FAILED),
        };
        daemon.leave().await;
        Ok(ended)
    }

    /// Returns the prompt of the command line followed by piped input; `None` to continue without a prompt.
    fn prompt(&self) -> Result<Option<String>> {
        let prompt = match self.prompt.as_deref() {
            Some("-") => piped::read()?,
            Some(prompt) => match piped::input()? {
                Some(input) if !prompt.trim().is_empty() => format!("{prompt}\n\n{input}"),
                _ => prompt.to_owned(),
            },
            None => match piped::input()? {
                Some(input) => input,
                None if self.thread_args.is_earlier() => return Ok(None),
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
        daemon: &Arc<DaemonConnection>,
        cwd: &Path,
        prompt: Option<String>,
        (schema, parts): (Option<Value>, Option<Vec<InputPart>>),
    ) -> Result<ExitCode, Stopped> {
        let approvals = match self.prompt.as_deref() {
            // Standard input is the prompt, so approvals cannot be read from it.
            Some("-") if !self.thread_args.yes => Approvals::Refuse,
            _ => Approvals::here(self.thread_args.yes),
        };
        let mut screen = match schema {
            Some(_) => Screen::of_value(self.json),
            None => Screen::new(self.json),
        };
        let session = self.session(daemon, cwd, approvals).await;
        let mut session = session.map_err(Stopped::Before)?;
        session.of_turns.output_schema = schema;
        session.of_turns.input = parts;
        session.of_turns.on_busy = self.on_busy.map(Into::into);
        if self.thread_args.is_earlier() && !self.json {
            session.tell_allowed(&mut screen)?;
        }
        if self.thread_args.is_earlier()
            && self.on_busy.is_none()
            && let Some(open) = session.left_open().await.map_err(Stopped::Before)?
        {
            let ended = open
                .watched(&mut screen, TypedAhead::Lines)
                .await
                .map_err(Stopped::In)?;
            if prompt.is_none() || matches!(ended, Ended::Left { .. }) {
                return self.end(&session, ended, &mut screen).await;
            }
            screen.rest()?;
        }
        let Some(prompt) = prompt else {
            let waits = anyhow!(
                "the thread {} waits for you: say what to do next",
                session.thread.id
            );
            return Err(Stopped::Before(waits));
        };
        let turn = session.say(&prompt).await.map_err(Stopped::Before)?;
        let ended = turn
            .watched(&mut screen, TypedAhead::Lines)
            .await
            .map_err(Stopped::In)?;
        self.end(&session, ended, &mut screen).await
    }

    async fn session(
        &self,
        daemon: &Arc<DaemonConnection>,
        cwd: &Path,
        approvals: Approvals,
    ) -> Result<ThreadSession> {
        if self.thread_args.is_earlier() {
            let id = self.thread_args.earlier(daemon, cwd).await?;
            let id = id.context("there is no thread in this directory yet")?;
            let mut session = ThreadSession::resume(daemon, &id, approvals).await?;
            session.of_turns = StartTurn {
                reasoning_effort: self.effort.clone(),
                ..self.thread_args.turn_options()
            };
            return Ok(session);
        }
        let request = CreateThread {
            system_prompt: self.system.clone(),
            reasoning_effort: self.effort.clone(),
            ..self.thread_args.new_thread()
        };
        ThreadSession::begin(daemon, cwd, request, approvals).await
    }

    /// Reports the result and how to continue.
    async fn end(
        &self,
        session: &ThreadSession,
        ended: Ended,
        screen: &mut Screen,
    ) -> Result<ExitCode, Stopped> {
        let turn = match ended {
            Ended::Turn(turn) => turn,
            Ended::Left { is_interrupted } => {
                note(&left(&session.thread.id, is_interrupted));
                return Err(Stopped::Left);
            }
        };
        if self.output_schema.is_some() {
            let output = session.output(&turn.id).await.map_err(Stopped::In)?;
            screen.show_value(output)?;
        }
        screen.sum_up(&turn)?;
        let code = exit_code(&turn);
        if !self.json && !self.no_hint && io::stderr().is_terminal() {
            let id = short(&session.thread.id);
            let dots = screen.style().dots();
            let next = format!("thread {id}; go on with: windlass run --resume {id} \"{dots}\"");
            screen.tell(Colour::Dim, &next)?;
        }
        Ok(code)
    }
}

/// Reads a JSON Schema. Whether it can be used is for the daemon to decide.
fn read_schema(path: &Path) -> Result<Value> {
    let shown = printable(path);
    let text = read_at_most(path, MAX_OUTPUT_SCHEMA_BYTES as u64)?;
    serde_json::from_slice(&text).with_context(|| format!("{shown} is not JSON"))
}

/// How far a run got before an error.
enum Stopped {
    /// No turn was started.
    Before(anyhow::Error),
    /// The turn was started.
    In(anyhow::Error),
    /// The user detached.
    Left,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::In(error.into())
    }
}

/// Explains how to return to a turn that the user left. An interrupted turn does not continue in the background.
fn left(thread: &str, is_interrupted: bool) -> String {
    if is_interrupted {
        format!(
            "the turn was interrupted; `windlass run --resume {thread} \"…\"` says what to do next"
        )
    } else {
        format!("the turn was left open; `windlass run --resume {thread}` goes on with it")
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

/// Returns advice for errors that a flag or command can fix. The error itself contains advice about the provider.
fn advice(code: &str) -> Option<&'static str> {
    match code {
        "model_missing" => Some("--model names another"),
        "rate_limited" | "overloaded" | "server" | "timeout" | "stalled" | "broken_stream" => {
            Some("--continue goes on with the thread, --model asks another model")
        }
        _ => None,
    }
}
