//! What `gemini --output-format stream-json` prints: one turn a process. Windlass itself drives Gemini by ACP.

use serde_json::Value;
use windlass_core::backend::{
    BackendEnd, BackendError, BackendErrorKind, BackendEvent, BackendUsage, ObservedCall,
};

use crate::calls::Calls;
use crate::json::{count, cut_text, id, object, raw, raw_unless_blank, text};
use crate::protocol::Step;
use crate::usage::Meter;

/// Reads what Gemini's one-shot mode prints, for who has records of it.
#[derive(Default)]
pub struct GeminiStream {
    is_over: bool,
    calls: Calls,
    meter: Meter,
}

impl GeminiStream {
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
        match text(&message, "type") {
            Some(kind) if self.is_over => vec![raw(Some(kind), line)],
            Some("init") => match id(&message, "session_id") {
                Some(session_id) => vec![Step::Event(BackendEvent::Started {
                    session_id: session_id.to_owned(),
                    model: text(&message, "model").map(str::to_owned),
                })],
                None => vec![raw(Some("init"), line)],
            },
            Some("message") if text(&message, "role") == Some("assistant") => {
                let said = text(&message, "content").filter(|said| !said.is_empty());
                let event = said.map(|said| BackendEvent::Text {
                    text: said.to_owned(),
                    message: None,
                    parent: None,
                });
                event.map(Step::Event).into_iter().collect()
            }
            Some("message") => Vec::new(),
            Some("tool_use") => self.tool_use(&message).into_iter().collect(),
            Some("tool_result") => match id(&message, "tool_id") {
                Some(call) => {
                    let output = message.get("output").cloned().unwrap_or(Value::Null);
                    let is_error = text(&message, "status") != Some("success");
                    self.calls.end(call, output, is_error)
                }
                None => vec![raw(Some("tool_result"), line)],
            },
            Some("result") => self.result(&message),
            other => vec![raw(other, line)],
        }
    }

    fn tool_use(&mut self, message: &Value) -> Option<Step> {
        self.calls.start(ObservedCall {
            id: id(message, "tool_id")?.to_owned(),
            name: text(message, "tool_name").unwrap_or("unknown").to_owned(),
            arguments: message.get("parameters").cloned().unwrap_or(Value::Null),
            parent: None,
        })
    }

    fn result(&mut self, message: &Value) -> Vec<Step> {
        self.is_over = true;
        let mut steps = Vec::new();
        if let Some(stats) = message.get("stats").filter(|stats| stats.is_object()) {
            let cached = count(stats, "cached");
            self.meter.turn_tokens(BackendUsage {
                input_tokens: count(stats, "input_tokens").saturating_sub(cached),
                cached_tokens: cached,
                output_tokens: count(stats, "output_tokens"),
                ..BackendUsage::default()
            });
            steps.extend(self.meter.turn().map(BackendEvent::Usage).map(Step::Event));
        }
        steps.push(Step::Ended(match text(message, "status") {
            Some("success") => Ok(BackendEnd::Completed),
            _ => Err(failure(message.get("error").unwrap_or(&Value::Null))),
        }));
        steps
    }
}

/// Its errors have no class, so the text has to do.
fn failure(error: &Value) -> BackendError {
    let said = text(error, "message").unwrap_or("it does not say why");
    let kind = match () {
        () if said.contains("daily quota") || said.contains("\"code\":429") => {
            BackendErrorKind::RateLimit
        }
        () if said.contains("\"code\":401") => BackendErrorKind::Auth,
        () if said.contains("\"code\":5") => BackendErrorKind::Server,
        () => BackendErrorKind::Failed,
    };
    BackendError::new(kind, cut_text(said, 1024))
}
