//! Recorded results of tool calls.

use std::sync::Arc;

use serde_json::json;
use windlass_core::digest::Digest128;
use windlass_core::events::{Event, EventData, ToolCompletedData, ToolStatus};
use windlass_core::message::ContentPart;
use windlass_core::tools::{ToolResult, ToolResultImage};
use windlass_turn::{Input, RequiredWait, ToolOutcome};

/// A call that has finished.
pub(super) fn finished(event: &Event, data: &ToolCompletedData) -> Option<Input> {
    let outcome = ToolOutcome {
        status: data.status,
        result: result_of(data),
        duration_ms: data.duration_ms,
        wait: None,
        refused: data.refused == Some(true),
    };
    Some(Input::ToolFinished {
        exec_id: event.context.exec_id?,
        outcome: Box::new(outcome),
    })
}

/// A call that started and then needed an approval or an external result.
pub(super) fn waits(event: &Event) -> Option<Input> {
    let (call, wait) = match &event.data {
        EventData::ToolCallRequested(data) => (
            data.tool_calls.first()?.id.clone(),
            RequiredWait::Connection {
                provider: data.connection_required.clone()?,
            },
        ),
        EventData::UserInputRequired(data) => (
            String::new(),
            RequiredWait::UserInput {
                prompt: data.prompt.clone(),
            },
        ),
        _ => return None,
    };
    let outcome = ToolOutcome {
        status: ToolStatus::Success,
        result: ToolResult {
            tool_call_id: call,
            ..ToolResult::default()
        },
        duration_ms: None,
        wait: Some(wait),
        refused: false,
    };
    Some(Input::ToolFinished {
        exec_id: event.context.exec_id?,
        outcome: Box::new(outcome),
    })
}

/// Consecutive external answers, as one input.
pub(super) fn results(rest: &[Arc<Event>]) -> Option<Input> {
    let pairs = rest.chunks_exact(2).map_while(|pair| {
        let (EventData::ToolCallResolved(resolved), EventData::ToolCompleted(completed)) =
            (&pair[0].data, &pair[1].data)
        else {
            return None;
        };
        let result = ToolResult {
            tool_call_id: pair[0].context.exec_id?.to_string(),
            ..result_of(completed)
        };
        Some(as_submitted(result, &resolved.digest))
    });
    let results: Vec<_> = pairs.collect();
    (!results.is_empty()).then_some(Input::ToolResults { results })
}

/// A failure without a value is recorded with its error as the value too; the digest shows how it was submitted.
fn as_submitted(result: ToolResult, digest: &str) -> ToolResult {
    let bare = ToolResult {
        result: None,
        ..result.clone()
    };
    let bare_digest = Digest128::of_json(&(&bare.result, &bare.error, &bare.images)).to_string();
    let has_no_value = result.result == result.error.as_ref().map(|error| json!({"error": error}));
    if has_no_value && bare_digest == digest {
        bare
    } else {
        result
    }
}

/// Returns the result in the record of a call.
pub(super) fn result_of(data: &ToolCompletedData) -> ToolResult {
    let parts = data.result.as_deref().unwrap_or_default();
    let answer = parts.iter().find_map(|part| match part {
        ContentPart::ToolResult(part) => Some(part),
        _ => None,
    });
    let images: Vec<_> = parts
        .iter()
        .filter_map(|part| match part {
            ContentPart::Image(image) => Some(ToolResultImage {
                base64: image.base64.clone()?,
                media_type: image.media_type.clone()?,
            }),
            _ => None,
        })
        .collect();
    ToolResult {
        tool_call_id: data.tool_call_id.clone(),
        result: answer.and_then(|part| part.result.clone()),
        images: (!images.is_empty()).then_some(images),
        error: data.error.clone(),
        connection_required: None,
        raw_output: None,
    }
}
