//! `shell_output`: what a command in the background has printed.

use std::io::{self, Read, Seek, SeekFrom};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;
use serde_json::{Value, json};
use windlass_core::tools::{Tool, ToolExecutionResult, ToolHints};
use windlass_core::traits::ToolContext;
use windlass_core::typed_id::SessionId;

use super::background::Commands;
use super::error::ShellError;
use crate::outputs::{CommandEnd, CommandRecord, KeptSoFar, SessionOutputs, shown};
use crate::tool::{arguments_of, nowhere, object, reads, with_remarks};

const NAME: &str = "shell_output";
/// How long a call waits at most for something new.
const MAX_WAIT_MS: u64 = 60_000;
/// How often it looks.
const LOOK_PAUSE: Duration = Duration::from_millis(50);
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
                commands
                    .wait(context.session_id, &id, args.after, wait)
                    .await;
                commands.show(context.session_id, id, args.after).await
            }
        };
        match done {
            Ok(result) => ToolExecutionResult::success(result),
            Err(error) => ToolExecutionResult::tool_error(error.to_string()),
        }
    }
}

impl Commands {
    /// Waits until there is something new of a command, or it has ended.
    async fn wait(&self, session_id: SessionId, id: &str, after: Option<u64>, wait: Duration) {
        let Some(behind) = self.background.find(session_id, id) else {
            return;
        };
        let seen = after.unwrap_or_else(|| behind.output.so_far().total);
        let news = async {
            while behind.output.so_far().total <= seen {
                tokio::time::sleep(LOOK_PAUSE).await;
            }
        };
        let waiting = async {
            tokio::select! {
                () = news => {}
                () = behind.ended() => {}
            }
        };
        let _ = tokio::time::timeout(wait, waiting).await;
    }

    /// Shows a command and what it has printed.
    pub(super) async fn show(
        &self,
        session_id: SessionId,
        id: String,
        after: Option<u64>,
    ) -> Result<Value, ShellError> {
        // Before the record is read: one that ends meanwhile is then told as running, and not as lost.
        let running = self.background.find(session_id, &id);
        let so_far = running.as_ref().map(|behind| behind.output.so_far());
        let (outputs, max_bytes) = (self.outputs.clone(), self.max_bytes);
        let looking = tokio::task::spawn_blocking(move || {
            let missing = || ShellError::NoSuchCommand {
                id: crate::tool::cut_line(&id, 40),
            };
            let record = outputs.record(session_id, &id).ok_or_else(missing)?;
            let of = SessionOutputs {
                outputs,
                session_id,
            };
            let opened = SessionOutputs::find(Some(&of), &shown(&id));
            let opened = opened.and_then(Result::ok).ok_or_else(missing)?;
            let bytes = opened.metadata.len();
            let slice = Slice::of(opened.file, bytes, after, max_bytes, so_far.as_ref());
            let slice = slice.map_err(ShellError::io("read the output"))?;
            Ok(slice.told(described(&id, record, so_far.is_some())))
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
                described(id, *record, is_running)
            });
            Ok(json!({ "commands": told.collect::<Vec<_>>() }))
        });
        listing.await.map_err(|_| ShellError::Lost)?
    }
}

/// Says what is known of a command.
fn described(id: &str, record: CommandRecord, is_running: bool) -> Value {
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

/// A part of an output.
struct Slice {
    text: String,
    /// Where the next part begins.
    next: u64,
    remarks: Vec<String>,
}

impl Slice {
    fn of(
        mut file: impl Read + Seek,
        bytes: u64,
        after: Option<u64>,
        max_bytes: usize,
        so_far: Option<&KeptSoFar>,
    ) -> io::Result<Self> {
        let max = max_bytes as u64;
        let mut remarks = Vec::new();
        let end = so_far.map_or(&[][..], |so_far| &so_far.end);
        if let (Some(so_far), None, false) = (so_far, after, end.is_empty()) {
            // The file is full, and its end is not written yet.
            let end = &end[end.len().saturating_sub(max_bytes)..];
            remarks.push(format!(
                "{} bytes came; of those after the first {} only the end is kept, and it is shown",
                so_far.total, so_far.stored
            ));
            return Ok(Self {
                text: String::from_utf8_lossy(end).into_owned(),
                next: so_far.total,
                remarks,
            });
        }
        let start = after.map_or(bytes.saturating_sub(max), |after| after.min(bytes));
        file.seek(SeekFrom::Start(start))?;
        let mut read = Vec::new();
        file.take(max).read_to_end(&mut read)?;
        if start > 0 && after.is_none() {
            remarks.push(format!("the first {start} bytes are not shown"));
        }
        // A character that is not whole yet is shown with what comes next.
        let is_growing = so_far.is_some() || start + (read.len() as u64) < bytes;
        if let (true, Err(error)) = (is_growing, std::str::from_utf8(&read))
            && error.error_len().is_none()
            && error.valid_up_to() > 0
        {
            read.truncate(error.valid_up_to());
        }
        let next = start + read.len() as u64;
        if next < bytes && read.len() as u64 + 4 > max {
            remarks.push(format!("more came; go on with `after` {next}"));
        }
        if let (Some(so_far), false) = (so_far, end.is_empty()) {
            remarks.push(format!(
                "of what came after the first {} bytes only the end is kept; ask without `after` to see it",
                so_far.stored
            ));
        }
        Ok(Self {
            text: String::from_utf8_lossy(&read).into_owned(),
            next,
            remarks,
        })
    }

    fn told(self, mut command: Value) -> Value {
        command["output"] = json!(self.text);
        command["next"] = json!(self.next);
        let before = command["remark"].as_str().map(str::to_owned);
        with_remarks(command, before.into_iter().chain(self.remarks).collect())
    }
}
