//! `shell_output`: the output of a background command.

use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass_core::bounds::shortened;
use windlass_core::session_tool::{SessionTool, ToolFailure, object};
use windlass_core::tools::ToolHints;
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;

use super::background::Commands;
use super::error::ShellError;
use super::slice::CommandOutput;
use crate::outputs::{CommandEnd, CommandRecord, SessionOutputs, output_path};
use crate::tool::read_only_hints;

/// Maximum time that a call waits for new output.
const MAX_WAIT_MS: u64 = 60_000;
/// Maximum number of commands listed, newest first.
const MAX_LISTED: usize = 50;

pub(super) struct ShellOutputTool(pub(super) Commands);

#[derive(Debug, Deserialize)]
pub(super) struct Args {
    id: Option<String>,
    after: Option<u64>,
    wait_ms: Option<u64>,
}

#[async_trait]
impl SessionTool for ShellOutputTool {
    type Args = Args;
    const NAME: &'static str = "shell_output";
    const DESCRIPTION: &'static str = "Show the output of a background command, and whether it still runs. Without an `id`, list the commands of this \
         conversation. Without `after`, show the end of the output; with it, the output after that many bytes.";

    fn schema(&self) -> Value {
        object(
            json!({
                "id": { "type": "string", "description": "ID of the command from the result of shell" },
                "after": { "type": "integer", "minimum": 0, "description": "The `next` of an earlier call" },
                "wait_ms": { "type": "integer", "minimum": 0, "maximum": MAX_WAIT_MS, "description": "How long to wait for new output or for its end" }
            }),
            &[],
        )
    }
    fn hints(&self) -> ToolHints {
        read_only_hints().with_timeout_ms(MAX_WAIT_MS * 2)
    }
    async fn run(&self, args: Args, context: &ToolContext) -> Result<Value, ToolFailure> {
        let commands = self.0.clone();
        let result = match args.id {
            None => commands.list(context.session_id).await,
            Some(id) => {
                let wait = Duration::from_millis(args.wait_ms.unwrap_or(0).min(MAX_WAIT_MS));
                commands
                    .show_new_output(context, &id, args.after, wait)
                    .await
            }
        };
        result.map_err(ToolFailure::error)
    }
}

impl Commands {
    /// Returns new output of a command as soon as there is some or the command has ended.
    async fn show_new_output(
        &self,
        context: &ToolContext,
        id: &str,
        after: Option<u64>,
        wait: Duration,
    ) -> Result<Value, ShellError> {
        let until = Instant::now() + wait;
        let mut seen = after;
        loop {
            let received = self.wait(context.session_id, id, seen, until).await;
            let shown = self.show(context, id.to_owned(), after).await?;
            // New bytes may have to wait for those that follow.
            let has_new_output = shown["output"] != "" || shown["status"] != "running";
            if has_new_output || received.is_none() || Instant::now() >= until {
                return Ok(shown);
            }
            seen = received;
        }
    }

    /// Waits for new output of a command or for its end. For a running command, returns the number of bytes received.
    async fn wait(
        &self,
        session_id: SessionId,
        id: &str,
        seen: Option<u64>,
        until: Instant,
    ) -> Option<u64> {
        let command = self.background.find(session_id, id)?;
        let seen = seen.unwrap_or_else(|| command.output.received());
        let waiting = async {
            tokio::select! {
                () = command.output.received_more_than(seen) => {}
                () = command.ended() => {}
            }
        };
        let _ = tokio::time::timeout_at(until, waiting).await;
        Some(command.output.received())
    }

    /// Returns the status of a command and its output.
    pub(super) async fn show(
        &self,
        context: &ToolContext,
        id: String,
        after: Option<u64>,
    ) -> Result<Value, ShellError> {
        let session_id = context.session_id;
        let places = context.secret_places.clone();
        // Looked up before the record is read, so that a command that ends meanwhile is reported as running and not as lost.
        let running = self.background.find(session_id, &id);
        let extent = running.as_ref().map(|command| command.output.extent());
        let network = running.as_ref().and_then(|command| command.network());
        let (outputs, max_bytes) = (self.outputs.clone(), self.max_bytes);
        let looking = tokio::task::spawn_blocking(move || {
            let missing = || ShellError::NoSuchCommand {
                id: shortened(&id, 40),
            };
            let mut record = outputs.record(session_id, &id).ok_or_else(missing)?;
            record.network = record.network.or(network);
            let of = SessionOutputs {
                outputs,
                session_id,
            };
            let opened = SessionOutputs::find(Some(&of), &output_path(&id));
            let opened = opened.and_then(Result::ok).ok_or_else(missing)?;
            let mut printed = CommandOutput {
                bytes: opened.metadata.len(),
                file: opened.file,
                extent: extent.as_ref(),
                places: places.as_deref(),
            };
            let slice = printed.slice(after, max_bytes);
            let slice = slice.map_err(ShellError::io("read the output"))?;
            let command = describe(&id, &record, extent.is_some());
            Ok(slice.into_result(command, record.network))
        });
        looking.await.map_err(|_| ShellError::Lost)?
    }

    async fn list(&self, session_id: SessionId) -> Result<Value, ShellError> {
        let commands = self.clone();
        let listing = tokio::task::spawn_blocking(move || {
            let records = commands.outputs.records(session_id);
            let records = records.map_err(ShellError::io("look for commands"))?;
            let newest = &records[records.len().saturating_sub(MAX_LISTED)..];
            let described = newest.iter().map(|(id, record)| {
                let is_running = commands.background.find(session_id, id).is_some();
                describe(id, record, is_running)
            });
            Ok(json!({ "commands": described.collect::<Vec<_>>() }))
        });
        listing.await.map_err(|_| ShellError::Lost)?
    }
}

/// Returns the status of a command.
fn describe(id: &str, record: &CommandRecord, is_running: bool) -> Value {
    let mut status = json!({ "id": id, "started": record.started, "path": output_path(id) });
    status["status"] = match (record.end, is_running) {
        (Some(CommandEnd::Exited { exit_code, signal }), _) => {
            status["exit_code"] = json!(exit_code);
            if let Some(signal) = signal {
                status["signal"] = json!(signal);
            }
            json!("exited")
        }
        (Some(CommandEnd::Stopped), _) => json!("stopped"),
        (Some(CommandEnd::TimedOut), _) => json!("timed_out"),
        (None, true) => json!("running"),
        (None, false) | (Some(CommandEnd::Unknown), _) => {
            status["remark"] =
                json!("it ended with the process that ran it; its outcome is unknown");
            json!("unknown")
        }
    };
    status
}
