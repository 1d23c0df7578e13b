//! `windlass run`: one prompt, one answer.

use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context, Result, ensure};
use windlass_core::bounds::lines;
use windlass_core::events::{Event, EventData};
use windlass_core::llmsim_driver::LlmSimConfig;
use windlass_core::message::{Controls, InputMessage, ReasoningConfig};
use windlass_runtime::{InProcessRuntime, InProcessRuntimeBuilder, StopReason, TurnResult};

use crate::cli::{FAILED, INTERRUPTED, RunArguments, note, words};
use crate::config::{self, Config};
use crate::data;
use crate::model::{self, Choice};

/// What goes wrong before the turn is a wrong command line or configuration; what goes wrong in it has failed.
pub(crate) async fn run(arguments: RunArguments, config: Option<&Path>) -> Result<ExitCode> {
    let config = config::load(config, &data::usual())?;
    let variable = |name: &str| std::env::var(name).ok();
    let choice = model::choose(arguments.model.as_deref(), &config, variable)?;
    let prompt = prompt(&arguments.prompt)?;
    let runtime = runtime(choice, &config, &arguments.system).await?;
    let answered = answer(&runtime, &prompt, arguments).await;
    Ok(
        answered.unwrap_or_else(|error| match error.downcast_ref::<io::Error>() {
            // Who reads the answer has seen enough.
            Some(error) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
            _ => {
                note(&format!("error: {}", words(&error)));
                ExitCode::from(FAILED)
            }
        }),
    )
}

/// Takes the prompt from the command line, or from standard input for `-`.
fn prompt(given: &str) -> Result<String> {
    let mut prompt = given.to_owned();
    if given == "-" {
        prompt = io::read_to_string(io::stdin()).context("the prompt cannot be read")?;
    }
    ensure!(
        !prompt.trim().is_empty(),
        "the prompt is empty; say what to ask, or `-` to read it from standard input"
    );
    Ok(prompt)
}

async fn answer(
    runtime: &InProcessRuntime,
    prompt: &str,
    arguments: RunArguments,
) -> Result<ExitCode> {
    let session = runtime
        .default_session_id()
        .context("the runtime has no session")?;
    let mut events = runtime.subscribe_after(session, 0).await?;
    let mut input = InputMessage::user(prompt);
    input.controls = arguments.effort.map(|effort| Controls {
        reasoning: Some(ReasoningConfig {
            effort: Some(effort),
        }),
        ..Controls::default()
    });
    let mut turn = Box::pin(runtime.submit(session, input).await?.wait());
    let mut printer = Printer::new(arguments.json);
    let mut result = None;
    let mut interrupt = Box::pin(tokio::signal::ctrl_c());
    loop {
        tokio::select! {
            // The end of the turn is the last thing to be shown, so the events come first.
            biased;
            event = events.next() => match event {
                Some(event) => {
                    let last = printer.show(&event)?;
                    if last {
                        break;
                    }
                }
                None => break,
            },
            ended = &mut turn, if result.is_none() => result = Some(ended?),
            _ = &mut interrupt => {
                interrupt = Box::pin(tokio::signal::ctrl_c());
                runtime.cancel_turn(session).await?;
            }
        }
    }
    let result = match result {
        Some(result) => result,
        None => turn.await?,
    };
    printer.end()?;
    Ok(exit_code(&result))
}

async fn runtime(choice: Choice, config: &Config, system: &str) -> Result<InProcessRuntime> {
    let builder = InProcessRuntimeBuilder::new();
    let builder = match choice {
        Choice::Real(model) => builder
            .driver_registry(model::drivers(config)?)
            .default_model(model),
        Choice::Simulator => builder.llm_sim(LlmSimConfig::echo()),
        Choice::Demonstration => {
            note(model::DEMONSTRATION);
            builder.llm_sim(LlmSimConfig::echo())
        }
    };
    let session =
        |session: windlass_runtime::SingleSessionBuilder| session.agent("assistant", system);
    Ok(builder.single_session(session).build().await?)
}

fn exit_code(result: &TurnResult) -> ExitCode {
    match result.stop_reason {
        StopReason::Completed => ExitCode::SUCCESS,
        StopReason::Cancelled => {
            note("interrupted");
            ExitCode::from(INTERRUPTED)
        }
        _ => {
            let code = result.error_code.as_deref().unwrap_or("failed");
            let cause = result.error.as_deref().unwrap_or("the turn failed");
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
        _ => None,
    }
}

/// Writes what a script or a person reads.
struct Printer {
    out: io::Stdout,
    json: bool,
    in_line: bool,
}

impl Printer {
    fn new(json: bool) -> Self {
        Self {
            out: io::stdout(),
            json,
            in_line: false,
        }
    }

    /// Shows an event and tells whether it ends the turn.
    fn show(&mut self, event: &Event) -> io::Result<bool> {
        if self.json {
            let line = serde_json::to_string(event).map_err(io::Error::other)?;
            writeln!(self.out, "{line}")?;
        } else if let EventData::OutputMessageDelta(delta) = &event.data {
            let text = match self.out.is_terminal() {
                true => lines(&delta.delta),
                false => delta.delta.as_str().into(),
            };
            self.out.write_all(text.as_bytes())?;
            self.in_line = !delta.delta.ends_with('\n');
        }
        self.out.flush()?;
        Ok(matches!(
            event.data,
            EventData::TurnCompleted(_) | EventData::TurnFailed(_) | EventData::TurnCancelled(_)
        ))
    }

    fn end(&mut self) -> io::Result<()> {
        if std::mem::take(&mut self.in_line) {
            writeln!(self.out)?;
        }
        self.out.flush()
    }
}
