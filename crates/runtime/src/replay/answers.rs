//! Recorded ends of model calls.

use std::sync::Arc;

use windlass_core::events::{
    ContextCompactedData, Event, EventData, LlmGenerationData, ToolStatus,
};
use windlass_core::message::Message;
use windlass_core::tools::ToolResult;
use windlass_core::typed_id::ExecId;
use windlass_turn::{Answer, FailureDetails, Input, OUTPUT_SCHEMA_MISMATCH, RequestedCall, derive};

use super::results::result_of;

/// Reads the end of a model call from its events and the following ones.
pub(super) fn end_of_call(rest: &[Arc<Event>]) -> Option<Input> {
    let exec_id = rest.first()?.context.exec_id?;
    let (mut generation, mut message) = (None, None);
    for (index, event) in rest.iter().enumerate() {
        match &event.data {
            EventData::ReasonThinkingCompleted(_) => {}
            EventData::LlmGeneration(data) => generation = Some(data),
            EventData::OutputMessageCompleted(data) => message = Some(&data.message),
            EventData::ContextCompacted(data) => {
                return Some(end_of_summary(exec_id, generation?, data));
            }
            EventData::ReasonCompleted(data) if data.success => {
                let answer = Box::new(answer(generation?, message?, &rest[index + 1..]));
                return Some(Input::ModelFinished { exec_id, answer });
            }
            EventData::ReasonCompleted(_) => {
                return failed(exec_id, generation?, message, rest.get(index + 1)?);
            }
            _ => return None,
        }
    }
    None
}

/// The summary is in its own record; the request that produced it is in the record of the model call. A summary that was cut off without an interrupt
/// ran out of time.
fn end_of_summary(
    exec_id: ExecId,
    generation: &LlmGenerationData,
    data: &ContextCompactedData,
) -> Input {
    if data.interrupted == Some(true) {
        return Input::Timer;
    }
    let metadata = generation.metadata.clone();
    match &data.summary {
        Some(summary) => Input::ModelFinished {
            exec_id,
            answer: Box::new(Answer {
                text: summary.clone(),
                metadata,
                prompt: Some(generation.prompt.clone()),
                ..Answer::default()
            }),
        },
        None => Input::ModelFailed {
            exec_id,
            failure: FailureDetails {
                code: String::new(),
                message: data.error.clone().unwrap_or_default(),
                user_message: String::new(),
                fields: None,
            },
            metadata: Box::new(metadata),
        },
    }
}

fn answer(generation: &LlmGenerationData, message: &Message, after: &[Arc<Event>]) -> Answer {
    let calls = generation.output.tool_calls.iter().enumerate();
    let refusals = refusals(after);
    let calls = calls.map(|(n, call)| {
        let exec_id = ExecId::from_uuid(derive(message.id.uuid(), n as u64));
        let refused = refusals.iter().find(|(refused, _)| *refused == exec_id);
        RequestedCall {
            call: call.clone(),
            refusal: refused.map(|(_, why)| why.clone()),
        }
    });
    Answer {
        text: message.text().unwrap_or_default().to_owned(),
        thinking: message.thinking.clone(),
        thinking_signature: message.thinking_signature.clone(),
        reasoning_items: message.reasoning_items.clone(),
        calls: calls.collect(),
        mismatch: mismatch(after),
        phase: message.phase,
        metadata: generation.metadata.clone(),
        prompt: None,
    }
}

/// Returns why an answer was not accepted, from the repair or the end of the turn that follows it.
fn mismatch(after: &[Arc<Event>]) -> Vec<String> {
    match after.first().map(|next| &next.data) {
        Some(EventData::OutputRejected(data)) => data.errors.clone(),
        Some(EventData::TurnFailed(data))
            if data.error_code.as_deref() == Some(OUTPUT_SCHEMA_MISMATCH) =>
        {
            let fields = data.error_fields.as_ref();
            let errors = fields.and_then(|fields| fields.get("errors")?.as_array());
            let errors = errors.into_iter().flatten();
            errors
                .filter_map(|it| it.as_str().map(str::to_owned))
                .collect()
        }
        _ => Vec::new(),
    }
}

/// Calls that the preflight refused begin and end before any other begins. A call that ran alone and failed with the same text looks the same, and is
/// equivalent.
fn refusals(after: &[Arc<Event>]) -> Vec<(ExecId, String)> {
    let Some((EventData::ActStarted(_), pairs)) =
        after.split_first().map(|(first, rest)| (&first.data, rest))
    else {
        return Vec::new();
    };
    let refusal = |pair: &[Arc<Event>]| {
        let (EventData::ToolStarted(_), EventData::ToolCompleted(data)) =
            (&pair[0].data, &pair[1].data)
        else {
            return None;
        };
        let why = data.error.clone()?;
        let plain = ToolResult::failure(&data.tool_call_id, &why);
        let is_same_call = pair[0].context.exec_id == pair[1].context.exec_id;
        let is_plain = data.status == ToolStatus::Error && result_of(data) == plain;
        let exec_id = pair[0]
            .context
            .exec_id
            .filter(|_| is_same_call && is_plain)?;
        Some((exec_id, why))
    };
    pairs.chunks_exact(2).map_while(refusal).collect()
}

/// A failed call ended its turn, as did a call that reached the turn's time limit.
fn failed(
    exec_id: ExecId,
    generation: &LlmGenerationData,
    message: Option<&Message>,
    end: &Event,
) -> Option<Input> {
    let failure = failure_of(end)?;
    if failure.code == "turn_timeout" {
        return Some(Input::Timer);
    }
    let user_message = message.and_then(|message| message.text());
    Some(Input::ModelFailed {
        exec_id,
        failure: FailureDetails {
            user_message: user_message.unwrap_or_default().to_owned(),
            ..failure
        },
        metadata: Box::new(generation.metadata.clone()),
    })
}

/// Returns why a turn failed, if the event is a failure.
pub(super) fn failure_of(event: &Event) -> Option<FailureDetails> {
    let EventData::TurnFailed(data) = &event.data else {
        return None;
    };
    Some(FailureDetails {
        code: data.error_code.clone().unwrap_or_default(),
        message: data.error.clone(),
        user_message: String::new(),
        fields: data.error_fields.clone(),
    })
}
