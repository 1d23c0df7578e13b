//! A whole thread, or one turn of it: a cut at one number.

use axum::extract::{Path, State};
use windlass_core::items::Wait;
use windlass_protocol::{ErrorCode, ThreadDetail, TurnDetail};

use super::{Answer, ok};
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::http::query::Query;
use crate::threads::{Fold, Told, conversation};
use crate::view;

pub(super) async fn thread(
    State(app): State<Shared>,
    Path(id): Path<String>,
    query: Query,
) -> Answer {
    let newest = query.get::<usize>("turns")?;
    let entry = app.threads.find(&app.runtime, &id).await?;
    let fold = app.folds.now(&app.runtime, entry.id).await?;
    let mut told = conversation(&app, entry.id, &fold).await?;
    if let Some(newest) = newest {
        told.drain(..told.len().saturating_sub(newest));
    }
    // Not that of the list, which may be newer than the fold, but where the records are gone that it came with.
    let mut thread = match fold.digest.thread() {
        Some(thread) => thread,
        None => entry.thread()?,
    };
    thread.latest_turn_id = told
        .last()
        .map(|told| told.turn.id.clone())
        .or(thread.latest_turn_id);
    let mut detail = ThreadDetail {
        thread,
        turns: Vec::with_capacity(told.len()),
        items: Vec::new(),
        latest_seq: fold.seq,
        pending_approvals: Vec::new(),
        pending_user_inputs: Vec::new(),
        pending_dynamic_tool_calls: Vec::new(),
    };
    for Told { turn, items, .. } in told {
        detail.turns.push(turn);
        detail.items.extend(items);
    }
    add_waits(&app, &mut detail, entry.id, &fold);
    ok(&detail)
}

fn add_waits(
    app: &App,
    detail: &mut ThreadDetail,
    session_id: windlass_core::typed_id::SessionId,
    fold: &Fold,
) {
    for change in fold.log.open_waits() {
        match change.wait {
            Wait::CallRequested(data) => detail
                .pending_dynamic_tool_calls
                .extend(view::pending_call(session_id, &change, data)),
            Wait::ApprovalRequired(data) => {
                app.threads.note_approval(change.exec_id, session_id);
                let pending = view::pending_approval(&change, data);
                detail.pending_approvals.push(pending);
            }
            Wait::InputRequired(data) => detail
                .pending_user_inputs
                .push(view::pending_input(&change, data)),
            _ => {}
        }
    }
}

pub(super) async fn turn(
    State(app): State<Shared>,
    Path((id, turn_id)): Path<(String, String)>,
) -> Answer {
    let entry = app.threads.find(&app.runtime, &id).await?;
    let fold = app.folds.now(&app.runtime, entry.id).await?;
    let told = conversation(&app, entry.id, &fold).await?;
    let told = told.into_iter().find(|told| told.turn.id == turn_id);
    let Some(Told { turn, items, .. }) = told else {
        return Err(ApiError::new(ErrorCode::TurnNotFound, "Turn not found"));
    };
    ok(&TurnDetail { turn, items })
}
