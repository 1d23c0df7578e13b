//! `shell_output`: what a command in the background has printed.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::tools::{Tool, ToolExecutionResult, ToolHints};
use windlass_core::traits::{SecretPlaces, ToolContext};
use windlass_core::typed_id::SessionId;

use super::background::Commands;
use super::error::ShellError;
use super::slice::Printed;
use crate::outputs::{CommandEnd, CommandRecord, SessionOutputs, shown};
use crate::tool::{arguments_of, nowhere, object, reads};

const NAME: &str = "shell_output";
/// How long a call waits at most for something new.
const MAX_WAIT_MS: u64 = 60_000;
/// How many commands are listed, the newest.
const MAX_LISTED: usize = 50;

pub(super) struct ShellOutput(pub(super) Commands);

#[derive(Debug, Deserialize)]
struct Args {
    id: Option<String>,
    after: Option<u64>,
    wait_ms: Option<u64>,
}

#[async_trait]
impl Tool for ShellOutput {
    fn name(&self) -> &str {
        NAME
    }
    fn description(&self) -> &str {
        "Show what a command in the background has printed, and whether it still runs. Without an `id`, list the commands of this \
         conversation. Without `after`, show the end of the output; with it, what came after that many bytes."
    }
    fn parameters_schema(&self) -> Value {
        object(
            json!({
                "id": { "type": "string", "description": "The command, as the call of shell named it" },
                "after": { "type": "integer", "minimum": 0, "description": "The `next` of an earlier call" },
                "wait_ms": { "type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS, "description": "How long to wait for something new or for its end" }
            }),
            &[],
        )
    }
    fn hints(&self) -> ToolHints {
        reads().with_timeout_ms(MAX_WAIT_MS * 2)
    }
    fn requires_context(&self) -> bool {
        true
    }
    async fn execute(&self, arguments: Value) -> ToolExecutionResult {
        self.execute_with_context(arguments, &nowhere()).await
    }
    async fn execute_with_context(
        &self,
        arguments: Value,
        context: &ToolContext,
    ) -> ToolExecutionResult {
        let args: Args = match arguments_of(NAME, arguments) {
            Ok(args) => args,
            Err(told) => return told,
        };
        let commands = self.0.clone();
        let done = match args.id {
            None => commands.list(context.session_id).await,
            Some(id) => {
                let wait = Duration::from_millis(args.wait_ms.unwrap_or(0).min(MAX_WAIT_MS));
                commands.show_news(context, &id, args.after, wait).await
            }
        };
        match done {
            Ok(result) => ToolExecutionResult::success(result),
            Err(error) => ToolExecutionResult::tool_error(error.to_string()),
        }
    }
}

impl Commands {
    /// Shows what is new of a command, as soon as there is something or it has ended.
    async fn show_news(
        &self,
        context: &ToolContext,
        id: &str,
        after: Option<u64>,
        wait: Duration,
    ) -> Result<Value, ShellError> {
        let until = Instant::now() + wait;
        let mut seen = after;
        loop {
            let came = self.wait(context.session_id, id, seen, until).await;
            let shown = self.show(context, id.to_owned(), after).await?;
            // What came may have to wait for what follows.
            let has_news = shown["output"] != "" || shown["status"] != "running";
            if has_news || came.is_none() || Instant::now() >= until {
                return Ok(shown);
            }
            seen = came;
        }
    }

    /// Waits until there is something new of a command, or it has ended. Returns how many bytes came of one that runs.
    async fn wait(
        &self,
        session_id: SessionId,
        id: &str,
        seen: Option<u64>,
        until: Instant,
    ) -> Option<u64> {
        let behind = self.background.find(session_id, id)?;
        let seen = seen.unwrap_or_else(|| behind.output.came());
        let waiting = async {
            tokio::select! {
                () = behind.output.more_than(seen) => {}
                () = behind.ended() => {}
            }
        };
        let _ = tokio::time::timeout_at(until, waiting).await;
        Some(behind.output.came())
    }

    /// Shows a command and what it has printed.
    pub(super) async fn show(
        &self,
        context: &ToolContext,
        id: String,
        after: Option<u64>,
    ) -> Result<Value, ShellError> {
        let session_id = context.session_id;
        let places: Option<Arc<dyn SecretPlaces>> = context.secret_places.clone();
        // Before the record is read: one that ends meanwhile is then told as running, and not as lost.
        let running = self.background.find(session_id, &id);
        let so_far = running.as_ref().map(|behind| behind.output.so_far());
        let network = running.as_ref().and_then(|behind| behind.network());
        let (outputs, max_bytes) = (self.outputs.clone(), self.max_bytes);
        let looking = tokio::task::spawn_blocking(move || {
            let missing = || ShellError::NoSuchCommand {
                id: crate::tool::cut_line(&id, 40),
            };
            let mut record = outputs.record(session_id, &id).ok_or_else(missing)?;
            record.network = record.network.or(network);
            let of = SessionOutputs {
                outputs,
                session_id,
            };
            let opened = SessionOutputs::find(Some(&of), &shown(&id));
            let opened = opened.and_then(Result::ok).ok_or_else(missing)?;
            let mut printed = Printed {
                bytes: opened.metadata.len(),
                file: opened.file,
                so_far: so_far.as_ref(),
                places: places.as_deref(),
            };
            let slice = printed.slice(after, max_bytes);
            let slice = slice.map_err(ShellError::io("read the output"))?;
            let command = described(&id, &record, so_far.is_some());
            Ok(slice.told(command, record.network))
        });
        looking.await.map_err(|_| ShellError::Lost)?
    }

    async fn list(&self, session_id: SessionId) -> Result<Value, ShellError> {
        let commands = self.clone();
        let listing = tokio::task::spawn_blocking(move || {
            let records = commands.outputs.records(session_id);
            let records = records.map_err(ShellError::io("look for commands"))?;
            let newest = &records[records.len().saturating_sub(MAX_LISTED)..];
            let told = newest.iter().map(|(id, record)| {
                let is_running = commands.background.find(session_id, id).is_some();
                described(id, record, is_running)
            });
            Ok(json!({ "commands": told.collect::<Vec<_>>() }))
        });
        listing.await.map_err(|_| ShellError::Lost)?
    }
}

/// Says what is known of a command.
fn described(id: &str, record: &CommandRecord, is_running: bool) -> Value {
    let mut told = json!({ "id": id, "started": record.started, "path": shown(id) });
    told["status"] = match (record.end, is_running) {
        (Some(CommandEnd::Exited { exit_code, signal }), _) => {
            told["exit_code"] = json!(exit_code);
            if let Some(signal) = signal {
                told["signal"] = json!(signal);
            }
            json!("exited")
        }
        (Some(CommandEnd::Stopped), _) => json!("stopped"),
        (Some(CommandEnd::TimedOut), _) => json!("timed_out"),
        (None, true) => json!("running"),
        (None, false) | (Some(CommandEnd::Unknown), _) => {
            told["remark"] = json!("it ended with the process that ran it; its outcome is unknown");
            json!("unknown")
        }
    };
    told
}
