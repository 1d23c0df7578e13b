//! The frames of a one-shot stream.

use std::collections::VecDeque;

use serde::Serialize;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;
use windlass_core::items::{Change, ItemKind, ItemStatus, ItemStep, change};
use windlass_core::typed_id::TurnId;
use windlass_protocol::stream::{
    OneShotCompleted, OneShotStarted, OneShotToolCompleted, OneShotToolStarted,
};
use windlass_protocol::{EventPayload, RuntimeEventEnvelope};
use windlass_runtime::{EventStream, output_value};

use crate::ids;
use crate::limits::subscribers::Subscriber;
use crate::sse_frame::frame;
use crate::view::{self, Include};

fn frame_of(name: &str, data: &impl Serialize) -> Vec<u8> {
    frame(None, name, data)
}

/// The frames of one turn.
pub struct OneTurn {
    turn_id: TurnId,
    events: EventStream,
    ready: VecDeque<Vec<u8>>,
    is_ended: bool,
    /// The newest whole message of the agent.
    answer: String,
    reader: Subscriber,
}

impl OneTurn {
    pub(crate) fn new(
        started: &OneShotStarted,
        turn_id: TurnId,
        events: EventStream,
        reader: Subscriber,
    ) -> Self {
        Self {
            turn_id,
            events,
            ready: VecDeque::from([frame_of("turn.started", started)]),
            is_ended: false,
            answer: String::new(),
            reader,
        }
    }

    /// Returns a token that is cancelled when the reader's token is revoked.
    #[must_use]
    pub fn revoked(&self) -> CancellationToken {
        self.reader.revoked().clone()
    }

    /// Returns the next frame; `None` after the end of the turn.
    pub async fn next_frame(&mut self) -> Option<Vec<u8>> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Some(frame);
            }
            if self.is_ended {
                return None;
            }
            let event = self.events.next().await?;
            if event.context.turn_id != Some(self.turn_id) {
                continue;
            }
            let Some(change) = change(&event) else {
                continue;
            };
            self.is_ended = matches!(change, Change::TurnEnded(_));
            if let Change::Item(ItemStep::Ended(item)) = &change
                && item.kind == ItemKind::AgentMessage
            {
                self.answer = item.detail().into_owned();
            }
            self.ready
                .extend(event_frames(&event, change, &self.answer));
            if self.is_ended {
                self.ready.push_back(frame_of("done", &json!({})));
            }
        }
    }
}

fn event_frames(
    event: &windlass_core::events::Event,
    change: Change<'_>,
    answer: &str,
) -> Vec<Vec<u8>> {
    match change {
        Change::Item(step) => item_frame(step).into_iter().collect(),
        Change::TurnEnded(view) => {
            let turn = view::turn(&view);
            vec![frame_of(
                "turn.completed",
                &OneShotCompleted {
                    usage: turn.usage.unwrap_or_default(),
                    status: turn.status,
                    error: turn.error,
                    output: view::has_output(&view)
                        .then(|| output_value(answer))
                        .flatten(),
                },
            )]
        }
        Change::Wait(_) => view::view(event, Include::default())
            .and_then(wait_frame)
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// Client tool calls have no frame here: this stream registers no tools.
fn wait_frame(shown: RuntimeEventEnvelope) -> Option<Vec<u8>> {
    let (id, status) = match &shown.payload {
        EventPayload::ApprovalRequired(approval) => (&approval.id, None),
        EventPayload::ApprovalDecided(approval) => (&approval.approval_id, None),
        EventPayload::ApprovalTimeout(approval) => (&approval.approval_id, None),
        EventPayload::UserInputRequired(input) => (&input.id, Some("required")),
        EventPayload::UserInputAnswered(input) => (&input.id, Some("submitted")),
        EventPayload::UserInputCanceled(input) => (&input.id, Some("canceled")),
        _ => return None,
    };
    let Ok(Value::Object(mut fields)) = serde_json::to_value(&shown.payload) else {
        return None;
    };
    fields.insert("id".to_owned(), id.as_str().into());
    fields.insert("thread_id".to_owned(), shown.thread_id.into());
    fields.insert("turn_id".to_owned(), shown.turn_id.into());
    if let Some(status) = status {
        fields.insert("status".to_owned(), status.into());
    }
    Some(frame_of(shown.payload.name(), &fields))
}

fn item_frame(step: ItemStep<'_>) -> Option<Vec<u8>> {
    match step {
        ItemStep::Delta {
            kind: ItemKind::AgentMessage,
            delta,
            ..
        } => Some(frame_of("message.delta", &json!({ "content": delta }))),
        ItemStep::Started(item) => {
            let (tool, exec_id) = (item.tool()?, item.exec_id?);
            let frame = OneShotToolStarted {
                id: ids::call(exec_id),
                name: tool.display_name.unwrap_or(tool.name).to_owned(),
                input: tool.arguments.cloned().unwrap_or_default(),
            };
            Some(frame_of("tool.started", &frame))
        }
        ItemStep::Ended(item) => match item.kind {
            ItemKind::Error => Some(frame_of("error", &json!({ "message": item.detail() }))),
            ItemKind::Status => Some(frame_of("status", &json!({ "message": item.detail() }))),
            _ => {
                item.tool()?;
                let frame = OneShotToolCompleted {
                    id: ids::call(item.exec_id?),
                    success: item.status == ItemStatus::Completed,
                    output: item.detail().into_owned(),
                };
                Some(frame_of("tool.completed", &frame))
            }
        },
        ItemStep::Delta { .. } => None,
    }
}
