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

use crate::cli::{
    FAILED, GlobalOptions, INTERRUPTED, USAGE, failed, note, printable, without_code,
};
use crate::client::connect::DaemonConnection;
use crate::client::ids::short;
use crate::client::mentions::mentioned;
use crate::client::thread_session::{ApprovalMode, ThreadSession, TurnViewEnd};
use crate::commands::attachments::{Attachments, read_at_most};
use crate::commands::thread_args::ThreadArgs;
use crate::piped;
use crate::terminal::{self, Colour, Screen};

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

/// Runs an agent with a prompt and shows its progress.
#[derive(Args)]
#[command(after_help = "\
Examples:
  windlass run \"What is this project about?\"
  git diff | windlass run --yes \"Review this change\"
  windlass run --backend claude-code \"Fix the failing test\"
  windlass run --continue \"Now the documentation\"
  windlass run --image screenshot.png \"What is wrong here?\"
  windlass run --output-schema city.json \"Which is the largest city in Norway?\" | jq -r .name
  windlass run --json \"List the files\" | jq -r .event
  windlass run -p \"Write a commit message\" < changes.diff
  windlass run -p --json \"What does @src/main.rs do?\" | jq -r .answer

The agent works in the current directory with files and a shell, and asks before it changes anything. Everything is recorded: --continue resumes \
a run that was killed. Ctrl-C interrupts the turn, whose changes remain; a second Ctrl-C quits immediately. --continue then needs a prompt.")]
pub(crate) struct Run {
    /// Prompt. `@PATH` sends a file, an image or the list of a directory with it. Piped input is appended; `-` reads only the input. Optional if an
    /// open turn is resumed.
    prompt: Option<String>,
    #[command(flatten)]
    thread_args: ThreadArgs,
    #[command(flatten)]
    attachments: Attachments,
    /// What happens to the prompt if the thread has an open turn [default: the open turn is shown to its end first]. The command
    /// then shows the turn that the prompt starts or joins.
    #[arg(long, value_name = "POLICY")]
    on_busy: Option<BusyPolicy>,
    /// System prompt of a new thread.
    #[arg(long, value_name = "TEXT", conflicts_with_all = ["resume", "continue_newest"])]
    system: Option<String>,
    /// Reasoning effort of the model, such as low or high.
    #[arg(long)]
    effort: Option<String>,
    /// File with a JSON Schema that the answer must match. Standard output then contains only the answer's JSON value.
    #[arg(long, value_name = "FILE", conflicts_with = "backend")]
    output_schema: Option<PathBuf>,
    /// Writes each event as a line of JSON instead of the answer's text, then the result.
    #[arg(long)]
    json: bool,
    /// Prints only the answer, for scripts; with `--json` only the result as one JSON object: answer, usage, changed files and status.
    #[arg(long, short)]
    print: bool,
    /// Prints no hint how to continue, because the data is temporary.
    #[arg(long, hide = true)]
    no_hint: bool,
}

