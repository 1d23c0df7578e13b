//! What `codex exec --json` prints: one turn a process, without pieces of text.

use serde_json::Value;
use windlass_core::backend::{
    BackendEnd, BackendError, BackendEvent, BackendNotice, BackendUsage, ObservedCall,
    SessionTotals,
};

use super::failure::{self, TokenNames};
use crate::calls::Calls;
use crate::json::{id, notice, object, raw, raw_unless_blank, text, warning};
use crate::protocol::Step;
use crate::usage::Meter;

const TOKEN_NAMES: TokenNames = TokenNames {
    input: "input_tokens",
    cached: "cached_input_tokens",
    cache_write: "cache_write_input_tokens",
    output: "output_tokens",
    reasoning: "reasoning_output_tokens",
};

/// Reads what `codex exec --json` prints, for who has records of it; Windlass itself drives the app-server.
pub struct CodexExec {
    is_over: bool,
    calls: Calls,
    meter: Meter,
}

impl CodexExec {
    /// Reads a process of a thread of which so much was counted.
    #[must_use]
    pub fn new(totals: SessionTotals) -> Self {
        Self {
            is_over: false,
            calls: Calls::default(),
            meter: Meter::new(totals),
        }
    }

    /// Returns what the turn used.
    #[must_use]
    pub fn usage(&self) -> Option<BackendUsage> {
        self.meter.turn()
    }

    /// Reads a line, without its end.
    pub fn line(&mut self, line: &[u8]) -> Vec<Step> {
        let Some(message) = object(line) else {
            return raw_unless_blank(line);
        };
        let item = message.get("item").unwrap_or(&Value::Null);
        match text(&message, "type") {
            Some(kind) if self.is_over => vec![raw(Some(kind), line)],
            Some("thread.started") => match id(&message, "thread_id") {
                Some(session_id) => vec![Step::Event(BackendEvent::Started {
                    session_id: session_id.to_owned(),
                    model: None,
                })],
                None => vec![raw(Some("thread.started"), line)],
            },
            Some("turn.started") => Vec::new(),
            Some("item.started") => self.start(item).into_iter().collect(),
            Some("item.completed") => self.complete(item, line),
            // It is not the end: a failed turn says so.
            Some("error") => vec![notice(BackendNotice::Retry {
                attempt: None,
                delay_ms: None,
                status: None,
                message: text(&message, "message").unwrap_or_default().to_owned(),
            })],
            Some("turn.completed") => {
                if let Some(usage) = message.get("usage").filter(|usage| usage.is_object()) {
                    self.meter
                        .session_tokens(failure::tokens(usage, &TOKEN_NAMES));
                }
                let usage = self.meter.turn().map(BackendEvent::Usage).map(Step::Event);
                self.is_over = true;
                usage
                    .into_iter()
                    .chain([Step::Ended(Ok(BackendEnd::Completed))])
                    .collect()
            }
            Some("turn.failed") => {
                self.is_over = true;
                let error = message.get("error").unwrap_or(&Value::Null);
                let said = text(error, "message").unwrap_or("it does not say why");
                let error = BackendError::new(failure::by_text(said), said);
                vec![Step::Ended(Err(error))]
            }
            other => vec![raw(other, line)],
        }
    }

    fn start(&mut self, item: &Value) -> Option<Step> {
        let kind = text(item, "type").filter(|kind| is_tool(kind))?;
        self.calls.start(ObservedCall {
            id: id(item, "id")?.to_owned(),
            name: kind.to_owned(),
            arguments: item.get("command").cloned().unwrap_or(Value::Null),
            parent: None,
        })
    }

    fn complete(&mut self, item: &Value, line: &[u8]) -> Vec<Step> {
        let said = text(item, "text").filter(|said| !said.is_empty());
        let said = said.map(str::to_owned);
        match (text(item, "type"), id(item, "id")) {
            (Some("agent_message"), message) => {
                let message = message.map(str::to_owned);
                let event = said.map(|text| BackendEvent::Text {
                    text,
                    message,
                    parent: None,
                });
                event.map(Step::Event).into_iter().collect()
            }
            (Some("reasoning"), _) => {
                let event = said.map(|text| BackendEvent::Thinking { text, parent: None });
                event.map(Step::Event).into_iter().collect()
            }
            // It may be a mere warning.
            (Some("error"), _) => vec![warning(text(item, "message").unwrap_or_default())],
            (Some(kind), Some(call)) if is_tool(kind) => {
                let mut steps: Vec<_> = self.start(item).into_iter().collect();
                let is_error = text(item, "status") == Some("failed");
                let fields = ["aggregated_output", "exit_code"].into_iter();
                let output =
                    fields.filter_map(|field| Some((field.to_owned(), item.get(field)?.clone())));
                let output = Value::Object(output.collect());
                steps.extend(self.calls.end(call, output, is_error));
                steps
            }
            (kind, _) => vec![raw(kind, line)],
        }
    }
}

fn is_tool(kind: &str) -> bool {
    [
        "command_execution",
        "file_change",
        "mcp_tool_call",
        "web_search",
    ]
    .contains(&kind)
}
