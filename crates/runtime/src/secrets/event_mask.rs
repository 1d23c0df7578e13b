//! Removes secrets from events before they are recorded.
//!
//! Every event is masked here once, whatever its input. The match is exhaustive, so a new event type does not compile until its
//! masking is decided.
//!
//! Not masked are:
//! - names and ids, which must stay equal to each other, and the settings that a turn was requested with;
//! - the output of a tool and the user's answer to it, which belong to the tool: only the operator's own secrets are masked there;
//! - the tools and instructions that were discovered, which are masked where they are read, because turns share them.
//!
//! A provider accepts its reasoning only unchanged. Reasoning that contains a secret is dropped together with its proofs.

use windlass_core::events::{
    ErrorFields, EventData, ToolCompletedData, ToolOrigin, ToolStatus, TurnOutline,
};
use windlass_core::message::{ContentPart, Message};
use windlass_core::thread_record::ThreadRecord;
use windlass_core::tools::ToolCall;
use windlass_macros::OpaqueDebug;
use windlass_turn::RecordMask;

use super::Mask;

/// The secrets that the events of one decision must not contain.
#[derive(OpaqueDebug)]
pub(crate) struct EventMask {
    /// All known secrets.
    pub(crate) all: Option<Mask>,
    /// The operator's secrets, which are masked in tool output too.
    pub(crate) operator: Option<Mask>,
}

impl RecordMask for EventMask {
    fn mask(&self, data: &mut EventData) {
        if let Some(mask) = &self.all {
            mask_event(mask, data);
        }
        if let Some(mask) = &self.operator {
            mask_tool_output(mask, data);
        }
    }
}

fn mask_record(mask: &Mask, record: &mut Option<Box<ThreadRecord>>) {
    if let Some(record) = record {
        record.visit_texts(&mut |text| mask.text(text), &mut |json| mask.value(json));
    }
}

fn mask_event(mask: &Mask, data: &mut EventData) {
    match data {
        EventData::SessionStarted(data) => {
            mask.optional(&mut data.title);
            mask_record(mask, &mut data.record);
        }
        EventData::SessionUpdated(data) => {
            mask.optional(&mut data.title);
            mask_record(mask, &mut data.record);
        }
        EventData::SessionForked(data) => mask_record(mask, &mut data.record),
        EventData::SessionActivated(data) => mask.optional(&mut data.input_text),
        EventData::InputMessage(data) => mask_message(mask, &mut data.message),
        EventData::InputQueued(data) => mask_message(mask, &mut data.message),
        EventData::InputEdited(data) => mask_parts(mask, data.content.iter_mut().flatten()),
        EventData::OutputMessageDelta(data) => mask.text(&mut data.delta),
        EventData::OutputMessageCompleted(data) => {
            mask_message(mask, &mut data.message);
            mask.optional_value(&mut data.metadata);
            mask_fields(mask, &mut data.error_fields);
        }
        EventData::OutputMessageReplaced(data) => {
            mask_message(mask, &mut data.message);
            mask.optional(&mut data.reason);
        }
        EventData::OutputRejected(data) => data.errors.iter_mut().for_each(|it| mask.text(it)),
        EventData::TurnStarted(data) => {
            mask_parts(mask, data.input_content.iter_mut().flatten());
            mask_outline(mask, &mut data.outline);
        }
        EventData::TurnSteered(data) => mask.optional(&mut data.input_text),
        EventData::TurnInterruptRequested(data) => mask.optional(&mut data.reason),
        EventData::TurnCompleted(data) => {
            mask_parts(mask, data.input_content.iter_mut().flatten());
            mask.optional(&mut data.final_answer_preview);
            mask_outline(mask, &mut data.outline);
        }
        EventData::TurnFailed(data) => {
            mask.text(&mut data.error);
            mask_fields(mask, &mut data.error_fields);
            mask_outline(mask, &mut data.outline);
        }
        EventData::TurnCancelled(data) => {
            mask.optional(&mut data.reason);
            mask_outline(mask, &mut data.outline);
        }
        EventData::ReasonCompleted(data) => {
            mask.optional(&mut data.text_preview);
            mask.optional(&mut data.error);
        }
        EventData::ReasonThinkingDelta(data) => mask.text(&mut data.delta),
        EventData::ReasonThinkingCompleted(data) => mask.text(&mut data.thinking),
        EventData::LlmGeneration(data) => {
            mask.optional(&mut data.output.text);
            mask_calls(mask, &mut data.output.tool_calls);
            mask.optional(&mut data.metadata.error);
            for reason in data.metadata.finish_reasons.iter_mut().flatten() {
                mask.text(reason);
            }
        }
        EventData::ToolStarted(data) => {
            mask.value(&mut data.tool_call.arguments);
            mask.optional(&mut data.narration);
            // The name of an external agent's call may be the command itself.
            if data.origin == Some(ToolOrigin::Observed) {
                mask.text(&mut data.tool_call.name);
            }
        }
        EventData::ToolCompleted(data) => {
            mask.optional_value(&mut data.arguments);
            if !is_of_the_tool(data) {
                mask_result(mask, data);
            }
        }
        EventData::ToolProgress(data) => mask.text(&mut data.message),
        EventData::ToolOutputDelta(data) => mask.text(&mut data.delta),
        EventData::ToolCallRequested(data) => {
            mask_calls(mask, &mut data.tool_calls);
            mask.optional(&mut data.headline);
        }
        EventData::ToolCallCanceled(data) => mask.text(&mut data.reason),
        EventData::ApprovalRequired(data) => {
            mask.value(&mut data.tool_call.arguments);
            if data.request_id.is_some() {
                mask.text(&mut data.tool_call.name);
                mask.optional(&mut data.display_name);
            }
        }
        EventData::ApprovalDecided(data) => mask.optional(&mut data.reason),
        EventData::UserInputCanceled(data) => mask.text(&mut data.reason),
        EventData::CapabilityUsage(data) => mask.optional_value(&mut data.details),
        EventData::SubagentStarted(data) => {
            mask.text(&mut data.name);
            mask.optional(&mut data.task);
        }
        EventData::SubagentCompleted(data) => {
            mask.text(&mut data.name);
            mask.optional(&mut data.result);
        }
        EventData::TaskCreated(data) => mask.text(&mut data.title),
        EventData::ContextCompacted(data) => {
            mask.optional(&mut data.summary);
            mask.optional(&mut data.error);
        }
        EventData::BackendNotice(data) => mask.text(&mut data.message),
        EventData::BackendCompleted(data) => mask.optional(&mut data.error),
        EventData::FileWritten(data) => mask.text(&mut data.path),
        EventData::Custom(data) => mask.value(&mut data.payload),
        // The output of tools and users' answers.
        EventData::UserInputRequired(_) | EventData::UserInputAnswered(_) => {}
        // These are masked where they are read.
        EventData::ToolsDiscovered(_) => {}
        // IDs, names, numbers and times.
        EventData::SessionRewound(_)
        | EventData::SessionIdled(_)
        | EventData::OutputMessageStarted(_)
        | EventData::TurnResumed(_)
        | EventData::TurnReleased(_)
        | EventData::ReasonStarted(_)
        | EventData::ReasonThinkingStarted(_)
        | EventData::ActStarted(_)
        | EventData::ActCompleted(_)
        | EventData::ToolCallResolved(_)
        | EventData::ToolCallTimeout(_)
        | EventData::ApprovalTimeout(_)
        | EventData::TranscriptRepaired(_)
        | EventData::TaskUpdated(_)
        | EventData::ContextCompacting(_)
        | EventData::BackendUsage(_)
        | EventData::BackendStarted(_)
        | EventData::BackendSessionChosen(_)
        | EventData::BackendEstablished(_)
        | EventData::BackendSteered(_)
        | EventData::BackendWaiting(_)
        | EventData::ScheduleTriggered(_)
        | EventData::JournalPruned(_) => {}
    }
}

