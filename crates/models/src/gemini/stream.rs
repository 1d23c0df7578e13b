//! The stream of Gemini: complete parts, except that text arrives in chunks.

use serde_json::{Value, json};

use super::error::classify;
use crate::decode::{AnswerBuilder, DecodeError, PartialCall, Stop, WireDecoder};

#[derive(Debug, Default)]
pub(crate) struct Generate {
    finish_reason: Option<String>,
}

impl WireDecoder for Generate {
    fn event(&mut self, event: &Value, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        if event.get("error").is_some() || event.get(0).is_some() {
            return Err(classify(None, event).into());
        }
        let text = |name: &str| event[name].as_str().map(str::to_owned);
        answer.response_id = answer.response_id.take().or_else(|| text("responseId"));
        answer.served_by = text("modelVersion").or_else(|| answer.served_by.take());
        usage(&event["usageMetadata"], answer);
        if let Some(reason) = event["promptFeedback"]["blockReason"].as_str() {
            return answer.finish(Stop::Refused(reason.to_owned()));
        }
        let Some(candidate) = event["candidates"].get(0) else {
            return Ok(());
        };
        for part in candidate["content"]["parts"]
            .as_array()
            .into_iter()
            .flatten()
        {
            take_part(part, answer);
        }
        if let Some(reason) = candidate["finishReason"].as_str() {
            self.finish_reason = Some(reason.to_owned());
        }
        Ok(())
    }

    fn end(&mut self, answer: &mut AnswerBuilder) -> Result<(), DecodeError> {
        let reason = self.finish_reason.take().ok_or(DecodeError::Cut)?;
        answer.finish(match reason.as_str() {
            "STOP" | "FINISH_REASON_UNSPECIFIED" => Stop::Finished,
            "MAX_TOKENS" => Stop::Length,
            "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT" | "SPII" | "LANGUAGE"
            | "IMAGE_SAFETY" => Stop::Refused(reason),
            // The model is called again, because it could not interpret the malformed call.
            "MALFORMED_FUNCTION_CALL" | "UNEXPECTED_TOOL_CALL" if !answer.has_text() => {
                return Err(DecodeError::MalformedCall);
            }
            _ => Stop::Other(reason.to_lowercase()),
        })
    }

    fn is_complete(&self) -> bool {
        self.finish_reason.is_some()
    }
}

fn take_part(part: &Value, answer: &mut AnswerBuilder) {
    let signature = part["thoughtSignature"].as_str();
    let carry = |on: &str, answer: &mut AnswerBuilder| {
        if let Some(signature) = signature {
            let bytes = part["text"].as_str().map_or(0, str::len);
            let item = json!({ "on": on, "bytes": bytes, "thoughtSignature": signature });
            answer.reasoning("", item);
        }
    };
    if let Some(call) = part.get("functionCall") {
        carry("call", answer);
        answer.call(PartialCall {
            id: call["id"].as_str().unwrap_or_default().to_owned(),
            name: call["name"].as_str().unwrap_or_default().to_owned(),
            arguments: String::new(),
            whole: Some(call["args"].clone()).filter(|args| !args.is_null()),
        });
        return;
    }
    let text = part["text"].as_str().unwrap_or_default();
    if part["thought"] == true {
        answer.thinking(text);
    } else {
        answer.text(text);
        carry("text", answer);
    }
}

/// The provider excludes thoughts from the output count; this adds them.
fn usage(usage: &Value, answer: &mut AnswerBuilder) {
    if !usage.is_object() {
        return;
    }
    let count = |name: &str| usage[name].as_u64();
    let sum = |a: Option<u64>, b: Option<u64>| match (a, b) {
        (None, None) => None,
        (a, b) => Some(a.unwrap_or(0).saturating_add(b.unwrap_or(0))),
    };
    let thoughts = count("thoughtsTokenCount");
    answer.usage.read = sum(count("promptTokenCount"), count("toolUsePromptTokenCount"));
    answer.usage.written = sum(count("candidatesTokenCount"), thoughts);
    answer.usage.cache_read = count("cachedContentTokenCount");
    answer.usage.reasoning = thoughts;
    answer.usage.total = count("totalTokenCount");
}
