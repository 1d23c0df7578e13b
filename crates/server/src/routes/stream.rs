//! One input, one answer, one stream.

use axum::body::Bytes;
use serde_json::{Value, json};
use windlass_core::items::{Change, ItemKind, ItemStatus, ItemStep, change};
use windlass_core::typed_id::TurnId;
use windlass_protocol::stream::{
    OneShot, OneShotCompleted, OneShotToolCompleted, OneShotToolStarted,
};
use windlass_protocol::{EventPayload, RuntimeEventEnvelope};
use windlass_runtime::EventStream;

use super::Answer;
use crate::http::body::Payload;
use crate::http::outflow::Outflow;
use crate::service::Asked;
use crate::service::one_shot::OneTurn;
use crate::sse::{FrameSender, Gone};
use crate::view::{self, Include};
use crate::{ids, sse};

pub(super) async fn one_shot(asked: Asked, outflow: Outflow, body: Payload<OneShot>) -> Answer {
    let OneTurn {
        started,
        turn_id,
        events,
        place,
    } = asked.one_shot(body.0).await?;
    let (frames, response) = sse::channel(outflow);
    let stopping = asked.stopping.clone();
    tokio::spawn(async move {
        let first = sse::named("turn.started", &started);
        let telling = async {
            frames.send(first).await?;
            tell(events, turn_id, &frames).await
        };
        tokio::select! {
            () = sse::until_stopped(&frames, &stopping, telling) => {}
            () = place.revoked().cancelled() => {}
        }
    });
    Ok(response)
}

/// Tells a turn until its end, or until nobody listens.
async fn tell(mut events: EventStream, turn_id: TurnId, frames: &FrameSender) -> Result<(), Gone> {
    while let Some(event) = events.next().await {
        if event.context.turn_id != Some(turn_id) {
            continue;
        }
        let Some(change) = change(&event) else {
            continue;
        };
        let is_end = matches!(change, Change::TurnEnded(_));
        for frame in frames_of(&event, change) {
            frames.send(frame).await?;
        }
        if is_end {
            return frames.send(sse::named("done", &json!({}))).await;
        }
    }
    Ok(())
}

fn frames_of(event: &windlass_core::events::Event, change: Change<'_>) -> Vec<Bytes> {
    match change {
        Change::Item(step) => of_item(step).into_iter().collect(),
        Change::TurnEnded(view) => {
            let turn = view::turn(&view);
            vec![sse::named(
                "turn.completed",
                &OneShotCompleted {
                    usage: turn.usage.unwrap_or_default(),
                    status: turn.status,
                    error: turn.error,
                },
            )]
        }
        Change::Wait(_) => view::view(event, Include::default())
            .and_then(of_wait)
            .into_iter()
            .collect(),
        _ => Vec::new(),
    }
}

/// Calls of a client's tools have no frame here: this stream registers no tools.
fn of_wait(shown: RuntimeEventEnvelope) -> Option<Bytes> {
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
    Some(sse::named(shown.payload.name(), &fields))
}

fn of_item(step: ItemStep<'_>) -> Option<Bytes> {
    match step {
        ItemStep::Delta {
            kind: ItemKind::AgentMessage,
            delta,
            ..
        } => Some(sse::named("message.delta", &json!({ "content": delta }))),
        ItemStep::Started(item) => {
            let (tool, exec_id) = (item.tool()?, item.exec_id?);
            let frame = OneShotToolStarted {
                id: ids::call(exec_id),
                name: tool.display_name.unwrap_or(tool.name).to_owned(),
                input: tool.arguments.cloned().unwrap_or_default(),
            };
            Some(sse::named("tool.started", &frame))
        }
        ItemStep::Ended(item) => match item.kind {
            ItemKind::Error => {
                let frame = json!({ "message": item.detail() });
                Some(sse::named("error", &frame))
            }
            ItemKind::Status => {
                let frame = json!({ "message": item.detail() });
                Some(sse::named("status", &frame))
            }
            _ => {
                item.tool()?;
                let frame = OneShotToolCompleted {
                    id: ids::call(item.exec_id?),
                    success: item.status == ItemStatus::Completed,
                    output: item.detail().into_owned(),
                };
                Some(sse::named("tool.completed", &frame))
            }
        },
        ItemStep::Delta { .. } => None,
    }
}