impl Run {
    /// Errors before the turn are usage errors; errors during the turn are failures.
    pub(crate) async fn run(self, global: GlobalOptions) -> Result<ExitCode> {
        let GlobalOptions { workspace, config } = global;
        terminal::configure(config.as_deref());
        let prompt = self.prompt()?;
        let schema = self.output_schema.as_deref().map(read_schema).transpose()?;
        let attached = self.attachments.read()?;
        ensure!(
            prompt.is_some() || attached.is_none() && self.on_busy.is_none(),
            "files and --on-busy need a prompt"
        );
        let cwd = self.thread_args.cwd(workspace)?;
        // Piped text may come from anywhere, so paths in it are not read.
        let words = self.prompt.as_deref().filter(|prompt| *prompt != "-");
        let mentioned = mentioned(words.unwrap_or_default(), &cwd)?;
        let parts: Vec<_> = attached.into_iter().flatten().chain(mentioned).collect();
        let parts = (!parts.is_empty()).then_some(parts);
        let daemon = self.thread_args.connect(&cwd, config).await?;
        let ended = match self.run_on(&daemon, &cwd, prompt, (schema, parts)).await {
            Ok(code) => code,
            Err(Stopped::Detached) => {
                daemon.close_now().await;
                return Ok(ExitCode::from(INTERRUPTED));
            }
            Err(Stopped::Before(error)) => failed(&error, USAGE),
            Err(Stopped::In(error)) => failed(&error, FAILED),
        };
        daemon.close().await;
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
                None if self.thread_args.names_thread() => return Ok(None),
                None => {
                    bail!(
                        "the prompt is missing: windlass run \"…\", or `-` to read it from standard input"
                    )
                }
            },
        };
        ensure!(
            !prompt.trim().is_empty(),
            "the prompt is empty; use `-` to read it from standard input"
        );
        Ok(Some(prompt))
    }

    async fn run_on(
        &self,
        daemon: &Arc<DaemonConnection>,
        cwd: &Path,
        prompt: Option<String>,
        (schema, parts): (Option<Value>, Option<Vec<InputPart>>),
    ) -> Result<ExitCode, Stopped> {
        let approvals = match self.prompt.as_deref() {
            // Standard input is the prompt, so approvals cannot be read from it.
            Some("-") if !self.thread_args.yes => ApprovalMode::Deny,
            _ => ApprovalMode::for_terminal(self.thread_args.yes),
        };
        let mut screen = match schema {
            Some(_) => Screen::for_value(self.json),
            None => Screen::new(self.json),
        };
        if self.print {
            screen = screen.only_result();
        } else {
            screen.name_model();
        }
        let session = self.session(daemon, cwd, approvals).await;
        let mut session = session.map_err(Stopped::Before)?;
        session.turn_options.output_schema = schema;
        session.turn_options.input = parts;
        session.turn_options.on_busy = self.on_busy.map(Into::into);
        if self.thread_args.names_thread() && !self.json {
            session.show_approval_notice(&mut screen)?;
        }
        if self.thread_args.names_thread()
            && self.on_busy.is_none()
            && let Some(mut open) = session.view_open_turn().await.map_err(Stopped::Before)?
        {
            let ended = open.watch(&mut screen, None).await.map_err(Stopped::In)?;
            if prompt.is_none() || matches!(ended, TurnViewEnd::Detached { .. }) {
                return self.end(&session, ended, &mut screen).await;
            }
            screen.end_line()?;
        }
        let Some(prompt) = prompt else {
            let missing = anyhow!(
                "the thread {} has no open turn; a prompt is required to continue it",
                session.thread.id
            );
            return Err(Stopped::Before(missing));
        };
        let mut turn = session.start_turn(&prompt).await.map_err(Stopped::Before)?;
        let ended = turn.watch(&mut screen, None).await.map_err(Stopped::In)?;
        self.end(&session, ended, &mut screen).await
    }

    async fn session(
        &self,
        daemon: &Arc<DaemonConnection>,
        cwd: &Path,
        approvals: ApprovalMode,
    ) -> Result<ThreadSession> {
        if self.thread_args.names_thread() {
            let id = self.thread_args.find_thread(daemon, cwd).await?;
            let id = id.context("there is no thread in this directory yet")?;
            let mut session = ThreadSession::resume(daemon, &id, approvals).await?;
            session.turn_options = StartTurn {
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
        ended: TurnViewEnd,
        screen: &mut Screen,
    ) -> Result<ExitCode, Stopped> {
        let turn = match ended {
            TurnViewEnd::Ended(turn) => turn,
            TurnViewEnd::Detached { is_interrupted } => {
                note(how_to_continue(&session.thread.id, is_interrupted));
                return Err(Stopped::Detached);
            }
        };
        if self.output_schema.is_some() {
            let output = session.output(&turn.id).await.map_err(Stopped::In)?;
            screen.show_value(output)?;
        }
        screen.summarize(&turn)?;
        let code = exit_code(&turn);
        if !self.json && !self.print && !self.no_hint && io::stderr().is_terminal() {
            let id = short(&session.thread.id);
            let dots = screen.style().dots();
            let next = format!("thread {id}; continue with: windlass run --resume {id} \"{dots}\"");
            screen.notify(Colour::Dim, &next)?;
        }
        Ok(code)
    }
}

/// Reads a JSON Schema. The daemon validates it.
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
    /// The user left an open or interrupted turn.
    Detached,
}

impl From<io::Error> for Stopped {
    fn from(error: io::Error) -> Self {
        Self::In(error.into())
    }
}

/// Explains how to continue a turn that the user left. An interrupted turn has ended.
fn how_to_continue(thread: &str, is_interrupted: bool) -> String {
    if is_interrupted {
        format!("the turn was interrupted; continue with `windlass run --resume {thread} \"…\"`")
    } else {
        format!("the turn was left open; resume it with `windlass run --resume {thread}`")
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
            note(format!("error ({code}): {cause}{next}"));
            ExitCode::from(FAILED)
        }
    }
}

/// Returns advice for errors that a flag can fix. The error itself contains advice about the provider.
fn advice(code: &str) -> Option<&'static str> {
    match code {
        "model_missing" => Some("select another with --model"),
        "rate_limited" | "overloaded" | "server" | "timeout" | "stalled" | "broken_stream" => {
            Some("continue with --continue, or use another model with --model")
        }
        _ => None,
    }
}
