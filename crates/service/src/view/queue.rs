//! Queued inputs on the wire.

use windlass_core::events::{InputEditedData, InputQueuedData};
use windlass_core::items::input_summary;
use windlass_core::message::{ContentPart, Message};
use windlass_core::typed_id::{SessionId, TurnId};
use windlass_protocol::events::{InputEditedPayload, InputQueuedPayload, InputRemovedPayload};
use windlass_protocol::{EventPayload, QueuedInput, RECORD_SCHEMA_VERSION, Status, Turn};
use windlass_runtime::Queued;

use super::turn::environment;
use crate::ids;

pub(crate) fn queued_input(position: u64, queued: &Queued) -> QueuedInput {
    let message = &queued.message;
    QueuedInput {
        turn_id: queued.turn_id.to_string(),
        position,
        prompt: prompt(&message.content),
        input_summary: input_summary(message),
        created_at: ids::time(message.created_at),
    }
}

/// Returns the first text, without the images and files after it.
fn prompt(content: &[ContentPart]) -> String {
    let text = content.iter().find_map(ContentPart::as_text);
    text.unwrap_or_default().to_owned()
}

/// Converts a turn that has not started.
pub(crate) fn queued_turn(session_id: SessionId, turn_id: TurnId, message: &Message) -> Turn {
    let request = message.turn_request();
    let labels = request.and_then(|request| request.labels.as_ref());
    let provider = labels.and_then(|labels| labels.provider.clone());
    let at = request.and_then(|request| request.environment.as_ref());
    Turn {
        schema_version: RECORD_SCHEMA_VERSION,
        id: turn_id.to_string(),
        thread_id: ids::thread(session_id),
        status: Status::Queued,
        input_summary: input_summary(message),
        created_at: ids::time(message.created_at),
        effective_provider: provider.clone(),
        effective_provider_id: provider,
        environment: at.map(environment),
        ..Turn::default()
    }
}

pub(super) fn queued(session_id: SessionId, data: &InputQueuedData) -> EventPayload {
    EventPayload::InputQueued(Box::new(InputQueuedPayload {
        ahead: data.ahead,
        input_summary: input_summary(&data.message),
        prompt: prompt(&data.message.content),
        thread_id: ids::thread(session_id),
        turn_id: data.turn_id.to_string(),
    }))
}

pub(super) fn edited(session_id: SessionId, data: &InputEditedData) -> EventPayload {
    let content = data.content.as_deref();
    EventPayload::InputEdited(Box::new(InputEditedPayload {
        position: data.position.and_then(|at| u64::try_from(at).ok()),
        prompt: content.map(prompt),
        thread_id: ids::thread(session_id),
        turn_id: data.turn_id.to_string(),
    }))
}

pub(super) fn removed(
    session_id: SessionId,
    turn_id: TurnId,
    reason: Option<&str>,
) -> EventPayload {
    EventPayload::InputRemoved(Box::new(InputRemovedPayload {
        reason: reason.map(str::to_owned),
        thread_id: ids::thread(session_id),
        turn_id: turn_id.to_string(),
    }))
}
