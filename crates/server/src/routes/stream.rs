//! One input, one answer, one stream: an archived thread with a single turn.

use axum::body::Bytes;
use axum::extract::State;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use windlass_core::items::{Change, ItemKind, ItemStatus, ItemStep, change};
use windlass_core::typed_id::TurnId;
use windlass_protocol::stream::{
    OneShot, OneShotCompleted, OneShotStarted, OneShotToolCompleted, OneShotToolStarted,
};
use windlass_protocol::{CreateThread, EventName, StartTurn};
use windlass_runtime::EventStream;

use super::Answer;
use super::create::started;
use super::turns::said;
use crate::app::{Place, Shared};
use crate::http::body::Payload;
use crate::view::{self, Include};
use crate::{ids, sse};

pub(super) async fn one_shot(
    State(app): State<Shared>,
    Payload(request): Payload<OneShot>,
) -> Answer {
    let prompt = said(&request.prompt)?.to_owned();
    let limit = app.settings.limits.subscribers;
    let place = Place::take(&app, "subscribers", limit, |counters| &counters.subscribers)?;
    let draft = CreateThread {
        model: request.model,
        mode: request.mode,
        workspace: request.workspace,
        allow_shell: request.allow_shell,
        trust_mode: request.trust_mode,
        auto_approve: request.auto_approve,
        archived: Some(true),
        ..CreateThread::default()
    };
    let draft = app.draft(draft).await?;
    let input = app.input(&draft, &prompt, StartTurn::default()).await?;
    let found = app.open_thread(draft, started).await?;
    let id = found.id;
    let (turn_id, answer) = app.start_turn(found, input).await?;
    let events = app.runtime.subscribe_after(id, 0).await?;
    let opening = OneShotStarted {
        thread_id: answer.thread.id,
        turn_id: answer.turn.id,
        model: answer.thread.model,
        mode: answer.thread.mode,
        workspace: answer.thread.workspace,
    };
    let (frames, response) = sse::channel();
    let stopping = app.stopping.clone();
    tokio::spawn(async move {
        let first = sse::named("turn.started", &opening);
        let telling = async {
            if frames.send(first).await.is_ok() {
                tell(events, turn_id, &frames).await;
            }
        };
        tokio::select! {
            () = telling => {}
            () = stopping.cancelled() => {
                let _ = frames.try_send(sse::comment("shutdown"));
            }
        }
        drop(place);
    });
    Ok(response)
}

/// Tells a turn until its end, or until nobody listens.
async fn tell(mut events: EventStream, turn_id: TurnId, frames: &mpsc::Sender<Bytes>) {
    while let Some(event) = events.next().await {
        if event.context.turn_id != Some(turn_id) {
            continue;
        }
        let Some(change) = change(&event) else {
            continue;
        };
        let is_end = matches!(change, Change::TurnEnded(_));
        for frame in frames_of(&event, change) {
            if frames.send(frame).await.is_err() {
                return;
            }
        }
        if is_end {
            let _ = frames.send(sse::named("done", &json!({}))).await;
            return;
        }
    }
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
        Change::Wait(_) => {
            let Some(shown) = view::view(event, Include::default()) else {
                return Vec::new();
            };
            // Calls of external tools have no frame of their own here: the stream registers none.
            let is_known = [
                EventName::ApprovalRequired,
                EventName::ApprovalDecided,
                EventName::ApprovalTimeout,
                EventName::UserInputRequired,
                EventName::UserInputAnswered,
                EventName::UserInputCanceled,
            ]
            .iter()
            .any(|name| name.as_str() == shown.event);
            if !is_known {
                return Vec::new();
            }
            let mut payload = shown.payload;
            let id = ["id", "approval_id", "input_id"]
                .iter()
                .find_map(|name| payload.get(*name).cloned());
            payload["id"] = id.unwrap_or(Value::Null);
            payload["thread_id"] = shown.thread_id.into();
            payload["turn_id"] = shown.turn_id.into();
            if let Some(status) = shown.event.strip_prefix("user_input.") {
                payload["status"] = status.into();
            }
            vec![sse::named(&shown.event, &payload)]
        }
        _ => Vec::new(),
    }
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