/// Masks the output of a tool or a user's answer.
fn mask_tool_output(mask: &Mask, data: &mut EventData) {
    match data {
        EventData::ToolCompleted(data) => mask_result(mask, data),
        EventData::UserInputRequired(data) => mask.value(&mut data.prompt),
        EventData::UserInputAnswered(data) => mask.value(&mut data.answer),
        EventData::InputMessage(data) => mask_results(mask, &mut data.message.content),
        EventData::InputQueued(data) => mask_results(mask, &mut data.message.content),
        EventData::OutputMessageCompleted(data) => mask_results(mask, &mut data.message.content),
        _ => {}
    }
}

/// Returns whether the result of a call comes from its tool.
fn is_of_the_tool(data: &ToolCompletedData) -> bool {
    matches!(data.status, ToolStatus::Success | ToolStatus::Error) && data.refused != Some(true)
}

fn mask_result(mask: &Mask, data: &mut ToolCompletedData) {
    mask.optional(&mut data.error);
    let parts = data.result.iter_mut().flatten();
    for part in parts {
        match part {
            ContentPart::Image(image) => {
                mask.optional(&mut image.url);
                mask.optional(&mut image.base64);
            }
            part => mask_results(mask, std::slice::from_mut(part)),
        }
    }
}

fn mask_results(mask: &Mask, parts: &mut [ContentPart]) {
    for part in parts {
        if let ContentPart::ToolResult(part) = part {
            mask.optional_value(&mut part.result);
            mask.optional(&mut part.error);
        }
    }
}

/// Masks all of a message except the results of tools in it.
fn mask_message(mask: &Mask, message: &mut Message) {
    mask_parts(mask, &mut message.content);
    for value in message.metadata.iter_mut().flat_map(|map| map.values_mut()) {
        mask.value(value);
    }
    let thinking = message.thinking.as_mut();
    let has_secret = |item: &serde_json::Value| mask.occurs_in_value(item);
    if thinking.is_some_and(|text| mask.replace(text))
        || message.reasoning_items.iter().any(has_secret)
    {
        message.thinking_signature = None;
        message.reasoning_items.clear();
    }
}

/// Masks the text of a message, but not the results of tools.
pub(crate) fn mask_parts<'a>(mask: &Mask, parts: impl IntoIterator<Item = &'a mut ContentPart>) {
    for part in parts {
        match part {
            ContentPart::Text(part) => mask.text(&mut part.text),
            ContentPart::Image(part) => mask.optional(&mut part.url),
            ContentPart::ToolCall(part) => mask.value(&mut part.arguments),
            ContentPart::ImageFile(_) | ContentPart::ToolResult(_) => {}
        }
    }
}

fn mask_outline(mask: &Mask, outline: &mut Option<TurnOutline>) {
    if let Some(outline) = outline {
        mask.text(&mut outline.input_summary);
    }
}

fn mask_calls(mask: &Mask, calls: &mut [ToolCall]) {
    calls
        .iter_mut()
        .for_each(|call| mask.value(&mut call.arguments));
}

fn mask_fields(mask: &Mask, fields: &mut Option<ErrorFields>) {
    for value in fields.iter_mut().flat_map(|fields| fields.values_mut()) {
        mask.value(value);
    }
}
