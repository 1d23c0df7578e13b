//! A whole thread, or one turn of it: a cut at one number.

use axum::extract::{Path, State};
use windlass_core::items::Wait;
use windlass_core::typed_id::SessionId;
use windlass_protocol::{ThreadDetail, TurnDetail};
use windlass_store::queries;

use super::{Answer, ok};
use crate::app::{App, Shared};
use crate::error::ApiError;
use crate::http::query::Query;
use crate::threads::{FoundThread, Told, conversation, told};
use crate::{ids, view};

pub(super) async fn thread(
    State(app): State<Shared>,
    Path(id): Path<String>,
    query: Query,
) -> Answer {
    let newest = query.get::<usize>("turns")?.unwrap_or(usize::MAX);
    let (found, whole) = app.whole(&id, newest).await?;
    let told = conversation(&app, found.id, &whole, newest).await?;
    let mut thread = found.thread;
    thread.latest_turn_id = told
        .last()
        .map(|told| told.turn.id.clone())
        .or(thread.latest_turn_id);
    let mut detail = ThreadDetail {
        thread,
        turns: Vec::with_capacity(told.len()),
        items: Vec::new(),
        latest_seq: found.row.seq,
        pending_approvals: Vec::new(),
        pending_user_inputs: Vec::new(),
        pending_dynamic_tool_calls: Vec::new(),
    };
    for Told { turn, items, .. } in told {
        detail.turns.push(turn);
        detail.items.extend(items);
    }
    add_waits(&mut detail, found.id, &whole);
    ok(&detail)
}

impl App {
    /// Finds a thread by the id of the wire, with its newest turns, or at least the one in which something may wait.
    pub(super) async fn whole(
        &self,
        id: &str,
        newest: usize,
    ) -> Result<(FoundThread, queries::ThreadDetail), ApiError> {
        let not_found = || ApiError::thread_not_found(id);
        let stream = ids::parse_thread(id).ok_or_else(not_found)?.into();
        let whole = self.queries.thread_detail(&stream, newest.max(1)).await?;
        let whole = whole.ok_or_else(not_found)?;
        let found = FoundThread::read(whole.thread.clone())?.ok_or_else(not_found)?;
        Ok((found, whole))
    }
}

fn add_waits(detail: &mut ThreadDetail, session_id: SessionId, whole: &queries::ThreadDetail) {
    for change in whole.turns.iter().flat_map(|turn| turn.log.open_waits()) {
        match change.wait {
            Wait::CallRequested(data) => detail
                .pending_dynamic_tool_calls
                .extend(view::pending_call(session_id, &change, data)),
            Wait::ApprovalRequired(data) => detail
                .pending_approvals
                .push(view::pending_approval(&change, data)),
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
    let found = app.find(&id).await?;
    let turn_id = ids::parse_turn(&turn_id).ok_or_else(ApiError::turn_not_found)?;
    let own = app.queries.turn_detail(&found.row.stream, turn_id).await?;
    let shown = match own {
        Some(own) => Some(told(&own)),
        None if found.row.origin.is_some() => {
            let (_, whole) = app.whole(&id, usize::MAX).await?;
            let told = conversation(&app, found.id, &whole, usize::MAX).await?;
            told.into_iter().find(|told| told.id == turn_id)
        }
        None => None,
    };
    let Told { turn, items, .. } = shown.ok_or_else(ApiError::turn_not_found)?;
    ok(&TurnDetail { turn, items })
}
